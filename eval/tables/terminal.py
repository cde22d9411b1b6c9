"""A filled table in the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.tables.fill import Cell, FilledTable
from eval.tables.remarks import DASH, half, label, mark, number, remarks, scope
from eval.tables.spec import Column


def show_table(table: FilledTable, console: Console) -> None:
    """Print the table, narrow enough for a terminal: ours, its interval and the paper's stacked."""
    spec = table.spec
    console.print(f"\n[bold]{spec.title}[/bold]  (profile {table.profile})")
    said = "ours ± half the 95 % interval, then the paper's value in parentheses; scores are ×100"
    if any(column.cost for column in spec.columns):
        said += ", costs are plain numbers"
    console.print(said)
    for block in table.blocks:
        shown = Table(
            title=block.block.label,
            title_justify="left",
            title_style="italic",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        shown.add_column("system", max_width=24)
        for column in spec.columns:
            shown.add_column(column.heading, justify="right", no_wrap=True)
        for row in block.rows:
            cells = [
                _stacked(cell, column, mark(row, column, spec))
                for column, cell in zip(spec.columns, row.cells, strict=True)
            ]
            shown.add_row(label(row, spec), *cells, style="dim" if row.reason else None)
        console.print(shown)
        for line in [*scope(block), *remarks(table, block)]:
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _stacked(cell: Cell, column: Column, mark: str) -> str:
    lines = [DASH if cell.value is None else f"{number(cell.value, column)}{mark}"]
    if (width := half(cell)) is not None:
        lines.append(f"±{number(width, column)}")
    if cell.published is not None:
        lines.append(f"({number(cell.published, column)})")
    return "\n".join(lines)
