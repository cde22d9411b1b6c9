"""Collecting a case: finished runs are read, and a system that was not run is run now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.cases.case import Case, Told, evidence_lines, find_question, told
from eval.config import ROOT, compose
from eval.outside import config_names
from eval.progress import Board
from eval.records import key_of
from eval.resources import Resources
from eval.runfolder import RunFolder, find_run
from eval.spec import RunSpec
from eval.tables.reproduce import Runs
from memsys.dialogue import Question
from memsys.errors import EndpointRefused, UserError, suggest


@dataclass(frozen=True)
class Wanted:
    """What a person asks for; `None` leaves dataset and protocol to the first run named."""

    names: Sequence[str]
    settings: Sequence[str]
    question: str | None
    conversation: str | None
    evidence: str | None
    dataset: str | None
    protocol: str | None
    profile: str
    results: Path | None
    run: bool


async def collect(wanted: Wanted, resources: Resources, board: Board) -> Case:
    """Return the case; raises `UserError` for what cannot be found.

    A method that cannot be run on this machine stays in the case, with the reason.
    """
    if not wanted.names:
        raise UserError("Name at least one method or run.")
    results = wanted.results or ROOT / "results"
    methods = config_names("method")
    folders = {name: _folder(name, results, methods) for name in wanted.names}
    base = _base(wanted, next((run for run in folders.values() if run), None))
    spec = RunSpec.of(compose([*base, "method=full"]), resources, ROOT)
    question, conversation = find_question(
        spec.dataset,
        spec.protocol.rules,
        question=wanted.question,
        conversation=wanted.conversation,
        evidence=wanted.evidence,
    )
    runs = Runs(resources, board, parallel=16, ask=wanted.run)

    async def one(name: str) -> Told:
        run = folders[name]
        stores = None
        if run is None:
            try:
                run, stores = await _asked(name, base, question, resources, runs)
            except EndpointRefused:
                raise
            except UserError as error:
                return Told(name, reason=" ".join(str(error).split()))
        return await asyncio.to_thread(told, _label(name, run), run, question, stores)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(name)) for name in wanted.names]
    answers = [task.result() for task in tasks]
    return Case(question, evidence_lines(question, conversation), answers)


def _folder(name: str, results: Path, methods: Sequence[str]) -> RunFolder | None:
    """Return the run that a name means; `None` for a method."""
    if name in methods:
        return None
    if "/" in name or (Path(name) / "manifest.json").is_file():
        return find_run(name, results)
    raise UserError(f"'{name}' is no method and no run's folder.{suggest(name, methods)}")


def _base(wanted: Wanted, run: RunFolder | None) -> list[str]:
    """Return the settings of every run: dataset and protocol from a run where nothing is said."""
    choices = run.manifest["choices"] if run else {}
    found = [
        f"profile={wanted.profile}",
        f"protocol={wanted.protocol or choices.get('protocol', 'mgretrieval')}",
        f"dataset={wanted.dataset or choices.get('dataset', 'locomo')}",
    ]
    if run and run.manifest["dataset_info"]["is_sample"]:
        found.append("dataset.sample=always")
    if wanted.results is not None:
        found.append(f"paths.results={wanted.results}")
    return [*found, *wanted.settings]


async def _asked(
    method: str, base: Sequence[str], question: Question, resources: Resources, runs: Runs
) -> tuple[RunFolder, Path]:
    """Return a method's run that has the question: the whole benchmark's, else one of it alone."""
    overrides = [*base, f"method={method}"]
    spec = RunSpec.of(compose(overrides), resources, ROOT)
    stores = spec.root / str(spec.config.values["paths"]["stores"])
    if (spec.folder / "manifest.json").is_file():
        whole = RunFolder(spec.folder)
        if any(key_of(r) == question.key and not r["error"] for r in whole.records):
            return whole, stores
    alone = [f"dataset.conversation='{question.conversation}'", f"dataset.question='{question.id}'"]
    return RunFolder(await runs.folder([*overrides, *alone])), stores


def _label(name: str, run: RunFolder) -> str:
    method = str(run.manifest["method"])
    model = run.manifest["identity"]["models"].get("main") or {}
    known = f", {model['model']}" if model.get("model") else ""
    return f"{method if '/' in name else name}{known}"
