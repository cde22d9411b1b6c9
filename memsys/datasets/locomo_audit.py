"""The public audit of LoCoMo's labels, as an overlay for a second figure (`labels=audited`).

The audit (github dial481/locomo-audit) lists 156 faults among the 1,540 answerable questions: 99
spoil the gold answer, 57 only the evidence. It was made by a model with human review, so it never
changes the main figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from memsys.datasets import locomo_evidence
from memsys.datasets.fields import need, need_strings, read_json
from memsys.dialogue import Conversation, Question
from memsys.errors import UserError

EVIDENCE_ONLY = "WRONG_CITATION"
"""The one kind of fault that leaves the gold answer right."""

_ID = re.compile(r"locomo_(\d+)_qa(\d+)")


@dataclass(frozen=True, slots=True)
class Fault:
    """One audited question: what is wrong with it and which turns really hold its answer."""

    kind: str
    correct_evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """Faults by (position of the conversation in the file, index of the question)."""

    faults: Mapping[tuple[int, int], Fault]

    def apply(
        self, position: int, questions: Iterable[Question], conversation: Conversation
    ) -> Iterator[Question]:
        """Leave out questions with a spoilt gold answer and correct the evidence of the others."""
        turn_ids = {turn.id for session in conversation.sessions for turn in session.turns}
        for question in questions:
            fault = self.faults.get((position, question.index))
            if fault is None:
                yield question
            elif fault.kind == EVIDENCE_ONLY:
                evidence = locomo_evidence.repaired(fault.correct_evidence, turn_ids)
                yield replace(
                    question,
                    evidence_turns=evidence.turns,
                    evidence_sessions=evidence.sessions,
                    has_evidence=evidence.counts,
                    extra=question.extra | {"audit": fault.kind},
                )


def read(path: Path) -> Audit:
    """Read the audit's `errors.json`."""
    faults: dict[tuple[int, int], Fault] = {}
    for number, item in enumerate(read_json(path), 1):
        where = f"{path.name}, item {number}"
        match = _ID.fullmatch(need(item, "question_id", str, where))
        if match is None:
            raise UserError(f"{where}: question_id is not of the form locomo_0_qa1.")
        evidence = need_strings(item, "correct_evidence", where)
        kind = need(item, "error_type", str, where)
        faults[int(match[1]), int(match[2])] = Fault(kind, tuple(evidence))
    return Audit(faults)
