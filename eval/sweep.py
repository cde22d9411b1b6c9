"""The command behind `scripts/run.py`: one run, or a sweep through any of Hydra's launchers.

A job of a sweep may run in this process, in another, or on another machine. Wherever it runs, it
leaves a note in the sweep's folder, from which the command tells how all went.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from eval import summary
from eval.budget import Budget, sweep_size
from eval.command import carry_out, resources, runner, show_plan
from eval.config import CONFIGS, ROOT, compose, from_hydra, jobs_to_check, results_folder
from eval.progress import Board
from eval.spec import RunSpec
from eval.typed import validated
from memsys.cli import FAILED_QUESTIONS, sentence
from memsys.errors import UserError

HERE = "basic"
"""Hydra's own launcher: one job after another in this process, under one budget."""


def sweep_or_run(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; returns the exit status."""
    flags = [a for a in arguments if a.startswith("-")]
    overrides = [a for a in arguments if not a.startswith("-")]
    sweep = any(flag in ("-m", "--multirun") for flag in flags)
    launcher = HERE
    for checked in jobs_to_check(overrides, sweep=sweep):  # a typo ends here, before any run
        composed = compose(checked)
        validated(Budget, composed.values["budget"], "budget")
        RunSpec.of(composed, resources(), ROOT)
        launcher = composed.launcher
    folder = results_folder(overrides) / "sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
    if sweep:
        overrides += [f"hydra.sweep.dir={folder}", *_shares(composed.values, launcher, overrides)]
    sys.argv = [sys.argv[0], *flags, *overrides]
    apart = sweep and launcher != HERE
    statuses: list[int] = []

    def here(config: DictConfig) -> None:
        statuses.append(job(config))

    # Hydra returns nothing; a job that runs elsewhere must be a function that can be sent there
    hydra.main(str(CONFIGS), "run", version_base="1.3")(job if apart else here)()
    return _tell(folder, sweep_size(overrides)) if apart else _worst(statuses)


def job(config: DictConfig) -> int:
    """Carry out one job and note how it went; in this process an error ends the whole sweep."""
    composed = HydraConfig.get()
    mine = from_hydra(config, dict(composed.runtime.choices), list(composed.overrides.task))
    note: dict[str, Any] = {"settings": list(composed.overrides.task), "run": None, "error": None}
    try:
        spec = RunSpec.of(mine, resources(), ROOT)
        note["run"] = str(spec.folder)
        with Board(str(mine.values["progress"])) as board:
            finished = runner().run(carry_out(spec, board))
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        note["error"], status = told
        # outside Hydra's own handling, which would print a traceback
        print(told[0], file=sys.stderr)  # noqa: T201
        if mine.launcher == HERE:
            sys.exit(status)
    else:
        summary.show(finished)
        show_plan(finished)
        status = FAILED_QUESTIONS if finished.failed else 0
    note["status"] = status
    if composed.mode is not None and composed.mode.name == "MULTIRUN":
        _leave(note, Path(composed.sweep.dir), composed.job.num)
    return status


def _shares(values: Any, launcher: str, overrides: Sequence[str]) -> list[str]:
    """Return each job's share of the budget, where jobs run apart and cannot see each other."""
    budget = validated(Budget, values.get("budget") or {}, "budget")
    if launcher == HERE or not budget.limits:
        return []
    jobs = sweep_size(overrides)
    shares = [f"budget.{name}={value:g}" for name, value in budget.split(jobs).limits.items()]
    said = f"hydra/launcher={launcher}: each of {jobs} jobs has {', '.join(shares)}"
    print(said, file=sys.stderr)  # noqa: T201
    return shares


def _leave(note: dict[str, Any], folder: Path, number: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(note, ensure_ascii=False, indent=1) + "\n"
        (folder / f"job-{number}.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror}.") from error


def _notes(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("job-*.json"), key=lambda p: int(p.stem.partition("-")[2]))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _tell(folder: Path, jobs: int) -> int:
    """Print how the jobs of a sweep went that ran apart; returns the worst exit status."""
    notes = _notes(folder)
    words = {0: "done", FAILED_QUESTIONS: "failed questions"}
    for note in notes:
        said = words.get(note["status"], note["error"] or f"exit status {note['status']}")
        print(f"{' '.join(note['settings'])}\n  {said}: {note['run'] or 'no run'}")  # noqa: T201
    lost = jobs - len(notes)
    if lost > 0:
        print(  # noqa: T201
            f"error: {lost} of {jobs} jobs left no word; see the launcher's logs, then give the "
            "same command again: what is finished is kept",
            file=sys.stderr,
        )
    return _worst([*(note["status"] for note in notes), *([1] if lost > 0 else [])])


def _worst(statuses: Sequence[int]) -> int:
    """Return the exit status to leave with: any trouble goes before failed questions."""
    troubles = [s for s in statuses if s not in (0, FAILED_QUESTIONS)]
    return troubles[0] if troubles else max(statuses, default=0)
