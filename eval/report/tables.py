"""The tables of `results/tables/*.csv`, block by block, with their titles from `configs/table`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_PAPERS = ("memgas", "mgretrieval", "ours")
_NUMBERS = ("value", "low", "high", "published", "difference")
_KNOWN = frozenset(
    ["table", "profile", "block", "system", "measure", "definition", *_NUMBERS, "n",
     "failed", "level", "verdict", "settings that differ", "run", "reason", "category", "per",
     "scale", "mark", "no interval"]
)  # fmt: skip


def read_tables(folder: Path, configs: Path) -> list[dict[str, Any]]:
    """Return every table: title, paper, notes, blocks of columns, rows and cells.

    Fields of the CSV that this module does not know are passed on by name in a cell's `more`.
    Files of another form (a table of dataset statistics) are left out.
    """
    found = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if not {"table", "block", "system", "measure", "value"} <= set(reader.fieldnames or ()):
                continue
            rows = list(reader)
        if rows:
            found.append(_table(rows, configs))
    return sorted(found, key=_place)


def _place(table: Mapping[str, Any]) -> tuple[int, str, str]:
    paper = table["paper"]
    at = _PAPERS.index(paper) if paper in _PAPERS else len(_PAPERS)
    return at, str(table["number"] or "9"), table["name"]


def _table(rows: list[dict[str, str]], configs: Path) -> dict[str, Any]:
    name = rows[0]["table"]
    spec = _spec(configs / f"{name}.yaml")
    headings = {_column(c): str(c.get("heading") or "") for c in spec.get("columns", [])}
    blocks: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        blocks.setdefault(row["block"], []).append(row)
    return {
        "name": name,
        "profile": rows[0].get("profile", ""),
        "title": spec.get("title") or name,
        "paper": spec.get("paper") or "",
        "number": spec.get("number"),
        "notes": [str(note) for note in spec.get("notes", [])],
        "blocks": [_block(label, of, headings) for label, of in blocks.items()],
    }


def _column(column: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what tells a table's columns apart: measure or cost, category, divisor of a cost."""
    cost = column.get("cost")
    per = str(column.get("per") or "question") if cost else ""
    return str(column.get("measure") or cost), str(column.get("category") or ""), per


def _spec(path: Path) -> dict[str, Any]:
    try:
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    return spec if isinstance(spec, dict) else {}


def _block(
    label: str, rows: list[dict[str, str]], headings: Mapping[tuple[str, str, str], str]
) -> dict[str, Any]:
    columns: dict[tuple[str, str, str], dict[str, str]] = {}
    systems: dict[str, dict[str, Any]] = {}
    for row in rows:
        column = (row["measure"], row.get("category") or "", row.get("per") or "")
        definition = row.get("definition", "")
        columns.setdefault(
            column,
            {
                "heading": headings.get(column) or _short(definition),
                "measure": row["measure"],
                "definition": definition,
            },
        )
        system = systems.setdefault(
            row["system"],
            {
                "system": row["system"],
                "run": Path(row["run"]).name if row.get("run") else "",
                "differ": [d for d in row.get("settings that differ", "").split("; ") if d],
                "cells": {},
            },
        )
        system["cells"][column] = _cell(row)
    return {
        "label": label,
        "columns": list(columns.values()),
        "rows": [
            {**system, "cells": [system["cells"].get(column) for column in columns]}
            for system in systems.values()
        ],
    }


def _short(definition: str) -> str:
    return definition.partition(" (")[0] or "?"


def _cell(row: Mapping[str, str]) -> dict[str, Any]:
    cell: dict[str, Any] = {name: _number(row.get(name, "")) for name in _NUMBERS}
    cell["n"] = int(_number(row.get("n", "")) or 0)
    cell["failed"] = int(_number(row.get("failed", "")) or 0)
    cell |= {name: row.get(name, "") for name in ("level", "verdict", "reason", "mark")}
    cell["no_interval"] = row.get("no interval", "")
    more = {k: v for k, v in row.items() if k and k not in _KNOWN and isinstance(v, str) and v}
    return {**cell, "more": more} if more else cell


def _number(text: str | None) -> float | None:
    try:
        return round(float(text or ""), 4)
    except ValueError:
        return None
