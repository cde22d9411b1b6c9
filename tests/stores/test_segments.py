"""The append-only store: shared, torn, damaged, merged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsys.errors import UserError
from memsys.stores import segments
from memsys.stores.health import Health
from memsys.stores.segments import SegmentStore, segment_line


def only_segment(folder: Path) -> Path:
    (segment,) = folder.glob("*.seg")
    return segment


def test_what_was_put_is_found_now_and_by_another_process(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.put("ab", {"text": "line\nbreak  é", "n": [1, 2]})
    assert store.get("ab") == {"text": "line\nbreak  é", "n": [1, 2]}
    assert SegmentStore(tmp_path).get("ab") == store.get("ab")
    assert SegmentStore(tmp_path).get("cd") is None


def test_a_torn_last_line_is_ignored_and_the_rest_kept(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.put("aa", 1)
    store.put("bb", {"long": "x" * 100})
    store.close()
    segment = only_segment(tmp_path)
    segment.write_bytes(segment.read_bytes()[:-20])
    again = SegmentStore(tmp_path)
    assert again.get("aa") == 1
    assert again.get("bb") is None
    again.put("bb", 2)
    assert SegmentStore(tmp_path).get("bb") == 2


def test_a_flipped_byte_makes_a_record_absent_never_wrong(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.put("aa", {"text": "hello"})
    store.put("bb", {"text": "world"})
    store.close()
    segment = only_segment(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b"hello", b"hellp"))
    again = SegmentStore(tmp_path)
    assert again.get("aa") is None
    assert again.get("bb") == {"text": "world"}
    assert again.damaged == 1


def test_many_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from memsys.stores.segments import SegmentStore\n"
        "s = SegmentStore(Path(sys.argv[1]))\n"
        "for i in range(200): s.put(f'{sys.argv[2]}{i:04x}', [sys.argv[2], i])\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    store = SegmentStore(tmp_path)
    assert len(store) == 600
    assert store.get("b00c7") == ["b", 199]


def test_refresh_takes_in_what_another_writer_appends(tmp_path: Path) -> None:
    one, two = SegmentStore(tmp_path), SegmentStore(tmp_path)
    assert two.get("aa") is None
    one.put("aa", 1)
    two.refresh()
    assert two.get("aa") == 1


def test_an_idle_writers_segment_is_looked_at_again_and_an_ended_ones_rarely(
    tmp_path, monkeypatch
) -> None:
    one, two = SegmentStore(tmp_path), SegmentStore(tmp_path)
    one.put("aa", 1)
    segment = only_segment(tmp_path)
    os.utime(segment, (0, 0))
    assert two.get("aa") == 1
    one.put("bb", 2)
    two.refresh()
    assert two.get("bb") == 2
    one.close()
    os.utime(segment, (0, 0))
    two.refresh()
    with segment.open("ab") as file:
        file.write(segment_line("cc", 3))
    two.refresh()
    assert two.get("cc") is None
    monkeypatch.setattr(segments, "_AGAIN", 0.0)  # a lock of another machine may not be seen here
    two.refresh()
    assert two.get("cc") == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Cannot write to the store"):
        SegmentStore(tmp_path / "sub").put("aa", 1)


def test_damage_is_said_in_one_line(tmp_path: Path, caplog) -> None:
    store = SegmentStore(tmp_path)
    for key in ("aa", "bb", "cc"):
        store.put(key, {"text": "hello"})
    store.close()
    segment = only_segment(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b"hello", b"hellp", 2))
    again = SegmentStore(tmp_path)
    assert again.get("cc") is not None
    again.refresh()
    assert [r.getMessage().split(" in ")[0] for r in caplog.records] == ["2 damaged records"]


def test_a_flipped_key_is_damage_too(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.put("ab", {"text": "hello"})
    store.close()
    segment = only_segment(tmp_path)
    segment.write_bytes(b"cb" + segment.read_bytes()[2:])
    again = SegmentStore(tmp_path)
    assert again.get("cb") is None and again.get("ab") is None
    assert again.verify() == Health(rows=0, damaged=1)


def test_a_full_disk_is_one_sentence_and_tears_nothing(tmp_path: Path, monkeypatch) -> None:
    store = SegmentStore(tmp_path)
    store.put("aa", 1)
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    with pytest.raises(UserError, match="No space left on device"):
        store.put("bb", 2)
    monkeypatch.undo()
    assert SegmentStore(tmp_path).verify() == Health(rows=1)
    store.put("bb", 2)
    assert SegmentStore(tmp_path).verify() == Health(rows=2)
    assert store.get("aa") == 1 and store.get("bb") == 2


def test_a_fork_writes_to_a_segment_of_its_own(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.put("aa", 1)
    child = os.fork()
    if not child:
        store.put("bb", 2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.put("cc", 3)
    assert len(list(tmp_path.glob("*.seg"))) == 2
    assert SegmentStore(tmp_path).verify() == Health(rows=3)
    store.refresh()
    assert [store.get(k) for k in ("aa", "bb", "cc")] == [1, 2, 3]


def test_dropping_keeps_the_rest_and_who_reads_meanwhile_finds_it(tmp_path: Path) -> None:
    writer = SegmentStore(tmp_path)
    for i in range(6):
        writer.put(f"{i:02x}", i)
    writer.close()
    reader = SegmentStore(tmp_path)
    assert reader.get("00") == 0
    assert SegmentStore(tmp_path).drop({"01", "03", "ff"}) == []
    assert [reader.get(f"{i:02x}") for i in range(6)] == [0, None, 2, None, 4, 5]
    assert SegmentStore(tmp_path).drop({"00"}) == []
    assert [reader.get(f"{i:02x}") for i in range(6)] == [None, None, 2, None, 4, 5]
    SegmentStore(tmp_path).drop({"02", "04", "05"})
    assert not list(tmp_path.iterdir())


def test_dropping_nothing_clears_away_damage_and_torn_tails(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.put("aa", {"text": "hello"})
    store.put("bb", 2)
    store.close()
    segment = only_segment(tmp_path)
    segment.write_bytes(segment.read_bytes().replace(b"hello", b"hellp") + b"cc 0000")
    assert SegmentStore(tmp_path).verify() == Health(rows=1, damaged=1, torn=7)
    assert SegmentStore(tmp_path).drop(()) == []
    assert SegmentStore(tmp_path).verify() == Health(rows=1)


def test_a_segment_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from memsys.stores.segments import SegmentStore\n"
        "s = SegmentStore(Path(sys.argv[1])); s.put('aa', 1); print('ready', flush=True)\n"
        "sys.stdin.read(); s.put('bb', 2)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"ready\n"
    assert SegmentStore(tmp_path).drop({"aa"}) == [only_segment(tmp_path)]
    other.communicate(b"", 30)
    assert SegmentStore(tmp_path).verify() == Health(rows=2)
    assert SegmentStore(tmp_path).drop({"aa"}) == []
    assert SegmentStore(tmp_path).verify() == Health(rows=1)
