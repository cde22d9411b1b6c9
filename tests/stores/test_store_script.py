"""scripts/store.py as people use it: on the stores of a real run of the engine's fakes."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import util
from pathlib import Path

import pytest
from fakes import FakeBackend, Notebook

from eval.config import RunConfig, compose
from eval.prices import PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import run
from eval.spec import RunSpec
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = {"_target_": "fakes.Notebook", "build": {"style": "short"}, "ask": {"top_k": 2}}


@pytest.fixture
async def results(tmp_path: Path) -> Path:
    """Two finished runs and their stores, by two models."""
    FakeBackend.requests.clear()
    FakeBackend.failing.clear()
    Notebook.queries.clear()
    composed = compose(
        ["method=rag", "protocol=mgretrieval", "dataset.sample=always", "progress=off",
         f"paths.results={tmp_path}/results"]
    )  # fmt: skip
    for name in ("one", "two"):
        fake = {"_target_": "fakes.FakeBackend", "name": f"model-{name}"}
        llm = {"main": fake, "auxiliary": fake, "judge": fake}
        values = {**composed.values, "llm": llm, "method": NOTEBOOK}
        resources = Resources()
        choices = {**composed.choices, "method": f"notebook-{name}"}
        spec = RunSpec.of(RunConfig(values, choices), resources, tmp_path)
        await run(spec, PriceList({}), Board("off"))
        await resources.close()
    return tmp_path / "results"


def script(monkeypatch, capsys, *arguments: object) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["store.py", *map(str, arguments)])
    spec = util.spec_from_file_location("store_script", ROOT / "scripts" / "store.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    status = module.main()
    return status, capsys.readouterr().out


def test_inspect_and_verify_say_what_there_is(results, monkeypatch, capsys) -> None:
    status, said = script(monkeypatch, capsys, "inspect", "--results", results, "--runs")
    assert status == 0 and "2 runs" in said and "notebook-two" in said
    lines = [line.split() for line in said.splitlines()[1:5]]
    assert [(line[0], line[-1]) for line in lines] == [
        ("memories", "model-one"), ("memories", "model-two"),
        ("replies", "model-one"), ("replies", "model-two"),
    ]  # fmt: skip
    status, said = script(monkeypatch, capsys, "verify", "--results", results)
    assert status == 0 and " 0 damaged" in said


def test_verify_finds_damage_and_mends_it(results, monkeypatch, capsys) -> None:
    segment = next((results / "stores" / "replies").glob("*.seg"))
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:-4] + b"###\n"
    segment.write_bytes(b"".join(lines) + b"torn")
    status, said = script(monkeypatch, capsys, "verify", "--results", results)
    assert status == 3 and " 1 damaged" in said and " 4 bytes torn" in said
    status, said = script(monkeypatch, capsys, "verify", "--results", results, "--mend")
    assert status == 0 and " 1 damaged" not in said and " 4 bytes" not in said


async def test_a_colleague_scores_an_export_without_model_or_key(
    results, tmp_path, monkeypatch, capsys
) -> None:
    file, there = tmp_path / "out.zip", tmp_path / "there"
    status, said = script(
        monkeypatch, capsys, "export", file, "notebook-one", "--results", results, "--vectors"
    )
    assert status == 0 and "1 runs" in said and "no longer in the store" not in said
    status, said = script(monkeypatch, capsys, "import", file, "--results", there)
    assert status == 0
    (records,) = (there / "runs").rglob("records.jsonl")
    monkeypatch.setattr(sys, "argv", ["score.py", str(records), "--measures", "f1_squad"])
    spec = util.spec_from_file_location("score_script", ROOT / "scripts" / "score.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main() == 0
    assert "f1_squad" in json.loads(capsys.readouterr().out)["mean"]
    # and the very same run again asks nothing
    asked = len(FakeBackend.requests)
    composed = compose(
        ["method=rag", "protocol=mgretrieval", "dataset.sample=always", "progress=off",
         f"paths.results={there}", "resume=false"]
    )  # fmt: skip
    fake = {"_target_": "fakes.FakeBackend", "name": "model-one"}
    llm = {"main": fake, "auxiliary": fake, "judge": fake}
    values = {**composed.values, "llm": llm, "method": NOTEBOOK}
    choices = {**composed.choices, "method": "notebook-one"}
    again = RunSpec.of(RunConfig(values, choices), Resources(), tmp_path)
    finished = await run(again, PriceList({}), Board("off"))
    assert finished.paid_calls == 0 and len(FakeBackend.requests) == asked


def test_a_key_of_this_machine_stops_an_export(results, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-secret-0123456789")
    manifest = next((results / "runs").rglob("manifest.json"))
    manifest.write_text(manifest.read_text()[:-3] + ', "x": "very-secret-0123456789"}\n')
    with pytest.raises(UserError, match="SOME_API_KEY"):
        script(monkeypatch, capsys, "export", tmp_path / "out.zip", "--results", results)
    assert not (tmp_path / "out.zip").exists()


def test_prune_shows_first_and_removes_what_fits(results, monkeypatch, capsys) -> None:
    ask = ("prune", "--results", results, "--model", "model-o*")
    before = script(monkeypatch, capsys, "inspect", "--results", results)[1]
    status, said = script(monkeypatch, capsys, *ask)
    assert status == 0 and "Nothing was removed" in said
    assert "model-one" in said and "model-two" not in said
    assert script(monkeypatch, capsys, "inspect", "--results", results)[1] == before
    assert "Removed" in script(monkeypatch, capsys, *ask, "--yes")[1]
    after = script(monkeypatch, capsys, "inspect", "--results", results)[1]
    assert "model-one" not in after and "model-two" in after
    assert script(monkeypatch, capsys, "verify", "--results", results)[0] == 0
    assert "Nothing in the stores fits" in script(monkeypatch, capsys, *ask)[1]


def test_prune_by_age_and_by_what_no_run_uses(results, monkeypatch, capsys) -> None:
    unused = ("prune", "--results", results, "--unreferenced")
    assert "Nothing in the stores fits" in script(monkeypatch, capsys, *unused)[1]
    old = ("prune", "--results", results, "--older", "1")
    assert "Nothing in the stores fits" in script(monkeypatch, capsys, *old)[1]
    for path in (results / "stores" / "memories").rglob("*"):
        os.utime(path, (time.time() - 3 * 86400,) * 2)
    said = script(monkeypatch, capsys, *old)[1]
    assert "memories" in said and "replies" not in said
    (run_folder,) = (results / "runs").rglob("notebook-one/*/")
    for path in run_folder.iterdir():
        path.unlink()
    said = script(monkeypatch, capsys, *unused, "--only", "replies")[1]
    assert "model-one" in said and "model-two" not in said and "memories" not in said


def test_prune_wants_to_know_what(results, monkeypatch, capsys) -> None:
    with pytest.raises(UserError, match="Say what to prune"):
        script(monkeypatch, capsys, "prune", "--results", results)
    with pytest.raises(UserError, match="Did you mean 'notebook-one'"):
        script(monkeypatch, capsys, "export", "x.zip", "notebok-one", "--results", results)
