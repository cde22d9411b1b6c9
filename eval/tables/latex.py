"""A filled table as LaTeX."""

from __future__ import annotations

from eval.tables.fill import Cell, FilledTable
from eval.tables.remarks import half, label, mark, number
from eval.tables.spec import Column

_SYMBOLS = {
    "†": "$^\\dagger$", "≥": "$\\geq$", "≤": "$\\leq$", "×": "$\\times$", "−": "$-$",
    "α": "$\\alpha$", "λ": "$\\lambda$", "▲": "$\\uparrow$", "▼": "$\\downarrow$", "–": "--",
}  # fmt: skip


def latex(table: FilledTable) -> str:
    """Return the table as LaTeX (booktabs): ours with its interval, the paper's in parentheses.

    ▲ and ▼ become arrows up and down.
    """
    spec = table.spec
    parts = [
        "% needs \\usepackage{booktabs}",
        f"% {spec.title}; profile {table.profile}",
        "% ours $\\pm$ half the 95 % interval (the paper's value)",
    ]
    if any(column.cost for column in spec.columns):
        parts.append("% costs are plain numbers, scores are x100")
    for block in table.blocks:
        headings = [_tex(block.block.label), *(_tex(c.heading) for c in spec.columns), "$n$"]
        parts += [f"% {line}" for line in block.footer]
        parts += [
            "\\begin{tabular}{l" + "r" * (len(headings) - 1) + "}",
            "\\toprule",
            " & ".join(headings) + " \\\\",
            "\\midrule",
        ]
        for row in block.rows:
            cells = [
                _cell(cell, column, _tex(mark(row, column, spec)))
                for column, cell in zip(spec.columns, row.cells, strict=True)
            ]
            parts.append(" & ".join([_tex(label(row, spec)), *cells, str(row.n)]) + " \\\\")
        parts += ["\\bottomrule", "\\end{tabular}", ""]
    return "\n".join(parts)


def _tex(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    for character, command in _SYMBOLS.items():
        text = text.replace(character, command)
    return text


def _cell(cell: Cell, column: Column, mark: str) -> str:
    ours = "--" if cell.value is None else number(cell.value, column)
    if cell.value is not None and (width := half(cell)) is not None:
        ours += f"\\,$\\pm$\\,{number(width, column)}"
    ours += mark
    return ours if cell.published is None else f"{ours} ({number(cell.published, column)})"
