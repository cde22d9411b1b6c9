"""The command behind `scripts/plan.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from eval.config import CONFIGS, ROOT, compose, names_and_settings
from eval.plan.against import compare, planned_for, plans_beside, said
from eval.plan.estimate import Limits, Planner, hours, write_plan
from eval.plan.jobs import Job, sweep_jobs, table_jobs
from eval.plan.replies import Manners
from eval.plan.show import show_plans
from eval.prices import PriceList
from eval.resources import Resources
from memsys import cli
from memsys.errors import UserError


def plan(
    names: Sequence[str],
    *,
    profile: str,
    rates: tuple[float | None, float | None],
    conversations: int,
    questions: int,
    name: str | None = None,
    console: Console | None = None,
) -> Path:
    """Plan the named tables, or the run or sweep that settings describe; returns the plan's file.

    Nothing is loaded, asked or stored. `rates` are requests and tokens a minute of each model.
    """
    console = console or cli.console()
    tables, extra = names_and_settings(names)
    jobs = [job for table in tables for job in table_jobs(table, profile, extra)]
    if not tables:
        jobs = sweep_jobs(extra)
    prices = PriceList.read(CONFIGS)
    planner = Planner(
        Resources(), Manners.read(CONFIGS), conversations=conversations, questions=questions
    )
    began = time.monotonic()
    with console.status("") as status:
        plans, seen, results = [], set(), None
        for number, job in enumerate(jobs, 1):
            status.update(f"planning {number} of {len(jobs)}: {job.title}")
            try:
                config = compose(job.overrides)
            except UserError as error:
                raise UserError(f"{job.title}: {error}") from error
            results = ROOT / str(config.values["paths"]["results"])
            made = asyncio.run(planner.plan(job.title, job.overrides, config))
            key = (made.folder, str(config.values["judge"]))
            if made.folder is None or key not in seen:
                plans.append(made)
            seen.add(key)
    stated = Limits(*rates)
    show_plans(plans, stated, prices, console)
    for note in sorted(planner.notes):
        console.print(f"note: {note}", highlight=False, soft_wrap=True)
    time_ = hours([p for p in plans if p.problem is None], stated)
    plain = {
        "tables": tables,
        "profile": profile if tables else None,
        "settings": extra,
        "runs": [made.plain(prices) for made in plans],
        "hours": None if time_ is None else time_.plain(2),
        "rates": {"requests_per_minute": rates[0], "tokens_per_minute": rates[1]},
        "notes": sorted(planner.notes),
    }
    assert results is not None
    written = write_plan(plain, results / "plans", name or _name(tables, profile, jobs))
    shown = written.relative_to(ROOT) if written.is_relative_to(ROOT) else written
    console.print(
        f"planned in {time.monotonic() - began:.0f} s without a call; written: {shown}",
        highlight=False,
        soft_wrap=True,
    )
    return written


def against(folder: Path, console: Console | None = None) -> None:
    """Print a finished run beside its plan; raises `UserError` where there is none."""
    console = console or cli.console()
    folder = folder.resolve()
    plans = plans_beside(folder)
    made = planned_for(folder, plans)
    if made is None:
        raise UserError(
            f"No plan in {plans} is about {folder}: plan it first (python scripts/plan.py with "
            "the settings of the run, before it)."
        )
    lines = compare(folder, made)
    table = Table("phase / role", "calls planned", "calls used", "tokens planned", "tokens used",
                  "planned / used", box=None)  # fmt: skip
    for line in lines:
        table.add_row(
            line.place,
            _range(line.planned_calls),
            f"{line.calls:,}",
            _range(line.planned_tokens),
            f"{line.tokens:,}",
            "" if line.ratio is None else f"{line.ratio:.2f}",
        )
    console.print(table)
    console.print(said(lines), highlight=False)


def _range(values: tuple[float, float, float]) -> str:
    low, expected, high = (f"{v:,.0f}" for v in values)
    return expected if low == high else f"{expected} ({low} – {high})"


def _name(tables: Sequence[str], profile: str, jobs: Sequence[Job]) -> str:
    return f"{'+'.join(tables)}-{profile}" if tables else "+".join(jobs[0].overrides)
