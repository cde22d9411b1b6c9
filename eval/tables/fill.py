"""Filling a table from runs: one cell for each row, block and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval.config import CONFIGS
from eval.costs import Missing, RunCosts
from eval.measures.registry import parse
from eval.prices import PriceList
from eval.scoring import why_no_interval
from eval.tables.level import Level, differences, level, verdict
from eval.tables.marks import Compared, Marks, compare
from eval.tables.measured import Measured, RunFolders
from eval.tables.published import Published
from eval.tables.spec import Block, Column, Row, TableSpec, category_code
from memsys.datasets.configured import configured


@dataclass(frozen=True)
class Cell:
    """One value as printed, beside the paper's: a score ×100, a cost times its column's scale.

    `value` is `None` with a `reason` where there is none. A cost has no interval and hence no
    `verdict`, which stands at reproductions only; `remark` says how it was measured, and
    `no_interval` why a score has none.
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
    remark: str = ""
    no_interval: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        if self.value is None or self.published is None:
            return None
        return self.value - self.published

    @property
    def percent(self) -> float | None:
        """The difference in per cent of the paper's value."""
        if self.difference is None or not self.published:
            return None
        return 100 * self.difference / self.published


@dataclass(frozen=True)
class FilledRow:
    """A row of one block: its cells, how its setting differs, its costs and where it came from.

    `compared` is how it stands to the block's reference row, where the table has one.
    """

    row: Row
    cells: tuple[Cell, ...]
    differences: tuple[str, ...] = ()
    costs: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    reason: str = ""
    compared: Compared | None = None

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

    @property
    def mark(self) -> str:
        """▲ or ▼ where the row differs from the reference row by more than chance."""
        return self.compared.mark if self.compared else ""


@dataclass(frozen=True)
class FilledBlock:
    """One block with its rows; `titles` define each column in full, by its name.

    `footer` says how rows were compared, if they were.
    """

    block: Block
    rows: tuple[FilledRow, ...]
    titles: Mapping[str, str]
    footer: tuple[str, ...] = ()


@dataclass(frozen=True)
class FilledTable:
    """A whole table, ready to be written."""

    name: str
    profile: str
    spec: TableSpec
    blocks: tuple[FilledBlock, ...]


def fill_block(
    spec: TableSpec,
    block: Block,
    found: Mapping[str, Path | str],
    root: Path,
    published: Published | None,
    folders: RunFolders,
) -> FilledBlock:
    """Fill a block from the folder of each row's run, or the reason why it has none."""
    rows: list[FilledRow] = []
    measured: dict[str, Measured] = {}
    for row in spec.rows:
        place = found[row.label]
        if isinstance(place, str):
            rows.append(missing_row(spec, block, row, place, published))
            continue
        one = Measured(folders.of(place), measures_of(spec), row.where)
        measured[row.label] = one
        rows.append(_filled_row(spec, block, row, one, root, published))
    marks = _marks(spec, measured)
    return FilledBlock(
        block,
        tuple(_with_mark(row, marks) for row in rows),
        titles(spec, list(measured.values())),
        marks.footer if marks else (),
    )


def fill_row(
    spec: TableSpec, block: Block, row: Row, folder: Path, root: Path, published: Published | None
) -> FilledRow:
    """Read a run's files into a row."""
    measured = Measured(RunFolders({}).of(folder), measures_of(spec), row.where)
    return _filled_row(spec, block, row, measured, root, published)


def missing_row(
    spec: TableSpec, block: Block, row: Row, reason: str, published: Published | None
) -> FilledRow:
    """Return a row without values of ours, with the reason."""
    cells = tuple(
        Cell(None, published=_published(spec, block, row, column, published), reason=reason)
        for column in spec.columns
    )
    return FilledRow(row, cells, reason=reason)


def measures_of(spec: TableSpec) -> tuple[str, ...]:
    """Return the measures that a table reads, each once: its columns' and its primary one."""
    named = [column.measure for column in spec.columns if column.measure]
    return tuple(dict.fromkeys([*named, *([spec.primary] if spec.primary else [])]))


