"""The vector store: what has been embedded once is never embedded again, by any run.

One folder a kind of vector (everything in an encoder's `identity`), in it append-only segments.
A segment is written by one process and read by all; it is two files with one row a text:

- `NAME.vectors`: the vectors, little-endian float32, or float16 where the identity has
  `stored: float16`; memory-mapped when first needed;
- `NAME.keys`: 40 bytes a row: the text's SHA-256, its length in word pieces (uint32), and a CRC-32
  of all that and the vector as float32 (uint32).

Vectors are written before keys, so that a row with a key is complete. A torn last row is ignored;
a damaged row is counted and counts as absent, so that its text is embedded once more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memsys.encoders.protocol import Vectors
from memsys.errors import UserError
from memsys.stores.health import Health
from memsys.stores.shards import FLOAT, HALF, ROW, Key, Segment, Writer, crc, size_of

_FORMAT = 1
_RESCAN_SECONDS = 5.0
_log = logging.getLogger(__name__)


class VectorStore:
    """A folder of shelves, one for every encoder identity."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which need not exist yet."""
        self.folder = folder
        self._shelves: dict[str, Shelf] = {}
        self._lock = threading.Lock()

    def shelf(self, identity: Mapping[str, Any], dimension: int) -> Shelf:
        """Return the shelf of vectors that are made by an encoder with this `identity`."""
        label = {"format": _FORMAT, "dimension": dimension, "identity": dict(identity)}
        text = json.dumps(label, sort_keys=True, ensure_ascii=False)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        with self._lock:
            if name not in self._shelves:
                self._shelves[name] = Shelf(self.folder / name, dimension, label)
            return self._shelves[name]

    def shelves(self) -> Iterator[Shelf]:
        """Yield every shelf that is in the folder."""
        for path in sorted(self.folder.glob("*/identity.json")):
            try:
                label = json.loads(path.read_text(encoding="utf-8"))
                yield self.shelf(label["identity"], label["dimension"])
            except (ValueError, KeyError, TypeError):
                _log.warning("%s is damaged: its vectors are not used", path)

    def size_bytes(self) -> int:
        """Return how many bytes the store takes."""
        return sum(shelf.size_bytes() for shelf in self.shelves())

    def verify(self) -> Health:
        """Read and check every row of every shelf."""
        return sum((shelf.verify() for shelf in self.shelves()), Health())

    def close(self) -> None:
        """Close this process's segments."""
        with self._lock:
            for shelf in self._shelves.values():
                shelf.close()


