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
        for judge, verdict in judgements.items():
            check_verdict(str(judge), verdict)
        return cls(
            id=_text(line, "id") or "",
            question=_text(line, "question") or "",
            answer=answer,
            reference=_text(line, "reference"),
            category=_text(line, "category") or "",
            conversation=_text(line, "conversation") or "",
            ranked_sessions=_ids(line, "ranked_sessions"),
            evidence_sessions=evidence,
            has_evidence=_truth(line, "has_evidence", evidence is not None),
            judgements=judgements,
            failed=bool(line.get("error")),
            # a record without an answer comes from a run that only retrieved
            asked="answer" in line and not (is_record and answer is None),
        )


def _text(line: Mapping[str, Any], name: str) -> str | None:
    value = line.get(name)
    if isinstance(value, list | dict | bool):  # JSON's true is neither the text "True" nor 1
        raise UserError(f"'{name}' must be a text or a number{_instead(value)}")
    return None if value is None else str(value)


def _ids(line: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = line.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or any(
        isinstance(v, list | dict | bool) or v is None for v in value
    ):
        raise UserError(f"'{name}' must be a list of ids")
    return tuple(str(v) for v in value)


def _truth(line: Mapping[str, Any], name: str, default: bool) -> bool:
    value = line.get(name, default)
    if not isinstance(value, bool):
        raise UserError(f"'{name}' must be true or false")
    return value


def _instead(value: Any) -> str:
    return f", not {str(value).lower()}" if isinstance(value, bool) else ""


def check_verdict(judge: str, verdict: Any) -> None:
    """Refuse a verdict whose scores are no numbers; a boolean is none, though Python counts it."""
    scores = verdict.get("scores") if isinstance(verdict, Mapping) else verdict
    if scores is None:
        return
    if not isinstance(scores, Mapping):
        raise UserError(f"the verdict of judge '{judge}' must hold an object of 'scores'")
    for name, value in scores.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"score '{name}' of judge '{judge}' must be a number{_instead(value)}")
