"""The vector store: what goes in comes out, whatever happens to the files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsys.errors import UserError
from memsys.stores.health import Health
from memsys.stores.vectors import VectorStore, rows_of_bytes

IDENTITY = {"model": "m", "pooling": "mean"}


def key(text) -> bytes:
    return hashlib.sha256(str(text).encode()).digest()


def vector(text, dimension=3):
    seed = int.from_bytes(key(text)[:4], "big")
    return np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)


def fill(shelf, texts, tokens=None):
    keys = [key(t) for t in texts]
    vectors = np.array([vector(t, shelf.dimension) for t in texts], np.float32)
    shelf.put(keys, vectors.reshape(-1, shelf.dimension), tokens)


def shelf_in(folder, identity=IDENTITY, dimension=3):
    return VectorStore(folder).shelf(identity, dimension)


def holds(shelf, texts):
    found = shelf.get([key(t) for t in texts])
    return [t for t in texts if key(t) in found and (found[key(t)] == vector(t)).all()]


def files(folder, suffix):
    return sorted(folder.glob(f"*/*.{suffix}"))


def test_put_and_get_here_and_after_reopening(tmp_path):
    shelf = shelf_in(tmp_path)
    assert len(shelf) == 0 and shelf.get([key("a")]) == {} and shelf.size_bytes() == 0
    fill(shelf, ["a", "b"], tokens=[7, 2**31])
    fill(shelf, ["c"])
    for view in (shelf, shelf_in(tmp_path)):
        assert holds(view, "abcd") == ["a", "b", "c"]
        assert len(view) == 3
        counts = [n for _, n in view.lookup([key(t) for t in "abc"]).values()]
        assert counts == [7, 2**31, 0]
        (found,) = view.get([key("a"), key("a")]).values()
        assert found.dtype == np.float32 and found.shape == (3,)
    assert shelf.verify() == Health(rows=3)
    label = len((shelf.folder / "identity.json").read_bytes())
    assert shelf.size_bytes() == 3 * (40 + 12) + label


def test_known_keys_are_not_written_again(tmp_path):
    shelf = shelf_in(tmp_path)
    fill(shelf, ["a", "b"])
    fill(shelf, ["b", "c"])
    again = shelf_in(tmp_path)
    fill(again, ["a", "c"])
    assert len(files(tmp_path, "keys")) == 1
    assert again.verify() == Health(rows=3)
    shelf.put([key("x"), key("x")], np.array([vector("x")] * 2))
    assert len(shelf) == 4 and shelf.verify() == Health(rows=4)


def test_identities_and_dimensions_have_their_own_shelves(tmp_path):
    store = VectorStore(tmp_path)
    fill(store.shelf(IDENTITY, 3), ["a"])
    assert not store.shelf({**IDENTITY, "pooling": "cls"}, 3).get([key("a")])
    assert not store.shelf(IDENTITY, 2).get([key("a")])
    assert store.shelf(dict(reversed(IDENTITY.items())), 3).get([key("a")])
    fill(store.shelf(IDENTITY, 2), ["a", "b"])
    other = VectorStore(tmp_path)
    assert sorted(len(shelf) for shelf in other.shelves()) == [1, 2]
    assert other.verify() == Health(rows=3)
    assert other.size_bytes() == sum(p.stat().st_size for p in tmp_path.glob("*/*"))


def test_a_float16_shelf_keeps_half_the_bytes_and_rounds_what_it_gets(tmp_path):
    half = {**IDENTITY, "stored": "float16"}
    shelf = shelf_in(tmp_path, half)
    fill(shelf, "abc", tokens=[1, 2, 3])
    rounded = {key(t): vector(t).astype(np.float16).astype(np.float32) for t in "abc"}
    for view in (shelf, shelf_in(tmp_path, half)):
        found = view.get(rounded)
        assert all(found[k].dtype == np.float32 and (found[k] == rounded[k]).all() for k in rounded)
        assert view.verify() == Health(rows=3)
    label = len((shelf.folder / "identity.json").read_bytes())
    assert shelf.size_bytes() == 3 * (40 + 6) + label
    assert not shelf_in(tmp_path).get([key("a")])  # another identity, another shelf
    shelf.close()
    (again,) = VectorStore(tmp_path).shelves()
    assert again.element == np.float16
    content = b"".join(again.rows_as_bytes())  # as an archive carries them: float32
    keys, vectors, tokens = rows_of_bytes(content, 3)
    assert tokens == [1, 2, 3] and all((v == rounded[k]).all() for k, v in zip(keys, vectors))
    damage = files(tmp_path, "vectors")[0]
    damage.write_bytes(b"\xff" + damage.read_bytes()[1:])
    assert len(shelf_in(tmp_path, half).get(rounded)) == 2


def test_opening_reads_no_vector(tmp_path):
    fill(shelf_in(tmp_path), "ab")
    fill(shelf_in(tmp_path), "cd")
    shelf = shelf_in(tmp_path)
    opened = [segment._vectors is not None for segment in shelf._order]
    assert opened == [False, False] and len(shelf) == 4
    shelf.get([key("c")])  # one shard is mapped, the other stays unopened
    mapped = [segment._vectors for segment in shelf._order]
    assert mapped[0] is None and isinstance(mapped[1], np.memmap)


def test_a_wrong_shape_is_refused(tmp_path):
    with pytest.raises(ValueError, match="width 3"):
        shelf_in(tmp_path).put([key("a")], np.zeros((1, 4), np.float32))


@pytest.mark.parametrize(("suffix", "cut"), [("keys", 1), ("keys", 40), ("vectors", 1)])
def test_a_torn_tail_is_ignored_and_made_good(tmp_path, suffix, cut):
    fill(shelf_in(tmp_path), "abc")
    (path,) = files(tmp_path, suffix)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut)
    shelf = shelf_in(tmp_path)
    assert holds(shelf, "abc") == ["a", "b"]
    assert shelf.verify().rows == 2 and shelf.verify().torn > 0
    fill(shelf, "abc")
    for view in (shelf, shelf_in(tmp_path)):
        assert holds(view, "abc") == ["a", "b", "c"]
        assert len(view) == 3 and view.damaged == 0


@pytest.mark.parametrize(
    ("suffix", "offset", "lost"),
    [
        ("vectors", 13, "b"),
        ("vectors", 0, "a"),
        ("keys", 41, "b"),
        ("keys", 73, "b"),
        ("keys", 77, "b"),
    ],
)
def test_a_flipped_byte_loses_that_row_only(tmp_path, suffix, offset, lost):
    fill(shelf_in(tmp_path), "abc", [1, 2, 3])
    (path,) = files(tmp_path, suffix)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    shelf = shelf_in(tmp_path)
    rest = [t for t in "abc" if t != lost]
    assert holds(shelf, "abc") == rest and holds(shelf, "abc") == rest
    assert shelf.verify() == Health(rows=2, damaged=1)
    assert shelf.damaged == (0 if (suffix, offset) == ("keys", 41) else 1)  # that key is unknown
    fill(shelf, "abc")
    for view in (shelf, shelf_in(tmp_path)):
        assert holds(view, "abc") == ["a", "b", "c"]


def test_a_failed_write_leaves_what_was_complete(tmp_path, monkeypatch):
    shelf = shelf_in(tmp_path)
    fill(shelf, ["a"])
    writer = shelf._writer

    class Full:
        def write(self, data):
            writer._file.write(data[:5])
            writer._file.flush()
            raise OSError("no space left")

    writer._file, writer._vectors = writer._vectors, Full()
    monkeypatch.setattr(Full, "close", lambda self: writer._file.close(), raising=False)
    with pytest.raises(UserError, match="no space"):
        fill(shelf, ["b"])
    fill(shelf, ["b", "c"])
    for view in (shelf, shelf_in(tmp_path)):
        assert holds(view, "abc") == ["a", "b", "c"]
    assert shelf.verify() == Health(rows=3, torn=5)


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_vectors as t
shelf = t.shelf_in(Path(sys.argv[2]))
first = int(sys.argv[3])
for i in range(first, first + 300, 10):
    t.fill(shelf, range(i, i + 10))
assert len(t.holds(shelf, range(first, first + 300))) == 300
"""