class Shelf:
    """The vectors of one encoder identity: a mapping from text digests to float32 vectors.

    `element` is the number type on disk; what a float16 shelf takes in, it rounds.

    Opening reads the keys only. Any number of threads and processes may use one shelf.
    """

    def __init__(self, folder: Path, dimension: int, label: Mapping[str, Any]) -> None:
        """Open `folder`; `label` is written into it once, for people and for `verify`."""
        self.folder = folder
        self.dimension = dimension
        self.label = label
        self.element = HALF if label["identity"].get("stored") == "float16" else FLOAT
        self._lock = threading.RLock()
        self._segments: dict[Path, tuple[tuple[int, int], Segment]] = {}
        self._writer: Writer | None = None
        self._damaged: set[tuple[Path, int]] = set()
        self._index()
        self.refresh()

    def get(self, keys: Iterable[Key]) -> dict[Key, Vectors]:
        """Return the vectors of those `keys` that are here and undamaged."""
        return {key: vector for key, (vector, _) in self.lookup(keys).items()}

    def lookup(self, keys: Iterable[Key]) -> dict[Key, tuple[Vectors, int]]:
        """Return vector and length in word pieces of those `keys` that are here and undamaged."""
        wanted = list(dict.fromkeys(keys))
        with self._lock:
            found = self._find(wanted)
            if len(found) < len(wanted) and time.monotonic() > self._scanned + _RESCAN_SECONDS:
                self.refresh()
                found |= self._find([key for key in wanted if key not in found])
        return found

    def put(
        self, keys: Sequence[Key], vectors: Vectors, tokens: Sequence[int] | None = None
    ) -> None:
        """Add vectors of shape (n, dimension) and their texts' lengths; known keys are skipped."""
        if vectors.shape != (len(keys), self.dimension):
            raise ValueError(f"{len(keys)} keys need vectors of width {self.dimension}")
        counts = [0] * len(keys) if tokens is None else list(tokens)
        with self._lock:
            known = self._find(keys)
            fresh = {key: i for i, key in enumerate(keys) if key not in known}
            if not fresh:
                return
            rows = list(fresh.values())
            try:
                self._own_writer().append(list(fresh), vectors[rows], [counts[i] for i in rows])
            except OSError as error:
                # half a row may be on disk: leave this segment to its complete rows
                self._leave_writer()
                raise UserError(
                    f"Cannot write to the store {self.folder}: {error.strerror or error}. "
                    "What is in it is kept."
                ) from error

    def refresh(self) -> None:
        """Take in what other processes have written since the last look."""
        with self._lock:
            changed = False
            own = self._writer.stem if self._writer else None
            for stem in sorted(p.with_suffix("") for p in self.folder.glob("*.keys")):
                if stem == own:
                    continue
                sizes = (size_of(stem.with_suffix(".keys")), size_of(stem.with_suffix(".vectors")))
                if stem not in self._segments or self._segments[stem][0] != sizes:
                    self._segments[stem] = (sizes, self._read(stem))
                    changed = True
            if changed:
                self._index()
            self._scanned = time.monotonic()

    def __len__(self) -> int:
        """Return how many different keys are here."""
        with self._lock:
            own = self._writer.rows if self._writer else {}
            shared = sum(1 for key in own if next(self._places(key), None) is not None)
            return self._unique + len(own) - shared

    @property
    def damaged(self) -> int:
        """How many damaged rows were met so far."""
        return len(self._damaged)

    def size_bytes(self) -> int:
        """Return how many bytes the shelf takes."""
        return sum(size_of(path) for path in self.folder.glob("*"))

    def rows_as_bytes(self) -> Iterator[bytes]:
        """Yield every good row once: its 40 bytes of key and its vector (see `rows_of_bytes`)."""
        seen: set[Key] = set()
        for path in sorted(self.folder.glob("*.keys")):
            segment = self._read(path.with_suffix(""))
            for row in range(segment.rows):
                head = segment.keys[row].tobytes()
                vector = segment.vector(row) if head[:32] not in seen else None
                if vector is not None:
                    seen.add(head[:32])
                    yield head + vector.astype(FLOAT).tobytes()

    def verify(self) -> Health:
        """Read every row from disk and check it."""
        health = Health()
        for path in sorted(self.folder.glob("*.keys")):
            stem = path.with_suffix("")
            torn = size_of(path), size_of(stem.with_suffix(".vectors"))
            segment = self._read(stem)
            good = sum(segment.vector(row) is not None for row in range(segment.rows))
            width = ROW + self.element.itemsize * self.dimension
            left = sum(torn) - segment.rows * width
            health += Health(good, segment.rows - good, left)
        return health

    def close(self) -> None:
        """Close this process's segment; later vectors go to a new one."""
        with self._lock:
            if self._writer is not None:
                self._leave_writer()

    def _read(self, stem: Path) -> Segment:
        return Segment.read(stem, self.dimension, self.element)

    def _own_writer(self) -> Writer:
        if self._writer is not None and self._writer.pid != os.getpid():
            self._leave_writer()  # after a fork the segment stays the parent's
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_label()
            self._writer = Writer(self.folder, self.dimension, self.element)
        return self._writer

    def _leave_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.refresh()

    def _write_label(self) -> None:
        path = self.folder / "identity.json"
        if not path.exists():
            draft = self.folder / f".identity-{secrets.token_hex(6)}"
            draft.write_text(
                json.dumps(self.label, indent=2, sort_keys=True, ensure_ascii=False),
                encoding="utf-8",
            )
            draft.replace(path)

    def _index(self) -> None:
        """Sort all rows by the first 8 bytes of their keys; equal keys stay oldest first."""
        self._order = [segment for _, (_, segment) in sorted(self._segments.items())]
        self._starts = np.cumsum([0, *(segment.rows for segment in self._order)])
        keys = np.concatenate(
            [np.zeros((0, 32), np.uint8), *(segment.keys[:, :32] for segment in self._order)]
        )
        heads = np.ascontiguousarray(keys[:, :8]).view("<u8").reshape(-1)
        self._rows = np.argsort(heads, kind="stable")
        self._heads = heads[self._rows]
        same = np.flatnonzero(self._heads[1:] == self._heads[:-1])
        equal = (keys[self._rows[same]] == keys[self._rows[same + 1]]).all(axis=1)
        self._unique = len(keys) - int(equal.sum())

    def _places(self, key: Key) -> Iterator[tuple[Segment, int]]:
        head = np.uint64(int.from_bytes(key[:8], "little"))
        at = int(np.searchsorted(self._heads, head))
        while at < len(self._heads) and self._heads[at] == head:
            row = int(self._rows[at])
            number = int(np.searchsorted(self._starts, row, side="right")) - 1
            segment, inside = self._order[number], row - int(self._starts[number])
            if segment.keys[inside, :32].tobytes() == key:
                yield segment, inside
            at += 1

    def _find(self, keys: Iterable[Key]) -> dict[Key, tuple[Vectors, int]]:
        found: dict[Key, tuple[Vectors, int]] = {}
        for key in keys:
            for segment, row in self._places(key):
                vector = segment.vector(row)
                if vector is not None:
                    tokens = int.from_bytes(segment.keys[row, 32:36].tobytes(), "little")
                    found[key] = (vector, tokens)
                    break
                self._damaged.add((segment.stem, row))
            else:
                if self._writer is not None and key in self._writer.rows:
                    row, tokens = self._writer.rows[key]
                    found[key] = (self._writer.vector(row), tokens)
        return found


def rows_of_bytes(content: bytes, dimension: int) -> tuple[list[Key], Vectors, list[int]]:
    """Read what `rows_as_bytes` wrote: keys, vectors, lengths; raises `ValueError` if damaged."""
    width = ROW + 4 * dimension
    if dimension < 1 or len(content) % width:
        raise ValueError("not whole rows")
    rows = np.frombuffer(content, np.uint8).reshape(-1, width)
    vectors = np.ascontiguousarray(rows[:, ROW:]).view(FLOAT).astype(np.float32)
    heads = [row[:ROW].tobytes() for row in rows]
    for head, vector in zip(heads, vectors, strict=True):
        if crc(head[:36], vector) != int.from_bytes(head[36:], "little"):
            raise ValueError("a row fails its checksum")
    return [h[:32] for h in heads], vectors, [int.from_bytes(h[32:36], "little") for h in heads]
