"""One block's records by field, not one by one: what is alike stands together and packs well.

`assets/data.js` puts a record together again when its question is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def by_field(questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return questions whose `runs` give places in `records`, which holds a list for each field.

    Lists of recalled memories and of ranked sessions are turned too; ranks that only count from 1
    are left out, and so is which session is gold, as the question names those.
    """
    records: dict[str, list[Any]] = {}
    placed: dict[str, dict[str, Any]] = {}
    n = 0
    for place, question in questions.items():
        runs = {}
        for number, record in question["runs"].items():
            for name, value in record.items():
                records.setdefault(name, []).append(_TURNED.get(name, _same)(value))
            runs[number] = n
            n += 1
        placed[place] = {**question, "runs": runs}
    return {"questions": placed, "records": records}


def _same(value: Any) -> Any:
    return value


def _recalled(found: Mapping[str, Any]) -> list[Any]:
    """Return `[units, scores, hits, below, total]`."""
    turned = [[row[i] for row in found["shown"]] for i in (1, 2, 3)]
    return [*turned, found["below"], found["total"]]


def _sessions(rows: Sequence[Sequence[Any]] | None) -> list[Any] | None:
    """Return `[the first sessions, [[rank, session], …] of gold ones further down]`."""
    if rows is None:
        return None
    first = [row[1] for at, row in enumerate(rows, 1) if row[0] == at]
    return [first, [list(row[:2]) for row in rows[len(first) :]]]


_TURNED: dict[str, Callable[[Any], Any]] = {"recalled": _recalled, "sessions": _sessions}
