"""Writing a filled table: Markdown, CSV, LaTeX, and the terminal."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.tables.fill import Cell, FilledBlock, FilledRow, FilledTable

DASH = "–"
_FIELDS = (
    "table", "profile", "block", "system", "measure", "definition", "value", "low", "high", "n",
    "failed", "published", "difference", "level", "verdict", "settings that differ", "run",
    "reason",
)  # fmt: skip
_LEGEND = (
    "Each cell: ours ± half the 95 % interval / the paper's value (difference). All values ×100. "
    "Levels: *exact* and *own prompts* may be read as a reproduction; *other model*, *cut* and "
    "*sample* may not."
)


def write_table(table: FilledTable, folder: Path) -> list[Path]:
    """Write `<name>-<profile>.md`, `.csv` and `.tex` into `folder`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{table.name}-{table.profile}"
    written = []
    for suffix, text in (
        (".md", markdown(table)),
        (".csv", comma_separated(table)),
        (".tex", latex(table)),
    ):
        path = folder / f"{stem}{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def markdown(table: FilledTable) -> str:
    """Return the table as Markdown, with definitions, differences and ratios."""
    lines = [f"# {table.spec.title}", "", f"Profile `{table.profile}`. {_LEGEND}", ""]
    for block in table.blocks:
        lines += [f"## {block.block.label}", ""]
        headings = ["system", *(c.heading for c in table.spec.columns), "n", "failed", "level"]
        lines += [_line(headings), _line(["---"] * len(headings))]
        for row in block.rows:
            cells = [_text(cell) for cell in row.cells]
            lines.append(_line([_label(row), *cells, _n(row), _failed(row), row.level or DASH]))
        lines += ["", *_remarks(table, block)]
    lines += [f"- {note}" for note in table.spec.notes]
    return "\n".join(lines).rstrip() + "\n"


def comma_separated(table: FilledTable) -> str:
    """Return every cell as a row of long-form CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    for block in table.blocks:
        for row in block.rows:
            for column, cell in zip(table.spec.columns, row.cells, strict=True):
                writer.writerow(
                    [
                        table.name,
                        table.profile,
                        block.block.label,
                        row.row.label,
                        column.measure,
                        block.titles[column.measure],
                        *(_digits(v) for v in (cell.value, cell.low, cell.high)),
                        cell.n,
                        cell.failed,
                        "" if cell.published is None else cell.published,
                        _digits(cell.difference),
                        cell.level or "",
                        cell.verdict,
                        "; ".join(row.differences),
                        row.folder,
                        cell.reason,
                    ]
                )
    return out.getvalue()


def latex(table: FilledTable) -> str:
    """Return the table as LaTeX (booktabs): ours with its interval, the paper's in parentheses."""
    parts = [
        "% needs \\usepackage{booktabs}",
        f"% {table.spec.title}; profile {table.profile}",
        "% ours $\\pm$ half the 95 % interval (the paper's value)",
    ]
    for block in table.blocks:
        columns = table.spec.columns
        parts += [
            "\\begin{tabular}{l" + "r" * (len(columns) + 1) + "}",
            "\\toprule",
            " & ".join([_tex(block.block.label), *(_tex(c.heading) for c in columns), "$n$"])
            + " \\\\",
            "\\midrule",
        ]
        for row in block.rows:
            cells = [_tex_cell(cell) for cell in row.cells]
            parts.append(" & ".join([_tex(_label(row)), *cells, str(row.n)]) + " \\\\")
        parts += ["\\bottomrule", "\\end{tabular}", ""]
    return "\n".join(parts)


def show_table(table: FilledTable, console: Console) -> None:
    """Print the table, narrow enough for a terminal: ours, its interval and the paper's stacked."""
    console.print(f"\n[bold]{table.spec.title}[/bold]  (profile {table.profile})")
    console.print("ours ± half the 95 % interval, then the paper's value in parentheses; all ×100")
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
        for column in table.spec.columns:
            shown.add_column(column.heading, justify="right", no_wrap=True)
        for row in block.rows:
            cells = [_stacked(cell) for cell in row.cells]
            shown.add_row(_label(row), *cells, style="dim" if row.reason else None)
        console.print(shown)
        for remark in _remarks(table, block, plain=True):
            console.print(remark, highlight=False, markup=False, soft_wrap=True)


