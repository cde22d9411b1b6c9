"""A filled table in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.tables.fill import Cell, FilledTable
from eval.tables.remarks import DASH, half, label, mark, number, remarks, scope
from eval.tables.spec import Column

_NAMES = 24  # the most characters of a system's name on one line


def show_table(table: FilledTable, console: Console) -> None:
    """Print the table, narrow enough for a terminal: ours, its interval and the paper's stacked."""
    spec = table.spec
    console.print(f"\n[bold]{spec.title}[/bold]  (profile {table.profile})")
    said = "ours ± half the 95 % interval, then the paper's value in parentheses; scores are ×100"
    if any(column.cost for column in spec.columns):
        said += ", costs are plain numbers"
    console.print(said)
    for block in table.blocks:
        names = [label(row, spec) for row in block.rows]
        cells = [
            [
                _stacked(cell, column, mark(row, column, spec))
                for column, cell in zip(spec.columns, row.cells, strict=True)
            ]
            for row in block.rows
        ]
        title = block.block.label
        for places in _groups(spec.columns, names, cells, console.width):
            shown = Table(
                title=title,
                title_justify="left",
                title_style="italic",
                box=SIMPLE_HEAD,
                padding=(0, 1, 0, 0),
                pad_edge=False,
            )
            shown.add_column("system", max_width=_NAMES)
            for i in places:
                shown.add_column(spec.columns[i].heading, justify="right", no_wrap=True)
            for row, name, texts in zip(block.rows, names, cells, strict=True):
                style = "dim" if row.reason else None
                shown.add_row(name, *(texts[i] for i in places), style=style)
            console.print(shown)
            title = "(continued)"
        for line in [*scope(block), *remarks(table, block)]:
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _groups(
    columns: Sequence[Column], names: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> Iterator[list[int]]:
    """Yield the columns that fit beside the systems' names, as many as there is room for."""
    room = width - min(_NAMES, max(map(len, ["system", *names]))) - 1
    group: list[int] = []
    taken = 0
    for i, column in enumerate(columns):
        lines = [column.heading, *(text for row in cells for text in row[i].split("\n"))]
        needed = max(map(len, lines)) + 1
        if group and taken + needed > room:
            yield group
            group, taken = [], 0
        group.append(i)
        taken += needed
    yield group


def _stacked(cell: Cell, column: Column, mark: str) -> str:
    lines = [DASH if cell.value is None else f"{number(cell.value, column)}{mark}"]
    if (width := half(cell)) is not None:
        lines.append(f"±{number(width, column)}")
    if cell.published is not None:
        lines.append(f"({number(cell.published, column)})")
    return "\n".join(lines)
