"""Memories on disk: whole or absent, equal to what was saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memsys.stores.memories import Build, MemoryStore
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
