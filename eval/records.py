"""Records: everything about each answered question, appended the moment it is known.

`records.jsonl` is append-only while a run goes on. A torn last line is dropped on resume; of two
records of one question the later one counts. A finished run's file is put in benchmark order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from memsys.errors import UserError
from memsys.stores.plain import dumps

Record = dict[str, Any]
Key = tuple[str, int]


def key_of(record: Record) -> Key:
    """Return what identifies a record in its run: conversation and index, never the text."""
    return record["conversation"], record["index"]


def read_records(path: Path) -> list[Record]:
    """Read a records file, tolerating a torn last line; later records replace earlier ones."""
    found: dict[Key, Record] = {}
    for record in _lines(path):
        found[key_of(record)] = record
    return list(found.values())


def _lines(path: Path) -> Iterator[Record]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return  # torn by a kill
            try:
                yield orjson.loads(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number} is not JSON: {error}.") from error


class RecordFile:
    """An append-only JSONL file, keyed by conversation and index."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending and read what it holds; cuts off a torn last line."""
        self.path = path
        self.records: dict[Key, Record] = {key_of(r): r for r in read_records(path)}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: FileIO = path.open("ab", buffering=0)
            self._size = self._drop_torn_line()
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, record: Record) -> None:
        """Add a record and hand it to the operating system before returning.

        Raises `UserError` if it cannot be written (a full disk); no part of it is then left.
        """
        line = dumps(record) + b"\n"
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            # half a line would spoil the one that another question may still append
            os.ftruncate(self._file.fileno(), self._size)
            raise self._unwritable(error) from error
        self._size += len(line)
        self.records[key_of(record)] = record

    def finish(self, order: Sequence[Key]) -> list[Record]:
        """Close the file and rewrite it in benchmark order; returns the records in that order."""
        self._file.close()
        position = {key: i for i, key in enumerate(order)}
        last = len(position)
        records = sorted(self.records.values(), key=lambda r: position.get(key_of(r), last))
        draft = self.path.with_suffix(".draft")
        try:
            with draft.open("wb") as file:
                file.writelines(dumps(record) + b"\n" for record in records)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise self._unwritable(error) from error
        return records

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(
            f"Cannot write {self.path}: {error.strerror}. Everything finished is kept; once this "
            "is mended, the same command goes on from there."
        )

    def _drop_torn_line(self) -> int:
        """Cut a torn last line off; returns the size that is left."""
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            content = file.read()
        end = content.rfind(b"\n") + 1
        if end < size:
            os.truncate(self.path, end)
        return end
