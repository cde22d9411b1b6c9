"""Append-only segments of keyed JSON records: one writer a process, merged on read.

A segment is a text file of one record a line: `<key> <crc32 of key and json> <json>`. A process
appends only to a segment of its own, so that any number of processes can share a folder, a
network folder included. A line that is torn or damaged fails its checksum and counts as absent.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from memsys.errors import UserError
from memsys.stores.health import Health
from memsys.stores.plain import dumps

_SUFFIX = ".seg"
_SETTLED = 60.0  # seconds after its last record; a writer has locked its segment long before
_AGAIN = (
    30.0  # seconds until ended segments are looked at again: locks may not reach other machines
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a segment as it lies on disk; `value` is `None` if it is damaged."""

    key: str
    value: Any
    size: int


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
        self._ended: set[str] = set()  # names of segments that no process seems to write to
        self._all_seen = time.monotonic()
        self._writer: int | None = None
        self._pid = 0
        self._end = 0
        self._own: Path | None = None
        self._opened = False

    def get(self, key: str) -> Any:
        """Return the value of `key`, or `None`."""
        if not self._opened:
            self.refresh()
        place = self._index.get(key.encode())
        if place is None:
            return None
        try:
            return self._read(place)
        except OSError:
            # another process has pruned this segment: what it kept is in a new one
            self._forget()
            self.refresh()
            place = self._index.get(key.encode())
            return None if place is None else self._read(place)

    def put(self, key: str, value: object) -> None:
        """Append a value and hand it to the operating system before returning."""
        if not self._opened:
            self.refresh()
        line = segment_line(key, value)
        try:
            writer = self._open()
            if os.write(writer, line) < len(line):
                os.ftruncate(writer, self._end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.close()
            raise UserError(
                f"Cannot write to the store {self.folder}: {error.strerror}. What is in it is kept."
            ) from error
        assert self._own is not None
        self._index[key.encode()] = _Place(self._own, self._end, len(line))
        self._end += len(line)

    def refresh(self) -> None:
        """Take in what other processes have appended since the last look."""
        self._opened = True
        before = self.damaged
        if time.monotonic() - self._all_seen > _AGAIN:
            self._all_seen = time.monotonic()
            self._ended = set()
        for name in sorted(self._names() - self._ended):
            segment = self.folder / name
            if segment != self._own:
                self._look_at(segment)
        if self.damaged > before:
            _log.warning(
                "%d damaged records in %s count as absent and will be fetched again "
                "(python scripts/store.py verify)",
                self.damaged - before,
                self.folder,
            )

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

    def segments(self) -> list[Path]:
        """Return the segments there are, oldest first."""
        return [self.folder / name for name in sorted(self._names())]

    def verify(self) -> Health:
        """Read every record from disk and check it."""
        health = Health()
        for segment in self.segments():
            lines = list(read_segment(segment))
            good = sum(line.value is not None for line in lines)
            torn = segment.stat().st_size - sum(line.size for line in lines)
            health += Health(good, len(lines) - good, torn)
        return health

    def drop(self, keys: Iterable[str]) -> list[Path]:
        """Take records out, and damaged ones and torn tails of the segments that held them.

        Each segment concerned is written anew and then removed. Returns those that were left
        alone since a running process writes to them.
        """
        gone = set(keys)
        self.close()
        busy = []
        for segment in self.segments():
            lines = list(read_segment(segment))
            kept = {line.key: line.value for line in lines if line.value is not None}
            dropped = gone & kept.keys()
            whole = len(lines) == len(kept) and sum(x.size for x in lines) == segment.stat().st_size
            if not dropped and (whole or gone):
                continue
            with segment.open("r+b") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    busy.append(segment)
                    continue
                _rewrite(segment, {k: v for k, v in kept.items() if k not in gone})
        self._forget()
        return busy

    def close(self) -> None:
        """Close this process's own segment; later records go to a new one."""
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None
            if self._own is not None:
                self._read_up_to[self._own] = self._end
            self._own = None

    def _open(self) -> int:
        if self._writer is not None and self._pid != os.getpid():
            self.close()  # after a fork the segment stays the parent's
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            host = "".join(c for c in socket.gethostname() if c.isalnum())[:16]
            own = self.folder / f"{time.time_ns():x}-{host}-{os.getpid()}{_SUFFIX}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._writer = os.open(own, flags, 0o666)
            self._own, self._pid, self._end = own, os.getpid(), 0
            with contextlib.suppress(OSError):  # a file system without locks
                # held until this process ends: who prunes leaves the segment alone
                fcntl.flock(self._writer, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._writer

    def _names(self) -> set[str]:
        try:
            with os.scandir(self.folder) as found:
                return {entry.name for entry in found if entry.name.endswith(_SUFFIX)}
        except FileNotFoundError:
            return set()

    def _look_at(self, segment: Path) -> None:
        """Take in what is new in a segment, and note whether anything can follow."""
        try:
            found = segment.stat()
        except FileNotFoundError:
            return  # pruned a moment ago
        # asked before reading, so that nothing is written in between
        ended = time.time() - found.st_mtime > _SETTLED and _is_free(segment)
        if found.st_size > self._read_up_to.get(segment, 0):
            self._scan(segment)
        if ended:
            self._ended.add(segment.name)

    def _scan(self, segment: Path) -> None:
        offset = self._read_up_to.get(segment, 0)
        for line in read_segment(segment, offset):
            if line.value is None:
                self.damaged += 1
            else:
                place = _Place(segment, offset, line.size)
                self._index.setdefault(line.key.encode(), place)
            offset += line.size
        self._read_up_to[segment] = offset

    def _read(self, place: _Place) -> Any:
        with place.segment.open("rb") as file:
            file.seek(place.offset)
            return parse_line(file.read(place.length)).value

    def _forget(self) -> None:
        """Start the index anew, but for the segment that is being written."""
        self._index = {k: p for k, p in self._index.items() if p.segment == self._own}
        self._read_up_to = {}
        self._ended = set()


def _is_free(segment: Path) -> bool:
    """Whether no process holds a segment's lock; false where a file system knows none."""
    try:
        with segment.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_segment(segment: Path, start: int = 0) -> Iterator[Line]:
    """Yield the whole lines of a segment from the byte `start` on, damaged ones included.

    A torn last line, which may still be being written, is no whole line.
    """
    try:
        with segment.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                yield parse_line(line)
    except FileNotFoundError:
        return  # pruned a moment ago


def write_segment(segment: Path, values: Iterable[tuple[str, Any]]) -> None:
    """Write a whole segment at once; it appears complete or not at all."""
    draft = segment.with_suffix(".draft")
    with draft.open("wb") as file:
        file.writelines(segment_line(key, value) for key, value in values)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(segment)


def _rewrite(segment: Path, kept: dict[str, Any]) -> None:
    if kept:
        # a new name, so that nobody reads at old places; it sorts where the old one did, so that
        # the older of two records still counts
        stem, _, round_ = segment.stem.partition("-kept")
        write_segment(
            segment.with_name(f"{stem}-kept{int(round_ or 0) + 1}{_SUFFIX}"), kept.items()
        )
    segment.unlink()


def segment_line(key: str, value: object) -> bytes:
    """Return a record as a line of a segment."""
    body = dumps(value)
    return b"%s %08x %s\n" % (key.encode(), zlib.crc32(body, zlib.crc32(key.encode())), body)


def parse_line(line: bytes) -> Line:
    """Read one line of a segment."""
    size = len(line)
    try:
        key, crc, body = line.rstrip(b"\n").split(b" ", 2)
        # the first stores' checksums did not cover the key
        if int(crc, 16) not in (zlib.crc32(body, zlib.crc32(key)), zlib.crc32(body)):
            return Line("", None, size)
        return Line(key.decode("ascii"), orjson.loads(body), size)
    except ValueError:
        return Line("", None, size)
