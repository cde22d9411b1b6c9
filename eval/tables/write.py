"""Writing a filled table: Markdown, CSV and LaTeX files; and the terminal."""

from __future__ import annotations

from pathlib import Path

from eval.tables.fill import FilledTable
from eval.tables.latex import latex
from eval.tables.longform import comma_separated
from eval.tables.markdown import markdown
from eval.tables.terminal import show_table

__all__ = ["comma_separated", "latex", "markdown", "show_table", "write_table"]


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
