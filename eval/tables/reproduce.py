"""Reproducing a table: run what its rows need, fill it, write it, show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from eval.command import carry_out
from eval.config import CONFIGS, ROOT, compose
from eval.resources import Resources
from eval.run import Finished
from eval.spec import RunSpec
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

    def add(self, finished: Finished) -> None:
        """Add one run."""
        self.runs += 1
        self.asked += finished.asked
        self.failed += finished.failed
        self.built += finished.built
        self.paid_calls += finished.paid_calls
        self.stored_calls += finished.stored_calls


async def reproduce(
    name: str,
    profile: str,
    extra: Sequence[str],
    resources: Resources,
    console: Console,
    totals: Totals,
    *,
    run: bool = True,
) -> FilledTable:
    """Run (or only look up, with `run=False`) every row of a table and fill it.

    A row that cannot be run on this machine is shown as missing, with the reason; a refusing
    endpoint ends the whole command, since it would refuse every row.
    """
    spec = load_table(name)
    published = Published.read(spec.published) if spec.published else None
    blocks = []
    for block in spec.blocks_of(profile):
        rows: list[FilledRow] = []
        for row in spec.rows:
            console.print(f"{spec.title} · {block.label} · {row.label}", style="dim")
            try:
                folder = await _run_folder(
                    spec, block, row, profile, extra, resources, totals, run=run
                )
            except EndpointRefused:
                raise
            except UserError as error:
                totals.missing += 1
                rows.append(missing_row(spec, block, row, _one_line(error), published))
            else:
                rows.append(fill_row(spec, block, row, folder, ROOT, published))
        blocks.append(FilledBlock(block, tuple(rows), titles(spec, rows, ROOT)))
    table = FilledTable(name, profile, spec, tuple(blocks))
    show_table(table, console)
    written = write_table(table, ROOT / "results" / "tables")
    names = ", ".join(str(path.relative_to(ROOT)) for path in written)
    console.print(f"  written: {names}", highlight=False, soft_wrap=True)
    return table


async def _run_folder(
    spec: TableSpec,
    block: Block,
    row: Row,
    profile: str,
    extra: Sequence[str],
    resources: Resources,
    totals: Totals,
    *,
    run: bool,
) -> Path:
    if not (CONFIGS / "method" / f"{row.method}.yaml").is_file():
        raise UserError(f"there is no configs/method/{row.method}.yaml yet")
    config = compose(overrides_of(spec, block, row, profile, extra))
    if run:
        finished = await carry_out(config, resources)
        totals.add(finished)
        return finished.spec.folder
    folder = RunSpec.of(config, resources, ROOT).folder
    if not (folder / "scores.json").is_file():
        raise UserError("not run yet in this setting")
    return folder


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
        *(row.paper if profile == "paper" else ()),
        *extra,
    ]


def _one_line(error: UserError) -> str:
    return " ".join(str(error).split())
