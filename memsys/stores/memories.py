"""The memory store: what a system remembers of one conversation, saved under what made it.

`<key>/units.jsonl` holds the units, `arrays.npz` the numbers, `meta.json` the sessions, the
system's state, what the build cost, and checksums. A memory appears whole or not at all; one that
fails its checksums counts as absent.
"""

from __future__ import annotations

import io
import json
import logging
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memsys.errors import UserError
from memsys.stores.health import Health
from memsys.stores.plain import dumps
from memsys.system import Memory, Unit

DRAFT = ".draft-"
_log = logging.getLogger(__name__)


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

    def all_keys(self) -> Iterator[str]:
        """Yield the keys of all memories, damaged ones included."""
        for path in sorted(self.folder.glob("??/*")):
            if path.is_dir() and not path.name.startswith("."):
                yield path.name

    def get(self, key: str) -> tuple[Memory, Build] | None:
        """Return a memory and its build, or `None`; a damaged one counts as absent."""
        try:
            return self.read(key)
        except ValueError as error:
            _log.warning("memory %s is damaged (%s): it is built again", self.path(key), error)
            return None

    def read(self, key: str) -> tuple[Memory, Build] | None:
        """Return a memory and its build, or `None`; raises `ValueError` for a damaged one."""
        try:
            files = {path.name: path.read_bytes() for path in self.path(key).iterdir()}
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ValueError(error.strerror) from error
        if not files.get("meta.json", b"{").startswith(b'{"crc":'):
            return None  # made before memories had checksums
        return read_memory(files)

    def sound(self, key: str) -> bool:
        """Whether a memory is whole and undamaged."""
        try:
            return self.read(key) is not None
        except ValueError:
            return False

    def put(self, key: str, memory: Memory, build: Build) -> None:
        """Save a memory; if two processes save the same one, the first stays."""
        self.put_files(key, memory_files(memory, build))

    def put_files(self, key: str, files: Mapping[str, bytes]) -> None:
        """Save a memory as the files that it consists of."""
        target = self.path(key)
        draft: Path | None = None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=target.parent))
            draft.chmod(0o755)  # mkdtemp's own is for its user alone; a store may be shared
            for name, content in files.items():
                (draft / name).write_bytes(content)
            if target.exists() and not self.sound(key):
                shutil.rmtree(target)  # damaged: give way to the fresh one
            draft.rename(target)
        except OSError as error:
            if draft is not None:
                shutil.rmtree(draft, ignore_errors=True)
            if target.is_dir():
                return
            raise UserError(f"Cannot save a memory in {self.folder}: {error.strerror}.") from error

    def verify(self) -> Health:
        """Read every memory and check it; the bytes of drafts that were never finished are torn."""
        good = [self.sound(key) for key in self.all_keys()]
        torn = sum(p.stat().st_size for p in self.folder.glob(f"??/{DRAFT}*/*"))
        return Health(sum(good), len(good) - sum(good), torn)


def memory_files(memory: Memory, build: Build) -> dict[str, bytes]:
    """Return the files of a memory, by name."""
    numbers = io.BytesIO()
    np.savez(numbers, allow_pickle=False, **memory.arrays)
    files = {
        "units.jsonl": b"".join(dumps(asdict(unit)) + b"\n" for unit in memory.units),
        "arrays.npz": numbers.getvalue(),
    }
    meta = {
        "sessions": list(memory.sessions),
        "state": dict(memory.state),
        "units": len(memory.units),
        "seconds": build.seconds,
        "calls": list(build.calls),
        "counts": dict(build.counts),
        "files": {name: zlib.crc32(content) for name, content in files.items()},
    }
    body = dumps(meta)
    files["meta.json"] = b'{"crc":%d,"meta":%s}' % (zlib.crc32(body), body)
    return files


def read_memory(files: Mapping[str, bytes]) -> tuple[Memory, Build]:
    """Return the memory that files hold; raises `ValueError` if anything in them is damaged."""
    try:
        head, _, body = files["meta.json"].partition(b',"meta":')
        if int(head.removeprefix(b'{"crc":')) != zlib.crc32(body[:-1]):
            raise ValueError("meta.json fails its checksum")
        meta = json.loads(body[:-1])
        for name, crc in meta["files"].items():
            if zlib.crc32(files[name]) != crc:
                raise ValueError(f"{name} fails its checksum")
        units = tuple(_unit(json.loads(line)) for line in files["units.jsonl"].splitlines())
        with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
            numbers = {name: arrays[name] for name in arrays.files}
        memory = Memory(units, tuple(meta["sessions"]), numbers, meta["state"])
        return memory, Build(meta["seconds"], tuple(meta["calls"]), meta["counts"])
    except KeyError as error:
        raise ValueError(f"{error} is missing") from error


def _unit(raw: dict[str, Any]) -> Unit:
    return Unit(raw["id"], raw["text"], tuple(raw["turns"]), tuple(raw["sessions"]), raw["fields"])
