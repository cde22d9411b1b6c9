"""Exports: whole, without a key, and taken in without trust."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from memsys.errors import UserError
from memsys.stores.archive import INDEX, Cargo, export, take_in
from memsys.stores.memories import Build, MemoryStore
from memsys.stores.segments import SegmentStore, segment_line
from memsys.stores.survey import survey
from memsys.stores.vectors import VectorStore
from memsys.system import Memory, Unit

REPLY = {
    "text": "a reply",
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "estimated": False},
    "latency": 0.1,
    "finish": "stop",
    "model": "m fp_1",
    "at": 1,
}
ONE, TWO, MEMORY = "1" * 64, "2" * 64, "a" * 64
RUN = "runs/locomo/memgas/0123abcd"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    results = tmp_path / "here"
    replies = SegmentStore(results / "stores" / "replies")
    replies.put(ONE, REPLY)
    replies.put(TWO, {**REPLY, "text": "of another run"})
    replies.close()
    memory = Memory((Unit("u", "text"),), ("s",), {"v": np.ones(3, np.float32)})
    MemoryStore(results / "stores" / "memories").put(MEMORY, memory, Build(1.0, (), {}))
    shelf = VectorStore(results / "stores" / "vectors").shelf({"model": "e"}, 2)
    shelf.put([b"k" * 32], np.ones((1, 2), np.float32), [5])
    shelf.close()
    run = results / RUN
    run.mkdir(parents=True)
    (run / "records.jsonl").write_text('{"conversation": "c", "index": 0}\n')
    (run / "manifest.json").write_text('{"run": "0123abcd"}')
    (run / ".lock").write_text("")
    return results


def cargo(results: Path) -> Cargo:
    shelves = list(VectorStore(results / "stores" / "vectors").shelves())
    return Cargo([results / RUN], frozenset({ONE}), frozenset({MEMORY}), shelves)


def send(results: Path, secrets: dict[str, str] | None = None) -> Path:
    target = results.parent / "export.zip"
    stores = results / "stores"
    export(target, cargo(results), stores=stores, results=results, secrets=secrets or {})
    return target


def test_what_was_exported_is_there_on_another_machine(here: Path, tmp_path: Path) -> None:
    file, there = send(here), tmp_path / "there"
    taken = take_in(file, stores=there / "stores", results=there)
    assert dict(taken.new) == {"replies": 1, "memories": 1, "vectors": 1, "runs": 1}
    assert not taken.differing and not taken.damaged
    assert SegmentStore(there / "stores" / "replies").get(ONE) == REPLY
    assert SegmentStore(there / "stores" / "replies").get(TWO) is None
    found, built = (MemoryStore(r / "stores" / "memories").get(MEMORY) for r in (here, there))
    assert found[0].units == built[0].units and np.array_equal(
        found[0].arrays["v"], built[0].arrays["v"]
    )
    shelf = VectorStore(there / "stores" / "vectors").shelf({"model": "e"}, 2)
    assert shelf.lookup([b"k" * 32])[b"k" * 32][1] == 5
    for name in ("records.jsonl", "manifest.json"):
        assert (there / RUN / name).read_bytes() == (here / RUN / name).read_bytes()
    assert not (there / RUN / ".lock").exists()
    assert {e.store for e in survey(there / "stores")} == {"replies", "memories", "vectors"}
    again = take_in(file, stores=there / "stores", results=there)
    assert dict(again.same) == {"replies": 1, "memories": 1, "vectors": 1, "runs": 1}


@pytest.mark.parametrize("place", ["records.jsonl", "manifest.json", "reply"])
def test_no_export_holds_a_key(here: Path, place: str) -> None:
    key = "very-secret-0123456789"
    if place == "reply":
        SegmentStore(here / "stores" / "replies").put("0" * 64, REPLY)
        replies = SegmentStore(here / "stores" / "replies")
        replies.drop({ONE})
        replies.put(ONE, {**REPLY, "text": f"your key is {key}"})
    else:
        with (here / RUN / place).open("a") as file:
            file.write(json.dumps({"conversation": "x", "index": 1, "leak": key}) + "\n")
    with pytest.raises(UserError, match="holds the value of SOME_KEY") as caught:
        send(here, {"SOME_KEY": key})
    assert key not in str(caught.value)
    assert not list(here.parent.glob("*export.zip*"))


def test_nothing_that_is_here_is_overwritten(here: Path, tmp_path: Path) -> None:
    file, there = send(here), tmp_path / "there"
    run = there / RUN
    run.mkdir(parents=True)
    (run / "records.jsonl").write_text('{"conversation": "mine", "index": 0}\n')
    replies = SegmentStore(there / "stores" / "replies")
    replies.put(ONE, {**REPLY, "text": "mine"})
    replies.close()
    taken = take_in(file, stores=there / "stores", results=there)
    assert taken.differing == [f"reply {ONE[:16]}", RUN]
    assert "mine" in (run / "records.jsonl").read_text()
    assert not (run / "manifest.json").exists()
    assert SegmentStore(there / "stores" / "replies").get(ONE)["text"] == "mine"


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json",
        "/etc/evil.json",
        "runs/locomo/../../evil.json",
        "runs/locomo/memgas/.hidden.json",
        "runs/locomo/memgas/0123/evil.py",
        "memories/" + "a" * 64 + "/evil.pkl",
        "memories/../../evil/units.jsonl",
        "vectors/" + "a" * 32 + "/../../rows",
        "stores/x.json",
        "runs\\locomo\\memgas\\evil.json",
    ],
)
def test_a_name_that_no_export_has_stops_the_import_before_it_begins(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / "evil.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(INDEX, '{"format": 1}')
        archive.writestr("replies.seg", segment_line(ONE, REPLY))
        archive.writestr(name, "{}")
    results = tmp_path / "deep" / "results"
    with pytest.raises(UserError, match="no export has: nothing was taken in"):
        take_in(file, stores=results / "stores", results=results)
    assert [p.name for p in tmp_path.rglob("*")] == ["evil.zip"]


def test_damaged_contents_are_left_out_and_the_rest_taken_in(here: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(send(here)) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(("units.jsonl", "rows", "manifest.json")):
                content = content[:-3] + b"###"
            if name == "replies.seg":
                content += b"not a line\n" + segment_line("../../etc", REPLY)
                content += segment_line("3" * 64, {"text": 7, "usage": {}})
            target.writestr(name, content)
    there = tmp_path / "there"
    taken = take_in(bad, stores=there / "stores", results=there)
    assert dict(+taken.new) == {"replies": 1}
    assert len(taken.damaged) == 6
    assert not (there / "runs").exists()


@pytest.mark.parametrize("content", [b"", b"PK no zip", None])
def test_a_file_that_is_no_export_is_one_sentence(tmp_path: Path, content) -> None:
    file = tmp_path / "x.zip"
    if content is None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("something.txt", "else")
    else:
        file.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.zip"):
        take_in(file, stores=tmp_path / "s", results=tmp_path)
