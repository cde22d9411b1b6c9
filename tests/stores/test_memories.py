"""Memories on disk: whole or absent, equal to what was saved."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from memsys.errors import UserError
from memsys.stores.health import Health
from memsys.stores.memories import DRAFT, Build, MemoryStore
from memsys.stores.prune import mend
from memsys.system import Memory, Unit

MEMORY = Memory(
    units=(Unit("u1", "text é", ("t1",), ("s1",), {"keywords": ["a"]}), Unit("u2", "b")),
    sessions=("s1",),
    arrays={
        "vectors": np.arange(6, dtype=np.float32).reshape(2, 3),
        "edges": np.zeros((0, 2), int),
    },
    state={"index": {"a": [0]}},
)
BUILD = Build(1.5, ({"role": "main"},), {"fallback": 1})


def test_a_memory_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path)
    store.put("abcd", MEMORY, BUILD)
    found = MemoryStore(tmp_path).get("abcd")
    assert found is not None
    memory, build = found
    assert memory.units == MEMORY.units
    assert memory.sessions == MEMORY.sessions
    assert memory.state == MEMORY.state
    assert build == BUILD
    for name, array in MEMORY.arrays.items():
        assert memory.arrays[name].dtype == array.dtype
        assert np.array_equal(memory.arrays[name], array)


def test_an_absent_or_damaged_memory_is_none_and_can_be_replaced(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path)
    assert store.get("abcd") is None
    store.put("abcd", MEMORY, BUILD)
    units = store.path("abcd") / "units.jsonl"
    units.write_bytes(units.read_bytes()[:-10])
    assert store.get("abcd") is None
    store.put("abcd", MEMORY, BUILD)
    assert store.get("abcd") is not None


def test_saving_twice_keeps_the_first_and_leaves_no_draft(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path)
    store.put("abcd", MEMORY, BUILD)
    store.put("abcd", MEMORY, Build(9.0, (), {}))
    found = store.get("abcd")
    assert found is not None
    assert found[1].seconds == 1.5
    assert not list(tmp_path.rglob(".draft-*"))


def test_what_no_file_may_hold_is_replaced_never_a_lost_memory(tmp_path: Path) -> None:
    broken = Memory((Unit("u1", "half an emoji \ud83d"),), ("s1",))
    MemoryStore(tmp_path).put("abcd", broken, Build(0.0, (), {}))
    found = MemoryStore(tmp_path).get("abcd")
    assert found is not None
    assert found[0].units[0].text == "half an emoji ?"


@pytest.mark.parametrize("file", ["units.jsonl", "arrays.npz", "meta.json"])
@pytest.mark.parametrize("where", [0.1, 0.5, 0.97])
def test_one_flipped_bit_anywhere_makes_a_memory_absent(
    tmp_path: Path, file, where, caplog
) -> None:
    store = MemoryStore(tmp_path)
    store.put("abcd", MEMORY, BUILD)
    path = store.path("abcd") / file
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    assert store.get("abcd") is None
    assert "built again" in caplog.text
    assert store.verify() == Health(rows=0, damaged=1)
    store.put("abcd", MEMORY, BUILD)
    assert store.verify() == Health(rows=1)


def test_a_memory_without_checksums_is_absent_and_a_missing_file_damage(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path)
    store.put("abcd", MEMORY, BUILD)
    (store.path("abcd") / "units.jsonl").unlink()
    assert store.get("abcd") is None
    (store.path("abcd") / "meta.json").write_text('{"sessions": [], "units": 0}')
    assert store.read("abcd") is None


def test_what_a_killed_process_left_unfinished_is_cleared_away_later(tmp_path: Path) -> None:
    folder = tmp_path / "memories"
    store = MemoryStore(folder)
    store.put("abcd", MEMORY, BUILD)
    for name, age in ((f"{DRAFT}old", 7200), (f"{DRAFT}new", 0)):
        draft = folder / "ab" / name
        draft.mkdir()
        (draft / "units.jsonl").write_bytes(b"12345")
        os.utime(draft, (time.time() - age,) * 2)
    assert store.verify() == Health(rows=1, torn=10)
    mend(tmp_path)
    assert store.verify() == Health(rows=1, torn=5)


def test_a_full_disk_leaves_no_draft(tmp_path: Path, monkeypatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match="No space left"):
        MemoryStore(tmp_path).put("abcd", MEMORY, BUILD)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() or p.name.startswith(DRAFT)]
