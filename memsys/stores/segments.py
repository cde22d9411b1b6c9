"""Append-only segments of keyed JSON records: one writer a process, merged on read.

A segment is a text file of one record a line: `<key> <crc32 of the rest> <json>`. A process
appends only to a segment of its own, so that any number of processes can share a folder, a
network folder included. A line that is torn or damaged fails its checksum and counts as absent.
"""

from __future__ import annotations

import os
import socket
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any

import orjson

from memsys.errors import UserError
from memsys.stores.plain import dumps

_SUFFIX = ".seg"


@dataclass(frozen=True, slots=True)
class _Place:
    segment: Path
    offset: int
    length: int


class SegmentStore:
    """A content-addressed store of JSON values under hexadecimal keys."""

    def __init__(self, folder: Path) -> None:
        """Open the store; its segments are indexed at the first look-up."""
        self.folder = folder
        self.damaged = 0
        self._index: dict[bytes, _Place] = {}
        self._read_up_to: dict[Path, int] = {}
        self._writer: BufferedWriter | None = None
        self._own: Path | None = None
        self._opened = False

    def get(self, key: str) -> Any:
        """Return the value of `key`, or `None`."""
        if not self._opened:
            self.refresh()
        place = self._index.get(key.encode())
        if place is None:
            return None
        with place.segment.open("rb") as file:
            file.seek(place.offset)
            return _value(file.read(place.length))

    def put(self, key: str, value: object) -> None:
        """Append a value and hand it to the operating system before returning."""
        if not self._opened:
            self.refresh()
        body = dumps(value)
        line = b"%s %08x %s\n" % (key.encode(), zlib.crc32(body), body)
        try:
            writer = self._open()
            offset = writer.tell()
            writer.write(line)
            writer.flush()
        except OSError as error:
            raise UserError(
                f"Cannot write to the store {self.folder}: {error.strerror}."
            ) from error
        assert self._own is not None
        self._index[key.encode()] = _Place(self._own, offset, len(line))
        self._read_up_to[self._own] = offset + len(line)

    def refresh(self) -> None:
        """Take in what other processes have appended since the last look."""
        self._opened = True
        for segment in sorted(self.folder.glob(f"*{_SUFFIX}")):
            self._scan(segment)

    def __len__(self) -> int:
        if not self._opened:
            self.refresh()
        return len(self._index)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def keys(self) -> Iterator[str]:
        """Return all keys."""
        if not self._opened:
            self.refresh()
        return (key.decode() for key in self._index)

    def close(self) -> None:
        """Close this process's own segment."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self) -> BufferedWriter:
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            host = "".join(c for c in socket.gethostname() if c.isalnum())[:16]
            name = f"{time.time_ns():x}-{host}-{os.getpid()}{_SUFFIX}"
            self._own = self.folder / name
            self._writer = self._own.open("xb")
        return self._writer

    def _scan(self, segment: Path) -> None:
        start = self._read_up_to.get(segment, 0)
        if segment == self._own or segment.stat().st_size <= start:
            return
        offset = start
        with segment.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # torn, or still being written: look again at the next refresh
                if _value(line) is None:
                    self.damaged += 1
                else:
                    key = line[: line.index(b" ")]
                    self._index.setdefault(key, _Place(segment, offset, len(line)))
                offset += len(line)
        self._read_up_to[segment] = offset


def _value(line: bytes) -> Any:
    try:
        _, crc, body = line.rstrip(b"\n").split(b" ", 2)
        if zlib.crc32(body) != int(crc, 16):
            return None
        return orjson.loads(body)
    except ValueError:
        return None
