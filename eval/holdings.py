"""What finished and unfinished runs refer to in the stores, read from their files alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.prices import PriceList
from eval.records import read_records
from eval.runfolder import run_folders
from memsys.errors import UserError, suggest
from memsys.stores.vectors import Shelf

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")


@dataclass(frozen=True)
class Holdings:
    """Keys of replies and memories, and identities of encoders."""

    replies: frozenset[str]
    memories: frozenset[str]
    encoders: tuple[Mapping[str, Any], ...]

    def embeds_with(self, shelf: Shelf) -> bool:
        """Whether a shelf's vectors were made by one of the encoders."""
        identity = shelf.label["identity"].items()
        return any(identity <= encoder.items() for encoder in self.encoders)


def find_runs(results: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the runs' folders under `results`; with `names`, those whose path has one in it.

    Raises `UserError` for a name that no run has.
    """
    runs = run_folders(results)
    found: dict[Path, None] = {}
    for name in names:
        fits = [run for run in runs if name.strip("/") in run.relative_to(results).as_posix()]
        if not fits:
            options = {part for run in runs for part in run.relative_to(results / "runs").parts}
            raise UserError(
                f"No run under {results / 'runs'} is named {name}.{suggest(name, options)}"
            )
        found |= dict.fromkeys(fits)
    return list(found) if names else runs


def holdings(runs: Iterable[Path]) -> Holdings:
    """Return what these runs' records, builds, judgements and manifests refer to."""
    replies: set[str] = set()
    memories: set[str] = set()
    encoders: list[Mapping[str, Any]] = []
    for run in runs:
        for path in run.glob("*.jsonl"):
            for record in _records(path):
                replies |= {call.get("reply", "") for call in record.get("calls") or ()}
                memories.add(record.get("memory") or "")
        models = _manifest(run).get("identity", {}).get("models", {})
        if "encoder" in models:
            encoders.append(models["encoder"])
    return Holdings(frozenset(replies - {""}), frozenset(memories - {""}), tuple(encoders))


def secrets(runs: Iterable[Path]) -> dict[str, str]:
    """Return the keys that this machine knows, by name: of the runs' endpoints, and any other."""
    from dotenv import dotenv_values

    known = {**dotenv_values(".env"), **os.environ}
    names = {name for name in known if _SECRET_NAME.search(name.upper())}
    for run in runs:
        for model in (_manifest(run).get("configuration", {}).get("llm") or {}).values():
            names.add(str((model or {}).get("api_key_env") or ""))
    return {name: value for name in names if (value := known.get(name))}


def dollars(prices: PriceList, calls: Iterable[Mapping[str, Any]]) -> tuple[float, set[str]]:
    """Return what calls cost, and the models among them that have no price."""
    total, unknown = 0.0, set()
    for call in calls:
        cost = prices.cost([call])
        if cost is None:
            unknown.add(str(call["model"]))
        total += cost or 0.0
    return total, unknown


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        yield from read_records(path)
    except KeyError:
        return  # a file of other things (timing)


def _manifest(run: Path) -> dict[str, Any]:
    try:
        found = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
