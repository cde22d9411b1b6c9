"""The runs behind a figure: records, gold and provenance of each row and block of its table."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.figures.spec import FigureBase, table_of
from eval.measures.item import Item
from eval.measures.registry import parse
from eval.records import Key, Record, key_of
from eval.runfolder import RunFolder
from eval.scoring import Aggregate, FailedAs, Scored, evaluate
from eval.summary import items_of
from eval.tables.level import Level, differences, level
from eval.tables.measured import fits
from eval.tables.reproduce import FindsRuns, run_of
from eval.tables.spec import Block, Row, TableSpec
from memsys.errors import UserError


@dataclass(frozen=True)
class RunData:
    """One row of one block: its answered questions, or the `reason` why there are none."""

    block: Block
    row: Row
    records: Sequence[Record] = ()
    judgements: Sequence[Record] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    reason: str = ""
    _scored: dict[str, Scored | str] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def items(self) -> list[Item]:
        """The records as measures read them, in the records' order."""
        return items_of(self.records, self.judgements)

    def scored(self, measure: str) -> Scored | str:
        """Score the items by a measure, once, or say why this machine cannot."""
        if measure not in self._scored:
            failed_as: FailedAs = self.manifest["configuration"].get("failed_as") or "excluded"
            found = evaluate(parse(measure), self.items, failed_as)
            self._scored[measure] = found if isinstance(found, Scored) else found.reason
        return self._scored[measure]

    @property
    def keys(self) -> list[Key]:
        """Which question each item is."""
        return [key_of(record) for record in self.records]

    @property
    def level(self) -> Level | None:
        """How near the run is to the paper's setting."""
        return level(self.manifest, self.block.setting) if self.manifest else None

    @property
    def differences(self) -> tuple[str, ...]:
        """How the run's setting differs from the paper's."""
        return tuple(differences(self.manifest, self.block.setting)) if self.manifest else ()

    @property
    def failed(self) -> int:
        """How many questions could not be answered."""
        return sum(1 for record in self.records if record["error"])


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a frame, with where it came from; kinds add what they draw.

    A point without a value has a `reason`.
    """

    block: str
    system: str
    n: int = 0
    failed: int = 0
    level: str = ""
    differences: str = ""
    run: str = ""
    reason: str = ""


def source(data: RunData) -> dict[str, Any]:
    """Return the fields of a `Point` that tell where it came from."""
    return {
        "block": data.block.label,
        "system": data.row.label,
        "failed": data.failed,
        "level": data.level or "",
        "differences": "; ".join(data.differences),
        "run": data.folder,
        "reason": data.reason,
    }


def columns_of(points: Sequence[Point], kind: type[Point] = Point) -> list[str]:
    """Return a frame's columns: what is drawn first, where it came from last."""
    names = [f.name for f in fields(type(points[0]) if points else kind)]
    first, last = ["block", "system"], ["n", "failed", "level", "differences", "run", "reason"]
    return [*first, *(n for n in names if n not in first and n not in last), *last]


async def gather(
    spec: FigureBase, profile: str, extra: Sequence[str], runs: FindsRuns, root: Path
) -> list[RunData]:
    """Make or find all runs of a figure and read them; raises `UserError` for a bad description.

    A row that cannot be run is kept with its reason; a refusing endpoint ends the whole command.
    """
    table = table_of(spec)

    async def one(block: Block, row: Row) -> RunData:
        place = await run_of(runs, table, block, row, profile, extra)
        if isinstance(place, str):
            return RunData(block, row, reason=place)
        return read_run(block, row, place, root)

    wanted = [
        (block, row)
        for block in blocks_of(spec, table, profile)
        for row in table.rows
        if row.label not in block.without
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(block, row)) for block, row in wanted]
    return [task.result() for task in tasks]


def blocks_of(spec: FigureBase, table: TableSpec, profile: str) -> list[Block]:
    """Return the table's blocks that the figure draws in a profile; raises `UserError`."""
    found = [
        block
        for block in table.blocks_of(profile)
        if (not spec.datasets or block.dataset in spec.datasets)
        and (not spec.stages or (block.stage or table.stage) in spec.stages)
    ]
    if not found:
        asked = ", ".join((*spec.datasets, *spec.stages))
        raise UserError(f"Table '{table.title}' has no block of {asked} in profile={profile}.")
    return found


def read_run(block: Block, row: Row, folder: Path, root: Path) -> RunData:
    """Read a finished run; a row's `where` keeps the records whose fields equal it."""
    run = RunFolder(folder)
    records = [record for record in run.records if fits(record, row.where)]
    place = folder.relative_to(root) if folder.is_relative_to(root) else folder
    if row.where and not records:
        return RunData(block, row, reason=f"no record has {dict(row.where)}")
    return RunData(block, row, records, run.judgements, run.manifest, str(place))


def hundredfold(found: Aggregate) -> tuple[float | None, float | None, float | None]:
    """Return an aggregate's mean and interval on the printed ×100 scale."""
    mean, low, high = (None if v is None else 100 * v for v in (found.mean, found.low, found.high))
    return mean, low, high
