"""The append-only store: shared, torn, damaged, merged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsys.errors import UserError
from memsys.stores.segments import SegmentStore


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Cannot write to the store"):
        SegmentStore(tmp_path / "sub").put("aa", 1)
