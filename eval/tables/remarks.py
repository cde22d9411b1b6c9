"""What stands under a table, whatever its format: settings that differ, reasons, marks, ratios."""

from __future__ import annotations

from collections.abc import Sequence

from eval.summary import cut_share
from eval.tables.fill import Cell, FilledBlock, FilledRow, FilledTable
from eval.tables.spec import Column, TableSpec

DASH = "–"


def legend(spec: TableSpec) -> str:
    """Return how a cell is to be read."""
    said = []
    if any(column.measure for column in spec.columns):
        said.append(
            "Each cell: ours ± half the 95 % interval / the paper's value (difference). Scores are "
            "×100."
        )
    if any(column.cost for column in spec.columns):
        said.append(
            "Costs are plain numbers in their column's unit, not ×100: ours / the paper's value "
            "(difference in %); they have no interval, and so no verdict."
        )
    said.append(
        "Levels: *exact* and *own prompts* may be read as a reproduction; *other model*, *cut* and "
        "*sample* may not."
    )
    return " ".join(said)


def remarks(table: FilledTable, block: FilledBlock) -> list[str]:
    """Return the lines under a block, in one order for every format."""
    columns = table.spec.columns
    lines = []
    shared = _shared([row for row in block.rows if row.folder])
    if shared:
        lines.append(f"differs from the paper in every row: {'; '.join(shared)}")
    own: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for row in block.rows:
        rest = [d for d in row.differences if d not in shared]
        if rest:
            own.setdefault("; ".join(rest), []).append(row.row.label)
        if row.reason:
            missing.setdefault(row.reason, []).append(row.row.label)
    lines += [f"{', '.join(labels)}: {reason}" for reason, labels in missing.items()]
    lines += [f"{', '.join(labels)}: {text}" for text, labels in own.items()]
    if any(row.row.ours for row in block.rows):
        lines.append("†: a control row of ours, not in the paper")
    lines += _of_cells(block, columns)
    lines += _without_interval(block, columns)
    lines += _cut_texts(block)
    lines += block.footer
    lines += _ratios(table, block)
    return lines


def _cut_texts(block: FilledBlock) -> list[str]:
    """Say which share of the encoded texts was longer than the encoder's window, row by row."""
    shares: dict[str, list[str]] = {}
    for row in block.rows:
        share = cut_share(row.costs.get("counts", {}))
        if share is not None:
            shares.setdefault(share, []).append(row.row.label)
    told = [
        share if len(shares) == 1 else f"{share} ({', '.join(of)})" for share, of in shares.items()
    ]
    return [f"texts cut at the encoder's window: {'; '.join(told)}"] if told else []


def scope(block: FilledBlock) -> list[str]:
    """Say how many questions were scored and failed, and the level, by row where rows differ."""
    run = [row for row in block.rows if row.folder]
    sayings: dict[str, list[str]] = {}
    for row in run:
        failed = f"{row.failed} failed" if row.failed else "none failed"
        saying = f"n = {row.n}, {failed}; level: {row.level or 'none'}"
        sayings.setdefault(saying, []).append(row.row.label)
    if len(sayings) == 1:
        return [f"every row: {saying}" for saying in sayings]
    return [f"{', '.join(labels)}: {saying}" for saying, labels in sayings.items()]


def label(row: FilledRow, spec: TableSpec) -> str:
    """Return a row's label with its dagger, and its mark where no column can carry it."""
    said = f"{row.row.label} †" if row.row.ours else row.row.label
    return f"{said} {row.mark}" if row.mark and not _primary(spec) else said


def mark(row: FilledRow, column: Column, spec: TableSpec) -> str:
    """Return the row's mark in the column of the measure that it was compared by."""
    return row.mark if column is _primary(spec) else ""


def number(value: float, column: Column) -> str:
    """Return a value as this column prints numbers."""
    return f"{value:.{column.digits}f}"


def half(cell: Cell) -> float | None:
    """Return half the width of a cell's interval, if it has one."""
    return None if cell.low is None or cell.high is None else (cell.high - cell.low) / 2


def _primary(spec: TableSpec) -> Column | None:
    """Return the column of the primary measure over all questions, if the table has one."""
    if spec.primary is None:
        return None
    return next((c for c in spec.columns if c.measure == spec.primary and not c.category), None)


def _shared(rows: Sequence[FilledRow]) -> list[str]:
    if not rows:
        return []
    return [d for d in rows[0].differences if all(d in row.differences for row in rows)]


def _of_cells(block: FilledBlock, columns: Sequence[Column]) -> list[str]:
    """Return the reasons and remarks of single cells, each once, with the rows it is about."""
    run = [row for row in block.rows if not row.reason]
    found: dict[str, list[str]] = {}
    for row in run:
        for column, cell in zip(columns, row.cells, strict=True):
            if said := cell.reason or cell.remark:
                found.setdefault(f"{column.heading}: {said}", []).append(row.row.label)
    return [
        said if len(labels) == len(run) else f"{said} ({', '.join(labels)})"
        for said, labels in found.items()
    ]


def _without_interval(block: FilledBlock, columns: Sequence[Column]) -> list[str]:
    """Say why cells have no ±, once a reason, with the columns that it is about."""
    found: dict[str, dict[str, None]] = {}
    for row in block.rows:
        for column, cell in zip(columns, row.cells, strict=True):
            if cell.no_interval:
                found.setdefault(cell.no_interval, {})[column.heading] = None
    return [f"without ±: {why} ({', '.join(headings)})" for why, headings in found.items()]


def _ratios(table: FilledTable, block: FilledBlock) -> list[str]:
    """Return the relative gains that the paper states, beside ours."""
    found = []
    rows = {row.row.label: row for row in block.rows}
    for ratio in table.spec.ratios:
        at = table.spec.columns.index(ratio.column(table.spec.columns))
        ours, against = (rows[name].cells[at].value for name in (ratio.row, ratio.against))
        heading = table.spec.columns[at].heading
        value = DASH
        if ours is not None and against:
            value = f"{100 * (ours / against - 1):+.2f} % (level: {rows[ratio.row].level})"
        found.append(
            f"{heading}, {ratio.row} against {ratio.against}: {value} "
            f"(the paper states {ratio.value:+.2f} %, {ratio.source})"
        )
    return found