def _stacked(cell: Cell) -> str:
    lines = [DASH if cell.value is None else f"{cell.value:.2f}"]
    if cell.low is not None and cell.high is not None:
        lines.append(f"±{(cell.high - cell.low) / 2:.2f}")
    if cell.published is not None:
        lines.append(f"({cell.published:.2f})")
    return "\n".join(lines)


def _remarks(table: FilledTable, block: FilledBlock, plain: bool = False) -> list[str]:
    bullet = "  " if plain else "- "
    lines = [f"{bullet}{line}" for line in _scope(block)] if plain else []
    shared = _shared([row for row in block.rows if row.folder])
    if shared:
        lines.append(f"{bullet}differs from the paper in every row: {'; '.join(shared)}")
    own: dict[str, list[str]] = {}
    for row in block.rows:
        rest = [d for d in row.differences if d not in shared]
        if rest:
            own.setdefault("; ".join(rest), []).append(row.row.label)
        if row.reason:
            lines.append(f"{bullet}{row.row.label}: {row.reason}")
    lines += [f"{bullet}{', '.join(labels)}: {text}" for text, labels in own.items()]
    if any(row.row.ours for row in block.rows):
        lines.append(f"{bullet}†: a control row of ours, not in the paper")
    reasons = dict.fromkeys(
        f"{column.heading}: {cell.reason}"
        for row in block.rows
        if not row.reason
        for column, cell in zip(table.spec.columns, row.cells, strict=True)
        if cell.reason
    )
    lines += [f"{bullet}{reason}" for reason in reasons]
    lines += [f"{bullet}{ratio}" for ratio in _ratios(table, block)]
    if not plain:
        lines += ["", "Columns:", ""]
        lines += [f"- **{c.heading}**: {block.titles[c.measure]}" for c in table.spec.columns]
        lines += ["", "Runs:", ""]
        lines += [f"- {row.row.label}: `{row.folder}`" for row in block.rows if row.folder]
        lines.append("")
    return lines


def _scope(block: FilledBlock) -> list[str]:
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


def _shared(rows: list[FilledRow]) -> list[str]:
    if not rows:
        return []
    return [d for d in rows[0].differences if all(d in row.differences for row in rows)]


def _ratios(table: FilledTable, block: FilledBlock) -> list[str]:
    """Return the relative gains that the paper states, beside ours."""
    found = []
    columns = {c.measure: i for i, c in enumerate(table.spec.columns)}
    rows = {row.row.label: row for row in block.rows}
    for ratio in table.spec.ratios:
        at = columns[ratio.measure]
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


def _text(cell: Cell) -> str:
    ours = DASH if cell.value is None else f"{cell.value:.2f}{_half(cell)}"
    if cell.published is None:
        return ours
    difference = "" if cell.difference is None else f" ({cell.difference:+.2f})"
    mark = f" {cell.verdict}" if cell.verdict else ""
    return f"{ours} / {cell.published:.2f}{difference}{mark}"


def _half(cell: Cell) -> str:
    if cell.low is None or cell.high is None:
        return ""
    return f" ± {(cell.high - cell.low) / 2:.2f}"


def _label(row: FilledRow) -> str:
    return f"{row.row.label} †" if row.row.ours else row.row.label


def _n(row: FilledRow) -> str:
    return str(row.n) if row.folder else DASH


def _failed(row: FilledRow) -> str:
    return str(row.failed) if row.folder else DASH


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _tex(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text.replace("†", "$^\\dagger$").replace("≥", "$\\geq$")


def _tex_cell(cell: Cell) -> str:
    ours = "--" if cell.value is None else f"{cell.value:.2f}"
    if cell.value is not None and cell.low is not None and cell.high is not None:
        ours += f"\\,$\\pm$\\,{(cell.high - cell.low) / 2:.2f}"
    return ours if cell.published is None else f"{ours} ({cell.published:.2f})"
