"""Reads what wandb left in a folder in offline mode: its own files, nothing of its programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32768
HEAD = 7  # of the file, and of every piece of a record


class Followed:
    """One offline run: what its `.wandb` file holds, and the files beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[Any] = []
        until = time.monotonic() + 15
        while not self.kind("exit"):  # wandb's program writes on for a moment after its `finish`
            assert time.monotonic() < until, f"{folder} was never ended"
            time.sleep(0.05)
            self.records = list(_records(next(folder.glob("*.wandb")).read_bytes()))

    def kind(self, name: str) -> list[Any]:
        return [getattr(r, name) for r in self.records if r.WhichOneof("record_type") == name]

    @property
    def about(self) -> Any:
        """The first record of the run itself: name, group, host."""
        return self.kind("run")[0]

    @property
    def config(self) -> dict[str, Any]:
        updates = [u for r in self.kind("run") for u in r.config.update]
        updates += [u for r in self.kind("config") for u in r.update]
        return {u.key: json.loads(u.value_json) for u in updates}

    @property
    def history(self) -> list[dict[str, Any]]:
        return [_items(record.item) for record in self.kind("history")]

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for record in self.kind("summary"):
            found |= _items(record.update)
        return found

    @property
    def status(self) -> int:
        return self.kind("exit")[-1].exit_code

    def table(self, name: str) -> dict[str, Any]:
        """Return a table that was logged: its columns and data."""
        place = next(row[f"{name}/path"] for row in self.history if f"{name}/path" in row)
        return json.loads((self.folder / "files" / place).read_text())

    def artefacts(self) -> dict[str, dict[str, bytes]]:
        """Return the artefacts' files by name; tables and pictures of the history left out."""
        found = {}
        for record in self._artefacts():
            found[record.name] = {
                entry.path: Path(entry.local_path).read_bytes()
                for entry in record.manifest.contents
            }
        return found

    def _artefacts(self) -> list[Any]:
        return [a for a in self.kind("artifact") if a.type != "run_table"]


def followed(results: Path) -> list[Followed]:
    """Return the runs that lie under a results folder, in the order of their start."""
    return [Followed(path) for path in sorted((results / "wandb").glob("offline-run-*"))]


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(content: bytes) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    assert content.startswith(b":W&B")
    at, held = HEAD, b""
    while at + HEAD <= len(content):
        if BLOCK - at % BLOCK < HEAD:  # the end of a block is filled up
            at += BLOCK - at % BLOCK
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        if at + HEAD + size > len(content):
            return  # being written
        held += content[at + HEAD : at + HEAD + size]
        at += HEAD + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(held)
            yield record
            held = b""
