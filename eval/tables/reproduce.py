"""Reproducing a table: run what its rows need, fill it, write it, show it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from eval.command import carry_out
from eval.config import ROOT, compose, results_folder, shown_path
from eval.costs import timing_of
from eval.outside import config_names
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished
from eval.runfolder import MANIFEST, RunFolder
from eval.spec import RunSpec
from eval.summary import costs
from eval.tables.also import with_rows
from eval.tables.fill import FilledTable, fill_block, measures_of
from eval.tables.gate import Gate
from eval.tables.measured import RunFolders
from eval.tables.published import Published
from eval.tables.spec import Block, Row, TableSpec, load_table
from eval.tables.write import show_table, write_table
from eval.timing import with_stage
from memsys.concurrency import compute
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


class FindsRuns(Protocol):
    """Whatever turns the overrides of a run into its folder, such as `Runs`."""

    async def folder(self, overrides: Sequence[str]) -> Path:
        """Return the folder of the run; raises `UserError` where there is none."""


class Runs:
    """The runs behind a command's tables: each made once, however many cells it fills."""

    def __init__(self, resources: Resources, board: Board, *, parallel: int, ask: bool) -> None:
        """Make at most `parallel` runs at a time; `ask=False` only looks finished ones up."""
        self.totals = Totals()
        self._resources = resources
        self._board = board
        self._gate = Gate(parallel)
        self._ask = ask
        self._made: dict[str, asyncio.Task[Path]] = {}

    async def folder(self, overrides: Sequence[str]) -> Path:
        """Return the folder of the run that these overrides describe; raises `UserError`."""
        return await self._folder_of(RunSpec.of(compose(overrides), self._resources, ROOT))

    async def _folder_of(self, spec: RunSpec) -> Path:
        values = spec.config.values
        key = f"{spec.folder} {spec.stage} {values['judge']} {values['measures']}"
        if key not in self._made:
            make = self._timed if spec.stage == "timing" else self._run
            self._made[key] = asyncio.create_task(make(spec))
        return await self._made[key]

    async def _run(self, spec: RunSpec) -> Path:
        if self._ask:
            async with self._gate.together(spec.folder):
                self.totals.add(await carry_out(spec, self._board))
        elif not (spec.folder / MANIFEST).is_file():
            raise UserError("not run yet in this setting")
        elif unfinished := (run := RunFolder(spec.folder)).unfinished:
            raise UserError(unfinished)
        elif not run.scores:
            raise UserError("not scored yet")
        return spec.folder

    async def _timed(self, spec: RunSpec) -> Path:
        """Answer all questions as usual, then time some with nothing else going on.

        Times that are there are kept: measuring them again would pay for every call again.
        """
        folder = await self._folder_of(with_stage(spec, "answer"))
        if self._ask and not _is_timed(spec):
            async with self._gate.alone():
                await carry_out(spec, self._board)
            if (spec.config.values["judge"] or {}).get("_target_"):
                # timing leaves a manifest without a judge: the answers' own is put back, for free
                async with self._gate.together(folder):
                    await carry_out(with_stage(spec, "answer"), self._board)
        return folder


def _is_timed(spec: RunSpec) -> bool:
    """Whether as many questions as asked for have been timed, or all there are."""
    timed = len(timing_of(spec.folder))
    wanted = int(spec.config.values["timing"]["questions"])
    keep = spec.config.values["resume"]
    return keep and 0 < timed >= min(wanted, len(RunFolder(spec.folder).records))


async def reproduce(
    names: Sequence[str],
    profile: str,
    extra: Sequence[str],
    runs: Runs,
    console: Console,
    *,
    first_block: bool = False,
) -> None:
    """Fill tables, show each as soon as it and those before it are there, and write them.

    All their runs go on together, so that a model with room in its batch is never idle.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(filled_table(name, profile, extra, runs, first_block=first_block))
            for name in names
        ]
        for task in tasks:
            table = await task
            show_table(table, console)
            written = write_table(table, results_folder(extra) / "tables")
            paths = ", ".join(shown_path(path) for path in written)
            console.print(f"  written: {paths}", highlight=False, soft_wrap=True)


async def filled_table(
    name: str, profile: str, extra: Sequence[str], runs: Runs, *, first_block: bool = False
) -> FilledTable:
    """Run every row of a table, several at a time, and fill it.

    A row that cannot be run on this machine is shown as missing, with the reason; a refusing
    endpoint ends the whole command, since it would refuse every row. `first_block` leaves the
    others out, and says so.
    """
    spec, extra = with_rows(load_table(name), extra)
    if first_block and len(wanted := spec.blocks_of(profile)) > 1:
        left = "; ".join(block.label for block in wanted[1:])
        spec = spec.model_copy(
            update={
                "blocks": {profile: wanted[:1]},
                "notes": (*spec.notes, f"left out by --first-block: {left}"),
            }
        )
    published = Published.read(spec.published) if spec.published else None

    folders, blocks = RunFolders({}), []
    for block in spec.blocks_of(profile):
        async with asyncio.TaskGroup() as group:
            tasks = {
                row.label: group.create_task(run_of(runs, spec, block, row, profile, extra))
                for row in spec.rows
            }
        places = {label: task.result() for label, task in tasks.items()}
        runs.totals.missing += sum(
            isinstance(place, str) and label not in block.without for label, place in places.items()
        )
        blocks.append(await compute(fill_block, spec, block, places, ROOT, published, folders))
    return FilledTable(name, profile, spec, tuple(blocks))


async def run_of(
    runs: FindsRuns, spec: TableSpec, block: Block, row: Row, profile: str, extra: Sequence[str]
) -> Path | str:
    """Return the folder of a row's run, or why there is none, in one line.

    A refusing endpoint is raised: it would refuse every row.
    """
    if row.label in block.without:
        return block.without[row.label]
    if row.method not in config_names("method"):
        return f"there is no configs/method/{row.method}.yaml yet"
    try:
        return await runs.folder(overrides_of(spec, block, row, profile, extra))
    except EndpointRefused:
        raise
    except UserError as error:
        return " ".join(str(error).split())


def overrides_of(
    spec: TableSpec, block: Block, row: Row, profile: str, extra: Sequence[str]
) -> list[str]:
    """Return the overrides of one row's run; what the user says stands above all."""
    measures = ",".join(f"'{measure}'" for measure in measures_of(spec))
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
