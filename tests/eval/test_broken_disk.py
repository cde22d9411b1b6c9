"""A full disk, a read-only folder, two equal commands: one sentence, and nothing is lost."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBackend
from served import end, run_command, serve, start, until

from eval.command import carry_out
from eval.progress import Board
from eval.records import RecordFile, read_records
from memsys.cli import sentence
from memsys.errors import UserError

pytestmark = pytest.mark.timeout(300)


class Full:
    """A raw file on a disk with room for some bytes more."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = data[: self.room]
        self.room -= len(part)
        return int(self.file.write(part))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def record(index: int) -> dict[str, Any]:
    return {"conversation": "c", "index": index, "error": None, "answer": "x" * 50}


@pytest.mark.parametrize("room", [0, 1, 40, 89])
def test_a_full_disk_leaves_no_half_line_behind(tmp_path: Path, room: int) -> None:
    path = tmp_path / "records.jsonl"
    file = RecordFile(path)
    file.append(record(0))
    raw = file._file
    file._file = Full(raw, room)  # type: ignore[assignment]
    with pytest.raises(UserError, match=r"No space left.*Everything finished is kept"):
        file.append(record(1))
    assert ("c", 1) not in file.records
    file._file = raw  # somebody made room, and another question finished meanwhile
    file.append(record(2))
    file.close()
    assert [r["index"] for r in read_records(path)] == [0, 2]


def test_a_disk_that_is_full_at_the_end_keeps_the_records(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "records.jsonl"
    file = RecordFile(path)
    file.append(record(1))
    file.append(record(0))

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        file.finish([("c", 0), ("c", 1)])
    assert [r["index"] for r in read_records(path)] == [1, 0]
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_disk_without_a_file_is_one_sentence() -> None:
    text, status = sentence(OSError(errno.ENOSPC, "No space left on device")) or ("", 0)
    assert status == 2 and "No space left on device. Everything finished is kept" in text
    assert sentence(OSError(errno.EBADF, "Bad file descriptor")) is None
    assert sentence(ValueError("ours")) is None


def test_a_run_whose_files_may_grow_no_more(tmp_path: Path) -> None:
    """A real write failure in a real command: the kernel refuses what passes a file's limit."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    with serve() as server:
        code, _, err = end(start(run_command(server, tmp_path), preexec_fn=small_files))
        assert code == 2, err
        assert "Traceback" not in err
        assert err.strip().count("\n") == 0, "one sentence"
        assert "File too large" in err
        asked = server.stats.requests
        kept = [r for p in tmp_path.rglob("records.jsonl") for r in read_records(p)]
        code, _, err = end(start(run_command(server, tmp_path)))
        assert code == 0, err
        (path,) = tmp_path.rglob("records.jsonl")
        assert len(read_records(path)) >= len(kept)
        assert server.stats.requests <= len(server.stats.by_content) + asked


async def test_a_read_only_results_folder_is_told_before_any_call(bench, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    with pytest.raises(UserError, match=r"paths\.results=.* cannot be written to"):
        await carry_out(bench.spec(), Board("off"))
    assert not FakeBackend.requests


def test_a_results_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file stands in the way")
    with serve() as server:
        code, _, err = end(start(run_command(server, tmp_path / "results")))
        assert code == 2, err
        assert "cannot be made" in err and "Traceback" not in err
        assert server.stats.requests == 0


def test_two_equal_commands_at_once(tmp_path: Path) -> None:
    with serve(latency=20.0) as server:
        first = start(run_command(server, tmp_path, "concurrency.questions=1"))
        until(lambda: server.stats.requests >= 1, first)
        code, _, err = end(start(run_command(server, tmp_path)))
        assert code == 2
        assert "Another process is working on this run" in err and "Traceback" not in err
        assert server.stats.requests == 1, "the second command asked nothing"
        server.latency = 0.0
        assert end(first)[0] == 0
        assert server.stats.requests == len(server.stats.by_content)
