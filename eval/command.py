"""The command behind `scripts/run.py`: one run, or a sweep through Hydra's launchers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import cache

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from eval import summary
from eval.config import CONFIGS, ROOT, compose, from_hydra, jobs_to_check
from eval.judging import Judging
from eval.preflight import preflight
from eval.prices import PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished, run
from eval.spec import RunSpec
from eval.timing import measure_times
from memsys.cli import FAILED_QUESTIONS
from memsys.errors import MemsysError


@cache
def resources() -> Resources:
    """Return this process's models, shared by all jobs of a sweep."""
    return Resources()


@cache
def runner() -> asyncio.Runner:
    """Return this process's event loop: connections and models outlive a job of a sweep."""
    return asyncio.Runner()


async def carry_out(spec: RunSpec, board: Board) -> Finished:
    """Check, run and score one run."""
    judging = Judging.of(spec)
    await preflight(spec, judging)
    prices = PriceList.read(CONFIGS)
    if spec.stage == "timing":
        return await measure_times(spec, prices, board)
    finished = await run(spec, prices, board, judging)
    spec.tracking.log(finished, summary.score_run(finished, judging))
    return finished


def sweep_or_run(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; returns the exit status."""
    flags = [a for a in arguments if a.startswith("-")]
    overrides = [a for a in arguments if not a.startswith("-")]
    sweep = any(flag in ("-m", "--multirun") for flag in flags)
    for checked in jobs_to_check(overrides, sweep=sweep):  # a typo ends here, before any run
        RunSpec.of(compose(checked), resources(), ROOT)
    worst = 0

    @hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="run")
    def job(config: DictConfig) -> int:
        nonlocal worst
        composed = HydraConfig.get()
        mine = from_hydra(config, dict(composed.runtime.choices), list(composed.overrides.task))
        try:
            spec = RunSpec.of(mine, resources(), ROOT)
            with Board(str(mine.values["progress"])) as board:
                finished = runner().run(carry_out(spec, board))
        except MemsysError as error:
            # outside Hydra's own handling, which would print a traceback
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
            sys.exit(error.exit_status)
        summary.show(finished)
        worst = max(worst, FAILED_QUESTIONS if finished.failed else 0)
        return worst

    sys.argv = [sys.argv[0], *flags, *overrides]
    job()
    return worst
