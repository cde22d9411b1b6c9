"""The text that the answering model reads: sessions in rank order, each under its date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is shown of one recalled session; `summary` and `keywords` go to the filter only."""

    date: str
    content: str
    summary: str = ""
    keywords: str = ""


def dated_block(date: str, content: str) -> str:
    """Return content under its `Session Date` line, which is left out where there is no date."""
    return f"Session Date: {date}\n{content}" if date else content


def history(excerpts: Iterable[Excerpt]) -> str:
    """Return the unfiltered history block: date and content of each session."""
    return "\n\n".join(dated_block(e.date, e.content) for e in excerpts)


def memories(excerpts: Iterable[Excerpt]) -> str:
    """Return what the filter call reads: date, content, summary and keywords of each session."""
    blocks = []
    for excerpt in excerpts:
        lines = [dated_block(excerpt.date, excerpt.content)]
        if excerpt.summary:
            lines.append(f"Summary: {excerpt.summary}")
        if excerpt.keywords:
            lines.append(f"Keywords: {excerpt.keywords}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def filtered_history(excerpts: Sequence[Excerpt], kept: str, repeat_per_session: bool) -> str:
    """Return the history block made of the filter's output.

    Once, under the dates of all its sessions; or, as the official code does, a whole copy under
    the date of each session.
    """
    if repeat_per_session:
        return "\n\n".join(dated_block(e.date, kept) for e in excerpts)
    return dated_block("; ".join(e.date for e in excerpts if e.date), kept)
