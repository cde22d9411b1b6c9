"""The rows of a bench: case, ours, reference, ratio, bar, and whether it holds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def row(
    case: str,
    ours: float,
    reference: float | None,
    unit: str,
    bar: float | None,
    *,
    more: bool = True,
) -> Row:
    """Return a row: with a reference the ratio must reach `bar`, alone ours itself.

    `more`: the more the better (a rate), and the ratio is ours to the reference; else the less
    the better (seconds), and the ratio is the reference to ours.
    """
    ratio = None
    if reference is not None:
        ratio = ours / reference if more else reference / ours
    shown = ours if ratio is None else ratio
    holds = bar is None or (shown >= bar if more or ratio is not None else shown <= bar)
    return {
        "case": case,
        "ours": ours,
        "reference": reference,
        "unit": unit,
        "ratio": ratio,
        "bar": bar,
        "holds": holds,
    }


def exact(case: str, value: float, bar: float, unit: str = "") -> Row:
    """Return a row about a value that must not exceed `bar`."""
    return row(case, value, None, unit, bar, more=False)


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a table."""
    lines = ["| case | ours | reference | ratio | bar | holds |", "|---|---:|---:|---:|---:|---|"]
    for r in rows:
        unit = f" {r['unit']}" if r["unit"] else ""
        ours, reference = (_shown(r[k], unit) for k in ("ours", "reference"))
        ratio, bar = (_shown(r[k], "") for k in ("ratio", "bar"))
        verdict = "" if r["bar"] is None else "yes" if r["holds"] else "**no**"
        lines.append(f"| {r['case']} | {ours} | {reference} | {ratio} | {bar} | {verdict} |")
    return "\n".join(lines)


def finish(run: Callable[[bool], list[Row]], parser: argparse.ArgumentParser) -> None:
    """Parse `--full` and `--json`, measure, and print."""
    parser.add_argument("--full", action="store_true", help="all sizes, more repeats")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    options = parser.parse_args()
    rows = run(options.full)
    print(markdown(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    text = f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return text + unit