def test_processes_write_at_once(tmp_path):
    """Three processes with overlapping texts; a fourth reader sees all, each once."""
    here = str(Path(__file__).parent)
    arguments = [sys.executable, "-c", WRITER, here, str(tmp_path)]
    running = [subprocess.Popen([*arguments, str(first)]) for first in (0, 150, 300)]
    reader = shelf_in(tmp_path)
    while any(process.poll() is None for process in running):
        reader.refresh()
        found = reader.get([key(t) for t in range(600)])
        assert all((found[key(t)] == vector(t)).all() for t in range(600) if key(t) in found)
    assert [process.returncode for process in running] == [0, 0, 0]
    assert reader.damaged == 0
    whole = shelf_in(tmp_path)
    assert len(whole) == 600 and holds(whole, range(600)) == list(range(600))
    assert whole.verify().damaged == 0
    # a writer that starts last may find all its texts there, and then writes no file
    assert 2 <= len(files(tmp_path, "keys")) <= 3
    reader.refresh()
    assert len(reader) == 600


def test_a_running_process_sees_what_others_add(tmp_path, monkeypatch):
    mine, other = shelf_in(tmp_path), shelf_in(tmp_path)
    fill(mine, ["a", "b"])
    fill(other, ["b", "c"])
    assert holds(mine, "abc") == ["a", "b"]
    monkeypatch.setattr("memsys.stores.vectors._RESCAN_SECONDS", -1.0)
    assert holds(mine, "abc") == ["a", "b", "c"]
    assert len(mine) == 3  # b is in both segments, and counts once
    fill(other, ["d"])  # that segment has grown since
    assert holds(mine, "abcd") == ["a", "b", "c", "d"]


