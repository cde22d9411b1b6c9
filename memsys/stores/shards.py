"""Segments of the vector store (`memsys.stores.vectors`): one that is read, one that is written."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.encoders.protocol import Vectors

ROW = 40  # bytes of a row of keys
FLOAT = np.dtype("<f4")
HALF = np.dtype("<f2")

Key = bytes
"""32 bytes: the SHA-256 of a text (and of whatever else tells two texts apart)."""


@dataclass
class Segment:
    """One finished or growing segment of any process, as far as it was complete when read."""

    stem: Path
    dimension: int
    element: np.dtype[Any]
    rows: int
    keys: NDArray[np.uint8]  # (rows, 40)
    _vectors: NDArray[Any] | None = field(default=None, repr=False)

    @classmethod
    def read(cls, stem: Path, dimension: int, element: np.dtype[Any]) -> Segment:
        """Read the keys; the vectors stay on disk until the first is asked for."""
        keys = np.fromfile(stem.with_suffix(".keys"), np.uint8)
        width = element.itemsize * dimension
        rows = min(len(keys) // ROW, size_of(stem.with_suffix(".vectors")) // width)
        return cls(stem, dimension, element, rows, keys[: rows * ROW].reshape(rows, ROW))

    def vector(self, row: int) -> Vectors | None:
        """Return the vector of `row`, or `None` if it is damaged."""
        if self._vectors is None:
            shape = (self.rows, self.dimension)
            path = self.stem.with_suffix(".vectors")
            try:
                self._vectors = np.memmap(path, dtype=self.element, mode="r", shape=shape)
            except (OSError, ValueError):
                return None  # pruned, or cut short, since its keys were read
        vector = np.array(self._vectors[row], np.float32)
        head = self.keys[row].tobytes()
        return vector if crc(head[:36], vector) == int.from_bytes(head[36:], "little") else None


class Writer:
    """The segment that this process writes."""

    def __init__(self, folder: Path, dimension: int, element: np.dtype[Any]) -> None:
        """Start a segment in `folder`."""
        # names sort by time: where two processes embedded the same text, all read the older one
        self.stem = folder / f"{time.time_ns():020d}-{secrets.token_hex(6)}"
        self.dimension = dimension
        self.element = element
        self.pid = os.getpid()
        self.rows: dict[Key, tuple[int, int]] = {}
        self._vectors = self.stem.with_suffix(".vectors").open("xb")
        self._keys = self.stem.with_suffix(".keys").open("xb")
        self._reader = self.stem.with_suffix(".vectors").open("rb")

    def append(self, keys: Sequence[Key], vectors: Vectors, tokens: Sequence[int]) -> None:
        """Write vectors, then keys; raises `OSError`."""
        vectors = vectors.astype(self.element)
        heads = [k + int(n).to_bytes(4, "little") for k, n in zip(keys, tokens, strict=True)]
        rows = [
            head + crc(head, vector).to_bytes(4, "little")
            for head, vector in zip(heads, vectors, strict=True)
        ]
        self._vectors.write(vectors.tobytes())
        self._vectors.flush()
        self._keys.write(b"".join(rows))
        self._keys.flush()
        for key, count in zip(keys, tokens, strict=True):
            self.rows[key] = (len(self.rows), int(count))

    def vector(self, row: int) -> Vectors:
        """Return a vector of this segment."""
        size = self.element.itemsize * self.dimension
        content = os.pread(self._reader.fileno(), size, row * size)
        return np.frombuffer(content, self.element).astype(np.float32)

    def close(self) -> None:
        """Close the files."""
        for file in (self._vectors, self._keys, self._reader):
            with contextlib.suppress(OSError):  # a full disk: what was not written is lost anyway
                file.close()


def crc(head: bytes, vector: Vectors) -> int:
    """Return the check of a row: its key and length, and its vector as float32."""
    return zlib.crc32(np.ascontiguousarray(vector, FLOAT).tobytes(), zlib.crc32(head))


def size_of(path: Path) -> int:
    """Return a file's bytes, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
