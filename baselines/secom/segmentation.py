"""SeCom's segmentation (§2): one call a session cuts its exchanges into topical segments.

As in the authors' code only the *number* of exchanges in each range counts: segment k takes the
next n_k exchanges.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.llm.structured import ask_json
from memsys.system import Tools

PACKAGE = "baselines.secom"


class Range(BaseModel):
    """The first and the last exchange of a segment."""

    start: int
    end: int


class Segmentation(BaseModel):
    """What the segmentation call returns."""

    segments: list[Range]


def blocks(exchanges: int, size: int) -> list[int]:
    """Return the segment lengths of the fallback: blocks of `size` exchanges."""
    return [min(size, exchanges - start) for start in range(0, exchanges, size)]


def read_counts(reply: Segmentation | None, text: str) -> list[int] | None:
    """Return the exchanges of each range; `None` for what the authors' parser would refuse.

    Refused are an unreadable reply, more than one answer in it, and an empty or reversed range.
    """
    if reply is None or text.count('"segments"') > 1:
        return None
    counts = [one.end - one.start + 1 for one in reply.segments]
    return counts if counts and min(counts) >= 1 else None


def repair(counts: Sequence[int], exchanges: int) -> tuple[list[int], bool]:
    """Make segment lengths add up to `exchanges`; the flag says whether they had to be changed.

    Left-over exchanges become one more segment (the authors' code drops them); what is too much
    is cut off, and segments emptied by that go.
    """
    repaired: list[int] = []
    for count in counts:
        left = exchanges - sum(repaired)
        if left > 0:
            repaired.append(min(count, left))
    if sum(repaired) < exchanges:
        repaired.append(exchanges - sum(repaired))
    return repaired, repaired != list(counts)


async def segment(
    tools: Tools,
    exchanges: Sequence[str],
    *,
    rubric: str,
    fallback_block: int,
    max_tokens: int,
    temperature: float,
) -> list[int]:
    """Return the lengths of the session's segments, which always add up to its exchanges."""
    numbered = "\n".join(f"Exchange {i}:\n{text}" for i, text in enumerate(exchanges))
    messages = render_to_fit(
        tools.chat,
        tools.prompts.get(PACKAGE, "segment"),
        cut="exchanges",
        role="main",
        max_tokens=max_tokens,
        event="secom.segment",
        exchanges=numbered,
        last=str(len(exchanges) - 1),
        rubric=rubric,
    )
    reply = await ask_json(
        tools.chat,
        messages,
        Segmentation,
        role="main",
        max_tokens=max_tokens,
        temperature=temperature,
        event="secom.segment",
        retries=0,
    )
    counts = read_counts(reply.value, reply.text)
    if counts is None:
        ledger.count("secom.segment:blocks")
        return blocks(len(exchanges), fallback_block)
    lengths, changed = repair(counts, len(exchanges))
    ledger.count("secom.segment:counts_repaired", int(changed))
    return lengths
