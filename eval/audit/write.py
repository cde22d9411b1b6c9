"""Writing an audit: one CSV and one Markdown file over all papers, and a screen of summary."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.audit.audit import Audit
from eval.audit.findings import FAULTS, ORDER, Row

_FIELDS = (
    "paper", "where", "dataset", "method", "metric", "printed", "test", "verdict", "why",
)  # fmt: skip
_TITLES = {
    "memgas": "MemGAS, Tables 1–9 and its text",
    "mgretrieval-stated": "MGRetrieval, the numbers of its text",
    "mgretrieval": "MGRetrieval, Tables 1–6",
}
_MEANING = (
    "*impossible*: no result prints so · *disagrees*: with the named table, count or total · "
    "*odd*: possible, but unlike all of its kind · *agrees* · *possible* · *not testable*: says why"
)


def write_audit(audits: Sequence[Audit], folder: Path) -> list[Path]:
    """Write `audit.md` and `audit.csv` into `folder`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in (("audit.md", markdown(audits)), ("audit.csv", comma_separated(audits))):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def comma_separated(audits: Sequence[Audit]) -> str:
    """Return one row for each cell and statement."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    for audit in audits:
        for row in audit.rows:
            place = row.place
            address = (place.paper, place.where, place.dataset, place.method, place.metric)
            writer.writerow([*address, row.printed, row.tests, row.verdict, row.why])
    return out.getvalue()


def markdown(audits: Sequence[Audit]) -> str:
    """Return the summary, the faults, the statements, and every row."""
    lines = ["# Audit of the published numbers", "", _MEANING, ""]
    for audit in audits:
        lines += [f"## {_TITLES[audit.name]}", "", _counted(audit), ""]
        lines += [f"- {said}" for said in _denominators(audit)]
        lines += [f"- {remark}" for remark in audit.remarks]
        statements = set(audit.statements)
        faults = [row for row in audit.rows if row.kind in FAULTS and row not in statements]
        lines += _section("Cells with a fault", faults)
        lines += _section("Statements", audit.statements)
        lines += _section("Every cell", [row for row in audit.rows if row not in statements])
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def show_audit(audits: Sequence[Audit], console: Console) -> None:
    """Print the summary: counts, denominators, what is wrong, and which statements fail."""
    table = Table("audited", *ORDER, box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for audit in audits:
        counts = Counter(row.kind for row in audit.rows)
        title = f"{_TITLES[audit.name]} ({len(audit.cells)} cells)"
        table.add_row(title, *(str(counts[kind] or "") for kind in ORDER))
    console.print(table)
    for audit in audits:
        for line in (*_denominators(audit), *_faults(audit)):
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
        for row in audit.statements:
            if row.kind in FAULTS:
                said = f"  {row.place.where}: {row.printed}: {row.verdict}"
                console.print(said, highlight=False, markup=False, soft_wrap=True)


def _counted(audit: Audit) -> str:
    counts = Counter(row.kind for row in audit.rows)
    said = ", ".join(f"{counts[kind]} {kind}" for kind in ORDER if counts[kind])
    return f"{len(audit.cells)} cells, {len(audit.statements)} statements: {said}."


def _denominators(audit: Audit) -> list[str]:
    found = []
    for one in audit.denominators:
        chosen = one.chosen
        misfits = ", ".join(f"{cell.method} {cell.text}" for cell in chosen.misfits)
        others = ", ".join(f"{n} fails {count}" for n, count in chosen.others.items() if count)
        said = f"{one.metrics}, {one.dataset}: k/{chosen.n} ({chosen.meaning})"
        said += f", all but {misfits}" if misfits else ", every cell"
        found.append(said + (f"; {others}" if others else ""))
    return found


def _faults(audit: Audit) -> list[str]:
    """Return the faulty cells in short: a row whose cells have one fault is one line."""
    statements = set(audit.statements)
    found: dict[str, list[str]] = {}
    for row in audit.rows:
        if row.kind in FAULTS and row not in statements:
            place = row.place
            key = f"{place.where}, {place.dataset}, {place.method}: {row.verdict}"
            found.setdefault(key, []).append(f"{place.metric} {row.printed}")
    lines = []
    for key, cells in found.items():
        where, _, verdict = key.rpartition(": ")
        # `impossible: neighbours …` holds the separator itself
        if where.endswith("impossible"):
            where, verdict = where.removesuffix(": impossible"), f"impossible: {verdict}"
        lines.append(f"{where}, {', '.join(cells)}: {verdict}")
    return lines


def _section(title: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    headings = ["where", "of", "printed", "test", "verdict", "why"]
    lines = ["", f"### {title}", "", _line(headings), _line(["---"] * len(headings))]
    for row in rows:
        place = row.place
        of = ", ".join(part for part in (place.dataset, place.method, place.metric) if part)
        lines.append(_line([place.where, of, row.printed, row.tests, row.verdict, row.why]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
