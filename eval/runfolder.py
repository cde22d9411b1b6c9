"""Runs on disk, found by name, and their questions ready to be scored. Nothing is run.

A folder may be named by its path, or by the end of it: `memgas`, `locomo/memgas`, `1eda7f6f`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.measures.item import Item
from eval.records import Key, Record, key_of, read_records
from memsys.errors import UserError, suggest

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class RunFolder:
    """One run on disk; every file is read when it is first asked for, and kept."""

    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What `manifest.json` holds; raises `UserError`."""
        file = self.path / MANIFEST
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{file} cannot be read: {error}.") from None
        return found

    @cached_property
    def scores(self) -> dict[str, Any]:
        """What `scores.json` holds; empty for a run that has not been scored."""
        try:
            found: dict[str, Any] = json.loads((self.path / "scores.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found

    @cached_property
    def records(self) -> list[Record]:
        """The answered questions, in the file's order; shards are read together."""
        return self._all("records")

    @cached_property
    def builds(self) -> list[Record]:
        """What the memory of each conversation took."""
        return self._all("builds")

    @cached_property
    def judgements(self) -> list[Record]:
        """The verdicts of the judge that the manifest names; of every judge without a manifest."""
        if not (self.path / MANIFEST).is_file():
            return self._all("judgements-*")
        judge = self.manifest.get("judge_fingerprint")
        return self._all(f"judgements-{judge}") if judge else []

    @cached_property
    def items(self) -> dict[Key, Item]:
        """The questions as measures read them, by conversation and index."""
        from eval.summary import items_of

        items = items_of(self.records, self.judgements)
        return {key_of(r): item for r, item in zip(self.records, items, strict=True)}

    @property
    def unfinished(self) -> str:
        """Why this is no whole run, in a few words; empty for a whole one."""
        if self.manifest.get("finished"):
            return ""
        answered = sum(not record["error"] for record in self.records)
        return f"not finished: {answered} questions are answered so far"

    @property
    def label(self) -> str:
        """Dataset, method and fingerprint, as people name a run."""
        m = self.manifest
        return f"{m['dataset']}/{m['method']}/{str(m['run'])[:8]}"

    def _all(self, stem: str) -> list[Record]:
        whole = sorted(self.path.glob(f"{stem}.jsonl"))
        shards = sorted(self.path.glob(f"{stem}.*-of-*.jsonl"))
        found: dict[Key, Record] = {}
        for path in [*whole, *shards]:  # what the whole file has stands above the shards
            for record in read_records(path):
                found.setdefault(key_of(record), record)
        return list(found.values())


def runs_below(folder: Path) -> list[Path]:
    """Return the folders of all runs at or below a folder, in order of name."""
    return sorted(path.parent for path in folder.rglob(MANIFEST))


def run_folders(results: Path) -> list[Path]:
    """Return the folders of all runs under `results`, in order of name."""
    return runs_below(results / "runs")


def find_run(name: str, results: Path) -> RunFolder:
    """Return the run that a path, or the end of one, names; raises `UserError` unless it is one.

    The last part may be the beginning of a fingerprint.
    """
    path = Path(name).expanduser()
    if (path / MANIFEST).is_file():
        return RunFolder(path)
    if path.is_dir() and (path / "records.jsonl").is_file():
        raise UserError(f"{path} has no {MANIFEST}: it is no run of ours.")
    known = run_folders(results)
    parts = name.strip("/").split("/")
    fits = [folder for folder in known if _fits(parts, folder.parts[-3:])]
    if len(fits) == 1:
        return RunFolder(fits[0])
    if not fits:
        options = {part for folder in known for part in folder.parts[-2:-1]}
        where = f"{results / 'runs'} holds no run '{name}', and it is no run's folder."
        raise UserError(where + suggest(parts[-1], options))
    shown = "\n".join(f"  {'/'.join(f.parts[-3:])}  ({_what(RunFolder(f))})" for f in fits)
    raise UserError(f"'{name}' may be any of {len(fits)} runs: name one.\n{shown}")


def _fits(parts: Sequence[str], place: Sequence[str]) -> bool:
    """Whether `parts` occur in `place` (dataset, method, fingerprint) one after another."""
    for start in range(len(place) - len(parts) + 1):
        window = place[start : start + len(parts)]
        ends = start + len(parts) == len(place) and len(parts[-1]) >= 4
        same_last = window[-1].startswith(parts[-1]) if ends else window[-1] == parts[-1]
        if tuple(parts[:-1]) == tuple(window[:-1]) and same_last:
            return True
    return False


def _what(run: RunFolder) -> str:
    manifest = run.manifest
    info, identity = manifest["dataset_info"], manifest["identity"]
    model = identity["models"].get("main") or {}
    parts = [
        identity["stage"],
        identity["protocol"][0],
        str(model.get("model", "")),
        f"cut: {info['cut']}" if info["cut"] else "",
        "" if manifest["finished"] else "unfinished",
    ]
    return "; ".join(part for part in parts if part)


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as dotted keys; lists stay whole."""
    if not isinstance(values, Mapping):
        return {prefix: values}
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found
