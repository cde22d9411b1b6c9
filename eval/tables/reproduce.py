"""Reproducing a table: run what its rows need, fill it, write it, show it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from eval.command import carry_out
from eval.config import CONFIGS, ROOT, compose
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished
from eval.spec import RunSpec
from eval.summary import costs
from eval.tables.fill import (
    FilledBlock,
    FilledRow,
    FilledTable,
    fill_row,
    missing_row,
    titles,
)
from eval.tables.published import Published
from eval.tables.spec import Block, Row, TableSpec, load_table
from eval.tables.write import show_table, write_table
from memsys.errors import EndpointRefused, UserError


@dataclass
class Totals:
    """What reproducing took, over all rows."""

    asked: int = 0
    failed: int = 0
    built: int = 0
    paid_calls: int = 0
    stored_calls: int = 0
    runs: int = 0
    missing: int = 0
    schema_calls: int = 0
    valid_replies: float = 0.0

    def add(self, finished: Finished) -> None:
        """Add one run."""
        self.runs += 1
        self.asked += finished.asked
        self.failed += finished.failed
        self.built += finished.built
        self.paid_calls += finished.paid_calls
        self.stored_calls += finished.stored_calls
        found = costs(finished.records, finished.builds, finished.judgements)
        self.schema_calls += found["schema_calls"]
        self.valid_replies += found["schema_calls"] * (found["valid_json"] or 0.0)


class Runs:
    """The runs behind a command's tables: each made once, however many cells it fills."""

    def __init__(self, resources: Resources, board: Board, *, parallel: int, ask: bool) -> None:
        """Make at most `parallel` runs at a time; `ask=False` only looks finished ones up."""
        self.totals = Totals()
        self._resources = resources
        self._board = board
        self._gate = asyncio.Semaphore(parallel)
        self._ask = ask
        self._made: dict[str, asyncio.Task[Path]] = {}

    async def folder(self, overrides: Sequence[str]) -> Path:
        """Return the folder of the run that these overrides describe; raises `UserError`."""
        spec = RunSpec.of(compose(overrides), self._resources, ROOT)
        key = f"{spec.folder} {spec.config.values['judge']} {spec.config.values['measures']}"
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._make(spec))
        return await self._made[key]

    async def _make(self, spec: RunSpec) -> Path:
        if self._ask:
            async with self._gate:
                self.totals.add(await carry_out(spec, self._board))
        elif not (spec.folder / "scores.json").is_file():
            raise UserError("not run yet in this setting")
        return spec.folder


async def reproduce(
    names: Sequence[str], profile: str, extra: Sequence[str], runs: Runs, console: Console
) -> None:
    """Fill tables, show each as soon as it and those before it are there, and write them.

    All their runs go on together, so that a model with room in its batch is never idle.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(filled_table(name, profile, extra, runs)) for name in names]
        for task in tasks:
            table = await task
            show_table(table, console)
            written = write_table(table, ROOT / "results" / "tables")
            paths = ", ".join(str(path.relative_to(ROOT)) for path in written)
            console.print(f"  written: {paths}", highlight=False, soft_wrap=True)


async def filled_table(name: str, profile: str, extra: Sequence[str], runs: Runs) -> FilledTable:
    """Run every row of a table, several at a time, and fill it.

    A row that cannot be run on this machine is shown as missing, with the reason; a refusing
    endpoint ends the whole command, since it would refuse every row.
    """
    spec = load_table(name)
    published = Published.read(spec.published) if spec.published else None

    async def filled(block: Block, row: Row) -> FilledRow:
        if not (CONFIGS / "method" / f"{row.method}.yaml").is_file():
            reason = f"there is no configs/method/{row.method}.yaml yet"
            return missing_row(spec, block, row, reason, published)
        try:
            folder = await runs.folder(overrides_of(spec, block, row, profile, extra))
        except EndpointRefused:
            raise
        except UserError as error:
            runs.totals.missing += 1
            return missing_row(spec, block, row, _one_line(error), published)
        return fill_row(spec, block, row, folder, ROOT, published)

    blocks = []
    for block in spec.blocks_of(profile):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(filled(block, row)) for row in spec.rows]
        rows = [task.result() for task in tasks]
        blocks.append(FilledBlock(block, tuple(rows), titles(spec, rows, ROOT)))
    return FilledTable(name, profile, spec, tuple(blocks))


def overrides_of(
    spec: TableSpec, block: Block, row: Row, profile: str, extra: Sequence[str]
) -> list[str]:
    """Return the overrides of one row's run; what the user says stands above all."""
    measures = ",".join(f"'{column.measure}'" for column in spec.columns)
    return [
        f"profile={profile}",
        f"protocol={spec.protocol}",
        f"dataset={block.dataset}",
        f"method={row.method}",
        f"stage={block.stage or spec.stage}",
        f"measures=[{measures}]",
        *spec.overrides,
        *block.overrides,
        *row.overrides,
        *row.profiles.get(profile, ()),
        *extra,
    ]


def _one_line(error: UserError) -> str:
    return " ".join(str(error).split())
