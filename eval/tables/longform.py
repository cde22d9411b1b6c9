"""A filled table as long-form CSV: one line a cell."""

from __future__ import annotations

import csv
import io

from eval.tables.fill import FilledTable
from eval.tables.remarks import mark

FIELDS = (
    "table", "profile", "block", "system", "measure", "definition", "value", "low", "high", "n",
    "failed", "published", "difference", "level", "verdict", "settings that differ", "run",
    "reason", "category", "per", "scale", "difference in %", "mark", "difference to reference",
    "p (Holm)", "remark", "no interval",
)  # fmt: skip


def comma_separated(table: FilledTable) -> str:
    """Return every cell as a row of long-form CSV.

    `measure` is a measure's name or a cost word; `per` and `scale` are empty for measures. The
    comparison with the reference row stands at the cells of its measure.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for block in table.blocks:
        for row in block.rows:
            for column, cell in zip(table.spec.columns, row.cells, strict=True):
                primary = column.measure == table.spec.primary and not column.category
                compared = row.compared if primary else None
                writer.writerow(
                    {
                        "table": table.name,
                        "profile": table.profile,
                        "block": block.block.label,
                        "system": row.row.label,
                        "measure": column.measure or column.cost,
                        "definition": block.titles[column.name],
                        "value": _digits(cell.value),
                        "low": _digits(cell.low),
                        "high": _digits(cell.high),
                        "n": cell.n,
                        "failed": cell.failed,
                        "published": "" if cell.published is None else cell.published,
                        "difference": _digits(cell.difference),
                        "level": cell.level or "",
                        "verdict": cell.verdict,
                        "settings that differ": "; ".join(row.differences),
                        "run": row.folder,
                        "reason": cell.reason,
                        "category": column.category or "",
                        "per": column.per if column.cost else "",
                        "scale": column.scale if column.cost else "",
                        "difference in %": _digits(cell.percent if column.cost else None),
                        "mark": mark(row, column, table.spec),
                        "difference to reference": _digits(
                            compared.difference if compared else None
                        ),
                        "p (Holm)": _digits(compared.adjusted if compared else None),
                        "remark": cell.remark,
                        "no interval": cell.no_interval,
                    }
                )
    return out.getvalue()


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
