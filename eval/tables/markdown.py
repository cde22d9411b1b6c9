"""A filled table as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from eval.tables.fill import Cell, FilledRow, FilledTable
from eval.tables.remarks import DASH, half, label, legend, mark, number, remarks
from eval.tables.spec import Column


def markdown(table: FilledTable) -> str:
    """Return the table as Markdown, with definitions, differences, marks and ratios."""
    spec = table.spec
    lines = [f"# {spec.title}", "", f"Profile `{table.profile}`. {legend(spec)}", ""]
    for block in table.blocks:
        lines += [f"## {block.block.label}", ""]
        headings = ["system", *(c.heading for c in spec.columns), "n", "failed", "level"]
        lines += [_line(headings), _line(["---"] * len(headings))]
        for row in block.rows:
            cells = [
                _cell(cell, column, mark(row, column, spec))
                for column, cell in zip(spec.columns, row.cells, strict=True)
            ]
            lines.append(_line([label(row, spec), *cells, *_counts(row), row.level or DASH]))
        lines += ["", *(f"- {remark}" for remark in remarks(table, block))]
        lines += ["", "Columns:", ""]
        lines += [f"- **{c.heading}**: {block.titles[c.name]}" for c in spec.columns]
        lines += ["", "Runs:", ""]
        lines += [f"- {row.row.label}: `{row.folder}`" for row in block.rows if row.folder]
        lines.append("")
    lines += [f"- {note}" for note in spec.notes]
    return "\n".join(lines).rstrip() + "\n"


def _cell(cell: Cell, column: Column, mark: str) -> str:
    ours = DASH if cell.value is None else number(cell.value, column)
    if (width := half(cell)) is not None:
        ours += f" ± {number(width, column)}"
    if mark:
        ours += f" {mark}"
    if cell.published is None:
        return ours
    verdict = f" {cell.verdict}" if cell.verdict else ""
    return f"{ours} / {number(cell.published, column)}{_difference(cell, column)}{verdict}"


def _difference(cell: Cell, column: Column) -> str:
    if column.cost is not None:
        return "" if cell.percent is None else f" ({cell.percent:+.1f} %)"
    return "" if cell.difference is None else f" ({cell.difference:+.{column.digits}f})"


def _counts(row: FilledRow) -> tuple[str, str]:
    return (str(row.n), str(row.failed)) if row.folder else (DASH, DASH)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
