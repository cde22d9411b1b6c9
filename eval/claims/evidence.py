"""The runs behind claims: found, or made, by the tables that describe them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval.claims.spec import Part, Ref
from eval.measures.registry import parse
from eval.records import Key
from eval.runfolder import RunFolder
from eval.tables.level import REPRODUCTIONS, differences, level, same_model
from eval.tables.measured import Measured
from eval.tables.reproduce import FindsRuns, run_of
from eval.tables.spec import Block, TableSpec, load_table
from memsys.errors import UserError, suggest

NO_RUN = "no run of "
"""How a reason begins that names the row without a run."""


@dataclass(frozen=True)
class Evidence:
    """One row with its run; `hindrances` say why nothing can be judged from it."""

    label: str
    measured: Measured | None
    hindrances: tuple[str, ...]
    _values: dict[str, dict[Key, float]] = field(default_factory=dict)

    def values(self, measure: str) -> dict[Key, float]:
        """Return a measure's value of every question that has one; empty without a run.

        Only this measure is computed, and only where the run's stored scores lack it.
        """
        if self.measured is None:
            return {}
        if measure not in self._values:
            alone = Measured(self.measured.run, [measure], self.measured.where)
            self._values[measure] = alone.values(measure)
        return self._values[measure]

    def unavailable(self, measure: str) -> str:
        """Return why a measure has no value here; empty where that is not known."""
        if self.measured is None:
            return ""
        alone = Measured(self.measured.run, [measure], self.measured.where)
        return str(alone.scores["unavailable"].get(parse(measure).name, ""))

    @property
    def folder(self) -> str:
        """The run's folder below the results; empty where there is no run."""
        return "/".join(self.measured.run.path.parts[-3:]) if self.measured else ""


@dataclass(frozen=True)
class Wanted:
    """A row of a table under one main model (`None`: of the profile's first block)."""

    table: str
    row: str
    main: str | None
    block: str | None


@dataclass
class Shelf:
    """The evidence of one profile: every row is looked up once, all of them at a time."""

    profile: str
    runs: FindsRuns
    extra: Sequence[str] = ()
    _found: dict[Wanted, Evidence] = field(default_factory=dict)
    _folders: dict[Path, RunFolder] = field(default_factory=dict)
    _tables: dict[str, TableSpec] = field(default_factory=dict)
    _tasks: dict[tuple[str, ...], asyncio.Future[Path]] = field(default_factory=dict)

    async def fetch(self, wanted: Iterable[Wanted]) -> None:
        """Find the runs of all these rows; a refusing endpoint ends everything."""
        new = [w for w in dict.fromkeys(wanted) if w not in self._found]
        async with asyncio.TaskGroup() as group:
            tasks = {w: group.create_task(self._find(w)) for w in new}
        self._found |= {w: task.result() for w, task in tasks.items()}

    def of(self, part: Part, ref: Ref, main: str | None = None) -> Evidence:
        """Return a row's evidence, under `main` or the part's own main model."""
        return self._found[want(part, ref, main)]

    async def _find(self, wanted: Wanted) -> Evidence:
        name = f"{wanted.row} ({wanted.table})"
        try:
            spec = self._table(wanted.table)
            block, hindrance = self._block(spec, wanted)
            row = next((r for r in spec.rows if r.label == wanted.row), None)
            if row is None:
                labels = [r.label for r in spec.rows]
                known = suggest(wanted.row, labels)
                return _none(name, f"table {wanted.table} has no row '{wanted.row}'.{known}")
        except UserError as error:
            return _none(name, f"{NO_RUN}{wanted.row}: {' '.join(str(error).split())}")
        folder = await run_of(self, spec, block, row, self.profile, self.extra)
        if isinstance(folder, str):
            return _none(name, f"{NO_RUN}{wanted.row}: {folder}")
        run = self._folders.setdefault(folder, RunFolder(folder))
        measured = Measured(run, (), row.where)
        if not measured.records:
            return _none(name, measured.nothing or "the run has no question")
        at = level(run.manifest, block.setting)
        apart = differences(run.manifest, block.setting)
        hindrances = [] if hindrance is None else [hindrance]
        if at not in REPRODUCTIONS:
            hindrances += [d for d in apart if not d.startswith("prompts:")]
        return Evidence(row.label, measured, tuple(hindrances))

    def _table(self, name: str) -> TableSpec:
        if name not in self._tables:
            self._tables[name] = load_table(name)
        return self._tables[name]

    async def folder(self, overrides: Sequence[str]) -> Path:
        """Return the folder of a run, looked up once; raises `UserError` where there is none."""
        key = tuple(overrides)
        if key not in self._tasks:  # composing a configuration takes a while
            self._tasks[key] = asyncio.ensure_future(self.runs.folder(key))
        return await self._tasks[key]

    def _block(self, spec: TableSpec, wanted: Wanted) -> tuple[Block, str | None]:
        """Return the block in the wanted setting, or the first with what hinders judging it."""
        blocks = spec.blocks_of(self.profile)
        if wanted.block is not None:
            blocks = tuple(b for b in blocks if wanted.block in (b.dataset, b.label))
            if not blocks:
                raise UserError(f"profile {self.profile} has no block {wanted.block}")
        for block in blocks:
            main = block.setting.get("main", "")
            if wanted.main is None or same_model(main, wanted.main):
                return block, None
        return blocks[0], f"profile {self.profile} has no block with {wanted.main}"


def want(part: Part, ref: Ref, main: str | None = None) -> Wanted:
    """Return what a part wants to see of a row."""
    return Wanted(ref.table or part.table, ref.row, main or part.main, part.block)


def hindrances(evidence: Iterable[Evidence]) -> tuple[str, ...]:
    """Return what hinders judging from all of these, each reason once."""
    return tuple(dict.fromkeys(reason for one in evidence for reason in one.hindrances))


def _none(label: str, reason: str) -> Evidence:
    return Evidence(label, None, (reason,))
