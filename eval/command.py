"""Carrying out one run: models and event loop of this process, checks, budget, scores."""

from __future__ import annotations

import asyncio
import atexit
from functools import cache

from eval import summary
from eval.budget import Budget, check_prices
from eval.collector import collecting_rarely
from eval.config import CONFIGS
from eval.judging import Judging
from eval.plan.against import compare, planned_for, said
from eval.preflight import preflight
from eval.prices import PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished, run
from eval.spec import RunSpec
from eval.stopping import listen
from eval.timing import measure_times
from eval.tracking import follow_run
from eval.typed import validated
from memsys.llm.chat import Role


@cache
def resources() -> Resources:
    """Return this process's models, shared by all jobs of a sweep."""
    return Resources()


@cache
def runner() -> asyncio.Runner:
    """Return this process's event loop: connections and models outlive a job of a sweep.

    From now on Ctrl-C and SIGTERM stop the work in order, and the process closes its connections
    when it ends, however it ends: their library would complain of those left open.
    """
    listen(resources().brake)
    made = asyncio.Runner()
    atexit.register(lambda: made.run(resources().hang_up()))
    return made


async def carry_out(spec: RunSpec, board: Board) -> Finished:
    """Check, run and score one run; raises `Stopped` at the budget's end and after a signal."""
    return await spec.resources.brake.hold(_carry_out(spec, board))


async def _carry_out(spec: RunSpec, board: Board) -> Finished:
    spec.resources.brake.check()
    judging = Judging.of(spec)
    prices = PriceList.read(CONFIGS)
    _set_budget(spec, judging, prices)
    await preflight(spec, judging)
    if spec.stage == "timing":
        finished = await measure_times(spec, prices, board)
        async with follow_run(spec, board) as following:  # only now: nothing is timed beside it
            following.run(finished)
        return finished
    async with follow_run(spec, board) as following:
        with collecting_rarely():
            finished = await run(spec, prices, board, judging)
        summary.score_run(finished, judging)
        following.run(finished)
    return finished


def show_plan(finished: Finished) -> None:
    """Say how the run compares with the plan that was made for it, if one was."""
    folder = finished.spec.folder
    made = planned_for(folder, finished.spec.results / "plans")
    if made is not None:
        print(said(compare(folder, made)))  # noqa: T201


def _set_budget(spec: RunSpec, judging: Judging | None, prices: PriceList) -> None:
    """Put the command's budget in force, before any model is asked."""
    meter = spec.resources.meter
    budget = validated(Budget, spec.config.values.get("budget") or {}, "budget")
    roles: list[Role] = [role for role in ("main", "auxiliary") if role in spec.needs]
    if judging is not None:
        roles.append("judge")
    check_prices(budget, [spec.backends[role].name for role in roles], prices, CONFIGS)
    meter.budget, meter.prices = budget, prices
