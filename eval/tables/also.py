"""Rows that a person adds to a table for once: `also=METHOD,METHOD` among the settings."""

from __future__ import annotations

from collections.abc import Sequence

from eval.outside import config_names
from eval.tables.spec import Row, TableSpec
from memsys.errors import UserError, suggest

_ALSO = "also="


def with_rows(spec: TableSpec, extra: Sequence[str]) -> tuple[TableSpec, list[str]]:
    """Return the table with a row for each method after `also=`, and the other settings.

    Such a row is marked as ours: the paper does not have it. Raises `UserError` for a method
    that has no config.
    """
    rest = [setting for setting in extra if not setting.startswith(_ALSO)]
    wanted = [s.removeprefix(_ALSO) for s in extra if s.startswith(_ALSO)]
    known = config_names("method")
    rows = list(spec.rows)
    for method in ",".join(wanted).split(",") if wanted else ():
        if method not in known:
            raise UserError(f"also={method}: there is no such method.{suggest(method, known)}")
        if method not in {row.label for row in rows}:
            rows.append(Row(label=method, method=method, ours=True))
    return spec.model_copy(update={"rows": tuple(rows)}), rest
