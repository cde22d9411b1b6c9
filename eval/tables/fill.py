"""Filling a table from runs: one cell for each row, block and measure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.measures.registry import parse
from eval.tables.level import Level, differences, level, verdict
from eval.tables.published import Published
from eval.tables.spec import Block, Column, Row, TableSpec


@dataclass(frozen=True)
class Cell:
    """One value on the printed ×100 scale, beside the paper's.

    `value` is `None` with a `reason` where there is none; `verdict` stands at reproductions only.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    failed: int = 0
    published: float | None = None
    level: Level | None = None
    verdict: str = ""
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        if self.value is None or self.published is None:
            return None
        return self.value - self.published


@dataclass(frozen=True)
class FilledRow:
    """A row of one block: its cells, how its setting differs, its costs and where it came from."""

    row: Row
    cells: tuple[Cell, ...]
    differences: tuple[str, ...] = ()
    costs: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    reason: str = ""

    @property
    def level(self) -> Level | None:
        """The level of the row's cells, if it has any."""
        return next((cell.level for cell in self.cells if cell.level), None)

    @property
    def n(self) -> int:
        """The number of questions scored: the most of any column."""
        return max((cell.n for cell in self.cells), default=0)

    @property
    def failed(self) -> int:
        """The number of questions that could not be answered."""
        return max((cell.failed for cell in self.cells), default=0)


@dataclass(frozen=True)
class FilledBlock:
    """One block with its rows; `titles` define each column in full."""

    block: Block
    rows: tuple[FilledRow, ...]
    titles: Mapping[str, str]


@dataclass(frozen=True)
class FilledTable:
    """A whole table, ready to be written."""

    name: str
    profile: str
    spec: TableSpec
    blocks: tuple[FilledBlock, ...]


def fill_row(
    spec: TableSpec, block: Block, row: Row, folder: Path, root: Path, published: Published | None
) -> FilledRow:
    """Read a run's scores and manifest into a row."""
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    at = level(manifest, block.setting)
    cells = tuple(
        _cell(scores, column, at, _published(spec, block, row, column, published))
        for column in spec.columns
    )
    place = folder.relative_to(root) if folder.is_relative_to(root) else folder
    return FilledRow(
        row, cells, tuple(differences(manifest, block.setting)), scores["costs"], str(place)
    )


def missing_row(
    spec: TableSpec, block: Block, row: Row, reason: str, published: Published | None
) -> FilledRow:
    """Return a row without values of ours, with the reason."""
    cells = tuple(
        Cell(None, published=_published(spec, block, row, column, published), reason=reason)
        for column in spec.columns
    )
    return FilledRow(row, cells, reason=reason)


def titles(spec: TableSpec, rows: Sequence[FilledRow], root: Path) -> dict[str, str]:
    """Return each column's whole definition, with the denominators of the first run that has it."""
    found = {column.measure: parse(column.measure).title for column in spec.columns}
    for row in rows:
        if row.folder:
            scores = json.loads((root / row.folder / "scores.json").read_text(encoding="utf-8"))
            for name, title in scores["measures"].items():
                if name in found:
                    found[name] = title
            break
    return found


def _cell(scores: Mapping[str, Any], column: Column, at: Level, published: float | None) -> Cell:
    name = column.measure
    mean = scores["mean"].get(name)
    if mean is None:
        reason = scores["unavailable"].get(name) or "not measured"
        return Cell(None, published=published, reason=reason)
    interval, counts = scores["intervals"][name], scores["counts"][name]
    low = None if interval["low"] is None else 100 * interval["low"]
    high = None if interval["high"] is None else 100 * interval["high"]
    said = "" if published is None else verdict(100 * mean, low, high, published, at)
    return Cell(100 * mean, low, high, counts["n"], counts["n_failed"], published, at, said)


def _published(
    spec: TableSpec, block: Block, row: Row, column: Column, published: Published | None
) -> float | None:
    if published is None or row.published is None or column.published is None:
        return None
    where = {"method": row.published, "metric": column.published, **block.published}
    if spec.number and "table" not in where:
        where["table"] = spec.number
    return published.value(**where)