def test_where_two_processes_disagree_the_older_vector_counts(tmp_path):
    first, second = shelf_in(tmp_path), shelf_in(tmp_path)
    first.put([key("a")], np.array([[1, 2, 3]], np.float32))
    time.sleep(0.002)
    second.put([key("a")], np.array([[4, 5, 6]], np.float32))
    assert shelf_in(tmp_path).get([key("a")])[key("a")].tolist() == [1, 2, 3]


def test_equal_beginnings_of_keys_are_told_apart(tmp_path):
    keys = [b"same eig" + bytes([i]) * 24 for i in range(5)]
    vectors = np.arange(15, dtype=np.float32).reshape(5, 3)
    shelf_in(tmp_path).put(keys, vectors)
    shelf = shelf_in(tmp_path)
    found = shelf.get(keys)
    assert [found[k].tolist() for k in keys] == vectors.tolist()
    assert len(shelf) == 5 and shelf.get([b"same eig" + bytes(24 * [9])]) == {}


def test_a_fork_writes_its_own_segment(tmp_path, monkeypatch):
    shelf = shelf_in(tmp_path)
    fill(shelf, ["a"])
    monkeypatch.setattr(os, "getpid", lambda: -1)
    fill(shelf, ["b"])
    assert len(files(tmp_path, "keys")) == 2
    assert holds(shelf, "ab") == ["a", "b"]


def test_threads_share_a_shelf(tmp_path):
    shelf = shelf_in(tmp_path)
    threads = [
        threading.Thread(target=lambda i=i: [fill(shelf, [j]) for j in range(i, i + 40)])
        for i in range(0, 100, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shelf) == 120 and shelf.verify() == Health(rows=120)


def test_closing_ends_the_segment(tmp_path):
    store = VectorStore(tmp_path)
    shelf = store.shelf(IDENTITY, 3)
    fill(shelf, ["a"])
    store.close()
    store.close()
    assert holds(shelf, "a") == ["a"]
    fill(shelf, ["b"])
    assert len(files(tmp_path, "keys")) == 2


@given(rounds=st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6))
def test_any_history_reads_back(tmp_path_factory, rounds):
    folder = tmp_path_factory.mktemp("history")
    for texts in rounds:
        fill(shelf_in(folder), texts)
    texts = sorted({text for round_ in rounds for text in round_})
    shelf = shelf_in(folder)
    assert holds(shelf, range(31)) == texts and len(shelf) == len(texts)


@pytest.mark.slow
def test_a_million_vectors_open_in_under_a_second(tmp_path):
    rows, dimension = 1_000_000, 8
    shelf = shelf_in(tmp_path, dimension=dimension)
    fill(shelf, ["a"])
    shelf.close()
    random = np.random.default_rng(0)
    stem = shelf.folder / "00000000000000000000-many"
    random.integers(0, 256, (rows, 40), np.uint8).tofile(stem.with_suffix(".keys"))
    np.zeros((rows, dimension), np.float32).tofile(stem.with_suffix(".vectors"))
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        again = shelf_in(tmp_path, dimension=dimension)
        found = again.get([key("a")])
        seconds.append(time.perf_counter() - started)
        assert len(again) == rows + 1
        assert (found[key("a")] == vector("a", dimension)).all()
    assert min(seconds) < 1
