"""What measures score: one answered question, from a run's record or from anyone's plain object.

A plain object is
`{"id", "question", "answer", "reference", "category"?, "ranked_sessions"?, "evidence_sessions"?}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memsys.errors import UserError


@dataclass(frozen=True)
class Item:
    """One question with its answer and its gold.

    `answer` is `None` for a null answer, which text measures read as an empty one; `asked` is
    false where the answering stage did not run at all, so that text measures do not apply.
    `reference` is `None` and `has_evidence` false where the benchmark has no gold of that kind.
    `ranked_sessions` must be the complete ranking of a conversation's sessions, best first.
    `judgements` maps a judge's name to `{"scores": {name: value} | None, "model", "prompt", …}`.
    `conversation` is the cluster of intervals; without one each item is its own.
    """

    id: str
    question: str = ""
    answer: str | None = None
    reference: str | None = None
    category: str = ""
    conversation: str = ""
    ranked_sessions: tuple[str, ...] | None = None
    evidence_sessions: tuple[str, ...] | None = None
    has_evidence: bool = False
    judgements: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failed: bool = False
    asked: bool = True

    def __post_init__(self) -> None:
        """Let an item without a conversation be its own cluster."""
        if not self.conversation:
            object.__setattr__(self, "conversation", self.id)

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Item:
        """Read one record or plain object. Raises `UserError` that names the faulty field."""
        if line.get("id") is None:
            raise UserError("there is no 'id'")
        evidence = _ids(line, "evidence_sessions")
        answer = _text(line, "answer")
        is_record = "run" in line
        judgements = line.get("judgements") or {}
        if not isinstance(judgements, Mapping):
            raise UserError("'judgements' must be an object")
        return cls(
            id=_text(line, "id") or "",
            question=_text(line, "question") or "",
            answer=answer,
            reference=_text(line, "reference"),
            category=_text(line, "category") or "",
            conversation=_text(line, "conversation") or "",
            ranked_sessions=_ids(line, "ranked_sessions"),
            evidence_sessions=evidence,
            has_evidence=bool(line.get("has_evidence", evidence is not None)),
            judgements=judgements,
            failed=bool(line.get("error")),
            # a record without an answer comes from a run that only retrieved
            asked="answer" in line and not (is_record and answer is None),
        )


def _text(line: Mapping[str, Any], name: str) -> str | None:
    value = line.get(name)
    if isinstance(value, list | dict):
        raise UserError(f"'{name}' must be a text or a number")
    return None if value is None else str(value)


def _ids(line: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = line.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or any(isinstance(v, list | dict) or v is None for v in value):
        raise UserError(f"'{name}' must be a list of ids")
    return tuple(str(v) for v in value)
