"""Reading runs for the report: a folder's files as plain data, and a label that tells runs apart.

Nothing that a stored file names is ever instantiated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.costs import timing_of
from eval.records import Key, Record, key_of
from eval.runfolder import RunFolder, flat, runs_below
from memsys.errors import UserError

log = logging.getLogger(__name__)

_TOLD_APART = 3  # settings that a label names before it gives the fingerprint instead
_CHECKSUMS = ("weights", "tokenizer", "files")


@dataclass(frozen=True)
class LoadedRun:
    """One run's files as they lie on disk, with the label that the report shows."""

    folder: Path
    manifest: Mapping[str, Any]
    records: Sequence[Record]
    builds: Sequence[Record]
    judgements: Sequence[Record]
    timings: Sequence[Record]
    scores: Mapping[str, Any]
    label: str = ""
    values: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        """The run's fingerprint."""
        return str(self.manifest["run"])

    @property
    def dataset(self) -> str:
        """The dataset's config name."""
        return str(self.manifest["dataset"])

    @property
    def method(self) -> str:
        """The method's config name."""
        return str(self.manifest["method"])

    @property
    def protocol(self) -> str:
        """The protocol's name."""
        return str(self.manifest["identity"]["protocol"][0])

    @property
    def data(self) -> str:
        """The benchmark's title, with what sets its data apart from the published files."""
        info = self.manifest["dataset_info"]
        title = str(info["title"])
        if info["is_sample"]:
            return f"{title} (synthetic sample)"
        release = str(info["release"])
        return f"{title} ({release} file)" if release in ("custom", "rebuilt") else title

    @cached_property
    def judgements_by_key(self) -> dict[Key, list[Record]]:
        """Every judge's judgement of each question."""
        found: dict[Key, list[Record]] = {}
        for judgement in self.judgements:
            found.setdefault(key_of(judgement), []).append(judgement)
        return found

    @cached_property
    def memory_keys(self) -> dict[str, str]:
        """The memory store's key of each conversation's memory."""
        return {b["conversation"]: b["memory"] for b in self.builds if b.get("memory")}


def find_runs(roots: Sequence[Path]) -> list[Path]:
    """Return every folder below `roots` that holds a manifest and records, sorted.

    Raises `UserError` where a root is missing or holds no run.
    """
    found: set[Path] = set()
    for root in roots:
        if not root.is_dir():
            raise UserError(f"{root} is not a folder: name run folders, or a folder of runs.")
        here = {folder for folder in runs_below(root) if any(folder.glob("records*.jsonl"))}
        if not here:
            raise UserError(f"There is no run below {root}: make one with scripts/run.py.")
        found |= here
    return sorted(found)


def load_runs(folders: Iterable[Path]) -> tuple[list[LoadedRun], list[str]]:
    """Read runs that have at least one record, labelled; also say which were left out, and why."""
    runs, left_out = [], []
    for folder in folders:
        try:
            run = load_run(folder)
        except (UserError, KeyError, TypeError) as error:
            log.warning("%s is left out of the report: %s", folder, error)
            left_out.append(f"{folder.name}: unreadable")  # the error itself names folders
            continue
        if run.records:
            runs.append(run)
        else:
            left_out.append(f"{run.method} {run.fingerprint}: no record yet")
    return labelled(runs), left_out


def load_run(folder: Path) -> LoadedRun:
    """Read one run's folder; raises `UserError` for files that cannot be read."""
    run = RunFolder(folder)
    return LoadedRun(
        folder=folder,
        manifest=run.manifest,
        records=run.records,
        builds=run.builds,
        judgements=run.judgements,
        timings=timing_of(folder),
        scores=run.scores,
        values=_values(run.scores, run.records),
    )


def _values(scores: Mapping[str, Any], records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """Return each record's measures: by place where the ids agree, else by unique id."""
    items: list[dict[str, Any]] = scores.get("items", [])
    if [item["id"] for item in items] == [record["id"] for record in records]:
        return [_measures(item) for item in items]
    by_id: dict[str, dict[str, Any]] = {}
    for item in items:
        by_id[item["id"]] = {} if item["id"] in by_id else _measures(item)
    return [by_id.get(record["id"], {}) for record in records]


def _measures(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}


def labelled(runs: Sequence[LoadedRun]) -> list[LoadedRun]:
    """Give every run a label: its method, and what tells it from others of that method."""
    groups: dict[tuple[str, str], list[LoadedRun]] = {}
    for run in runs:
        groups.setdefault((run.data, run.method), []).append(run)
    labels: dict[int, str] = {}
    for group in groups.values():
        apart = _apart([flat(_setting(run)) for run in group])
        for run, names in zip(group, apart, strict=True):
            said = f" ({', '.join(names)})" if len(group) > 1 else ""
            labels[id(run)] = f"{run.method}{said}"
        seen: dict[str, int] = {}
        for run in group:
            seen[labels[id(run)]] = seen.get(labels[id(run)], 0) + 1
        for run in group:
            if seen[labels[id(run)]] > 1:
                labels[id(run)] = f"{run.method} ({run.fingerprint[:8]})"
    for run in runs:
        if not run.manifest["finished"]:
            labels[id(run)] += " – not finished"
    return [
        LoadedRun(**{**{n: getattr(run, n) for n in _FIELDS}, "label": labels[id(run)]})
        for run in runs
    ]


_FIELDS = (
    "folder", "manifest", "records", "builds", "judgements", "timings", "scores", "values",
)  # fmt: skip


def _setting(run: LoadedRun) -> dict[str, Any]:
    identity = run.manifest["identity"]
    models = {role: _model(model) for role, model in identity["models"].items()}
    info = run.manifest["dataset_info"]
    return {
        "stage": identity["stage"],
        "version": identity["system"]["version"],
        "protocol": run.protocol,
        "metadata": info["metadata"],
        "cut": info["cut"],
        "models": models,
        "build": identity["system"]["build"],
        "ask": identity["ask"],
    }


def _model(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people call a model's settings, without checksums."""
    return {k: v for k, v in identity.items() if k not in _CHECKSUMS}


def _apart(settings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return for each setting the few entries that tell it from the others.

    Entries are taken one by one, each the one that tells most settings apart, earlier ones first.
    """
    left = list(dict.fromkeys(key for setting in settings for key in setting))
    taken: list[str] = []

    def kinds(keys: Sequence[str]) -> int:
        return len({tuple(repr(s.get(key)) for key in keys) for s in settings})

    while left and len(taken) < _TOLD_APART:
        best = max(left, key=lambda key: kinds([*taken, key]))
        if kinds([*taken, best]) == kinds(taken):
            break
        taken.append(best)
        left.remove(best)
    return [[_said(key, s.get(key)) for key in taken] for s in settings]


def _said(key: str, value: Any) -> str:
    text = "none" if value is None else str(value)
    if (
        key == "cut"
    ):  # such as "first 1 conversations, at most 3 questions": the last part says most
        return (
            "all questions" if value is None else text.rpartition(", ")[2].replace("at most ", "")
        )
    text = text if len(text) <= 32 else f"{text[:31]}…"
    return f"{key.rpartition('.')[2]}={text}"


def settings_of(run: LoadedRun) -> dict[str, str]:
    """Return a run's settings as flat text, for people."""
    return {key: str(value) for key, value in flat(_setting(run)).items()}
