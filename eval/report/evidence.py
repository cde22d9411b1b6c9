"""The evidence of questions in place: the turns around it, from the benchmark's own files.

A run's manifest says which files it read; their checksums must agree, or no text is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from eval.report.reading import LoadedRun
from memsys.datasets.base import Benchmark, Rules
from memsys.datasets.configured import configured
from memsys.dialogue import Conversation, Session
from memsys.errors import MemsysError

log = logging.getLogger(__name__)

_ABSENT = (
    "the benchmark's files are not at hand (fetch them with scripts/fetch.py, or set MEMSYS_DATA, "
    "and build the report again)"
)
AROUND = 2
"""How many turns before and after an evidence turn are shown."""
WHOLE = 40
"""How many turns of a session are shown where the evidence names the session alone."""
_CUTS = ("max_conversations", "max_sessions", "limit")


@dataclass
class Texts:
    """The conversations of one benchmark release, as far as asked for, or why there are none."""

    conversations: dict[str, Conversation] = field(default_factory=dict)
    reason: str = ""


def read_conversations(run: LoadedRun, wanted: set[str]) -> Texts:
    """Return the wanted conversations from the files that `run` read, if they are at hand."""
    try:
        benchmark = _benchmark(run)
        ours = {f["sha256"] for f in benchmark.info().plain()["files"]}
        theirs = {f["sha256"] for f in run.manifest["dataset_info"]["files"]}
        if ours != theirs:
            return Texts(reason="the benchmark's files here are not those that the run read")
        return Texts(dict(_wanted(benchmark, wanted)))
    except (MemsysError, OSError, ValueError, KeyError, StopIteration) as error:
        # the error itself names folders of this machine, and a report may be passed on
        log.info("no text for the report: %s", error)
        return Texts(reason=_ABSENT)


def _benchmark(run: LoadedRun) -> Benchmark:
    base = configured(run.dataset)
    kept = run.manifest["identity"]["dataset"]["settings"]
    told = {k: v for k, v in kept.items() if k in type(base).model_fields and k not in _CUTS}
    sample = "always" if run.manifest["dataset_info"]["is_sample"] else "never"
    path = (run.manifest["configuration"].get("dataset") or {}).get("path")
    settings = {**base.model_dump(), **told, "sample": sample, "path": path}
    return type(base).model_validate(settings)


def _wanted(benchmark: Benchmark, wanted: set[str]) -> Iterator[tuple[str, Conversation]]:
    left = set(wanted)
    for sample in benchmark.load(Rules()):
        if sample.conversation.id in left:
            yield sample.conversation.id, sample.conversation
            left.discard(sample.conversation.id)
        if not left:
            return


@cache
def category_names(dataset: str) -> Mapping[str, str]:
    """Return the printed names of a benchmark's categories; empty for an unknown benchmark."""
    try:
        return type(configured(dataset)).CATEGORY_NAMES
    except MemsysError:
        return {}


@dataclass
class Excerpts:
    """The turns of one conversation that some question's excerpt shows, each kept once.

    `plain()["sessions"]` maps a session to its date, number of turns, and turns by position:
    `[id, speaker, text, caption]`.
    """

    conversation: Conversation
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def around(self, turns: Sequence[str], sessions: Sequence[str]) -> list[list[Any]]:
        """Return `[session, [[from, to], …]]` in time order: what to show of each gold session.

        Positions are inclusive. A gold turn brings its neighbours; a gold session without a gold
        turn is shown from its start.
        """
        gold, found = set(turns), []
        for session in self.conversation.sessions:
            at = [i for i, turn in enumerate(session.turns) if turn.id in gold]
            spans = _merged(at, len(session.turns))
            if not spans and session.id in sessions and session.turns:
                spans = [[0, min(WHOLE, len(session.turns)) - 1]]
            if spans:
                self._keep(session, spans)
                found.append([session.id, spans])
        return found

    def missing(self, turns: Sequence[str]) -> list[str]:
        """Return the evidence turns that the conversation does not have (a faulty label)."""
        known = {turn.id for session in self.conversation.sessions for turn in session.turns}
        return [turn for turn in turns if turn not in known]

    def _keep(self, session: Session, spans: Sequence[Sequence[int]]) -> None:
        kept = self.sessions.setdefault(
            session.id, {"date": session.date_text, "n": len(session.turns), "turns": {}}
        )
        for first, last in spans:
            for i in range(first, last + 1):
                turn = session.turns[i]
                kept["turns"][str(i)] = [turn.id, turn.speaker, turn.text, turn.caption]


def _merged(at: Sequence[int], length: int) -> list[list[int]]:
    spans: list[list[int]] = []
    for i in at:
        first, last = max(0, i - AROUND), min(length - 1, i + AROUND)
        if spans and first <= spans[-1][1] + 1:
            spans[-1][1] = max(spans[-1][1], last)
        else:
            spans.append([first, last])
    return spans
