"""The memory store: what a system remembers of one conversation, saved under what made it.

`<key>/units.jsonl` holds the units, `arrays.npz` the numbers, `meta.json` the sessions, the
system's state and what the build cost. A memory appears whole or not at all.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memsys.errors import UserError
from memsys.stores.plain import dumps
from memsys.system import Memory, Unit


@dataclass(frozen=True, slots=True)
class Build:
    """What building one memory took; `calls` are ledger calls as JSON."""

    seconds: float
    calls: tuple[Mapping[str, Any], ...]
    counts: Mapping[str, int]


class MemoryStore:
    """Memories by content address."""

    def __init__(self, folder: Path) -> None:
        """Keep memories under `folder`."""
        self.folder = folder

    def path(self, key: str) -> Path:
        """Return the folder of a key."""
        return self.folder / key[:2] / key

    def get(self, key: str) -> tuple[Memory, Build] | None:
        """Return a memory and its build, or `None`; a damaged one counts as absent."""
        folder = self.path(key)
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            with (folder / "units.jsonl").open(encoding="utf-8") as lines:
                units = tuple(_unit(json.loads(line)) for line in lines)
            with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
                numbers = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, KeyError):
            return None
        if len(units) != meta["units"]:
            return None
        memory = Memory(units, tuple(meta["sessions"]), numbers, meta["state"])
        return memory, Build(meta["seconds"], tuple(meta["calls"]), meta["counts"])

    def put(self, key: str, memory: Memory, build: Build) -> None:
        """Save a memory; if two processes save the same one, the first stays."""
        target = self.path(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target.parent))
            with (draft / "units.jsonl").open("wb") as lines:
                lines.writelines(dumps(asdict(unit)) + b"\n" for unit in memory.units)
            np.savez(draft / "arrays.npz", allow_pickle=False, **memory.arrays)
            meta = {
                "sessions": list(memory.sessions),
                "state": dict(memory.state),
                "units": len(memory.units),
                "seconds": build.seconds,
                "calls": list(build.calls),
                "counts": dict(build.counts),
            }
            (draft / "meta.json").write_bytes(dumps(meta))
            if target.exists() and self.get(key) is None:
                shutil.rmtree(target)  # damaged: give way to the fresh one
            draft.rename(target)
        except OSError as error:
            if target.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
                return
            raise UserError(f"Cannot save a memory in {self.folder}: {error.strerror}.") from error


def _unit(raw: dict[str, Any]) -> Unit:
    return Unit(raw["id"], raw["text"], tuple(raw["turns"]), tuple(raw["sessions"]), raw["fields"])
