"""What answering each question took, question by question, from the calls in its record.

The means are those of `eval.costs`; question by question they have intervals too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.costs import Cost
from eval.records import Record
from memsys.errors import UserError


def question_costs(records: Sequence[Record], cost: str) -> list[float | None]:
    """Return a cost of phase `question` for each record; `None` where it has no value.

    A reply from the store counts with its own tokens: the cost of the method, not of a rerun; a
    failed question counts with the calls that it made. Raises `UserError` for a cost that no
    single question has.
    """
    wanted = Cost.parse(cost)
    if wanted.phase != "question" or wanted.what in ("usd", "seconds"):
        raise UserError(f"'{cost}' is no cost that a figure can show question by question.")
    if not wanted.role:
        return [None if r["error"] else float(r[wanted.what]) for r in records]
    return [
        sum(_of(call, wanted.what) for call in record["calls"] if _plays(call, wanted.role))
        for record in records
    ]


def _plays(call: Mapping[str, Any], role: str) -> bool:
    return call["phase"] == "question" and role in ("all", call["role"])


def _of(call: Mapping[str, Any], what: str) -> float:
    if what == "calls":
        return 1.0
    if what == "tokens":
        return float(call["prompt_tokens"] + call["completion_tokens"])
    return float(call[what])