def titles(spec: TableSpec, rows: Sequence[Measured]) -> dict[str, str]:
    """Return each column's whole definition, with the denominators of the first run there is."""
    found = {column.name: column.definition for column in spec.columns}
    whole = [row for row in rows if not row.where] or [row for row in rows if not row.nothing]
    first = whole[0] if whole else None
    if first is not None and measures_of(spec):
        known = first.scores["measures"]
        for column in spec.columns:
            if column.measure and not column.category:
                found[column.name] = known.get(parse(column.measure).name, found[column.name])
    return found


def _filled_row(
    spec: TableSpec,
    block: Block,
    row: Row,
    measured: Measured,
    root: Path,
    published: Published | None,
) -> FilledRow:
    if measured.nothing:
        return missing_row(spec, block, row, measured.nothing, published)
    manifest, folder = measured.run.manifest, measured.run.path
    at = level(manifest, block.setting)
    paid = any(column.cost for column in spec.columns)
    costs = measured.costs(PriceList.read(CONFIGS)) if paid else None
    cells = []
    for column in spec.columns:
        theirs = _published(spec, block, row, column, published)
        if column.cost is not None and costs is not None:
            cells.append(_cost(costs, column, at, theirs))
        else:
            cells.append(_score(measured.scores, block, column, at, theirs))
    place = folder.relative_to(root) if folder.is_relative_to(root) else folder
    apart = tuple(differences(manifest, block.setting))
    return FilledRow(row, tuple(cells), apart, measured.run.scores.get("costs", {}), str(place))


def _score(
    scores: Mapping[str, Any], block: Block, column: Column, at: Level, published: float | None
) -> Cell:
    name = parse(str(column.measure)).name
    reason = scores["unavailable"].get(name)
    if column.category is None:
        mean, of = scores["mean"].get(name), scores["counts"].get(name, {})
        interval = scores["intervals"].get(name, {})
    else:
        code = category_code(configured(block.dataset).CATEGORY_NAMES, column.category)
        of = interval = scores["by_category"].get(code, {}).get(name, {})
        mean = of.get("mean")
        if code is None:
            reason = f"{block.dataset} has no category '{column.category}'"
        elif not of and code not in scores["by_category"]:
            reason = reason or f"no question of category '{column.category}'"
    if mean is None:
        return Cell(None, published=published, reason=reason or "not measured")
    low = None if interval["low"] is None else 100 * interval["low"]
    high = None if interval["high"] is None else 100 * interval["high"]
    said = "" if published is None else verdict(100 * mean, low, high, published, at)
    counted = (of["n"], of["n_failed"])
    why = why_no_interval(interval)
    return Cell(100 * mean, low, high, *counted, published, at, said, no_interval=why)


def _cost(costs: RunCosts, column: Column, at: Level, published: float | None) -> Cell:
    found = costs.value(str(column.cost), column.per)
    if isinstance(found, Missing):
        return Cell(None, published=published, reason=found.reason)
    return Cell(
        found * column.scale,
        n=costs.questions,
        failed=costs.failed,
        published=published,
        level=at,
        remark=costs.remark(str(column.cost)),
    )


def _published(
    spec: TableSpec, block: Block, row: Row, column: Column, published: Published | None
) -> float | None:
    selector = column.selector
    if published is None or row.published is None or selector is None:
        return None
    where = {"method": row.published, **block.published, **selector}
    if spec.number and "table" not in where:
        where["table"] = spec.number
    return published.value(**where)


def _marks(spec: TableSpec, measured: Mapping[str, Measured]) -> Marks | None:
    if spec.reference is None or spec.primary is None:
        return None
    values = {label: one.values(spec.primary) for label, one in measured.items() if not one.nothing}
    return compare(values, spec.reference, parse(spec.primary).label)


def _with_mark(row: FilledRow, marks: Marks | None) -> FilledRow:
    compared = marks.rows.get(row.row.label) if marks else None
    if compared is None:
        return row
    return replace(row, compared=compared)
