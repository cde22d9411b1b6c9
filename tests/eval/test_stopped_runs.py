"""A part of a run is never taken for a whole one, and whoever stops it is told how to go on."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from fakes import FakeBackend
from served import end, run_command, serve, start

from eval.command import carry_out
from eval.compare.paired import obstacles
from eval.progress import Board
from eval.records import read_records
from eval.runfolder import RunFolder
from eval.stopping import Stopped, command
from eval.tables.reproduce import Runs
from memsys.errors import UserError


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


async def look_up(spec) -> Path:
    return await Runs(spec.resources, Board("off"), parallel=1, ask=False)._folder_of(spec)


async def test_a_stopped_run_fills_no_table_until_it_is_finished(bench) -> None:
    spec = bench.spec()
    with pytest.raises(UserError, match="not run yet"):
        await look_up(spec)
    with pytest.raises(Stopped):
        await carry_out(bench.spec("budget.calls=20"), Board("off"))
    answered = len(read_records(spec.folder / "records.jsonl"))
    assert answered > 0
    with pytest.raises(UserError, match=f"not finished: {answered} questions are answered"):
        await look_up(spec)
    assert any("not finished" in o for o in obstacles(*[RunFolder(spec.folder)] * 2, []))
    await carry_out(bench.spec(), Board("off"))
    assert await look_up(spec) == spec.folder
    assert not RunFolder(spec.folder).unfinished
    (spec.folder / "scores.json").unlink()  # killed between the last question and the scores
    with pytest.raises(UserError, match="not scored yet"):
        await look_up(spec)


async def test_scores_of_a_run_that_is_begun_anew_go_with_its_records(bench) -> None:
    whole = await carry_out(bench.spec(), Board("off"))
    folder = whole.spec.folder
    assert (folder / "scores.json").is_file()
    store = bench.folder / "stores"
    store.rename(store.with_name("away"))
    with pytest.raises(Stopped):
        await carry_out(bench.spec("resume=false", "budget.calls=20"), Board("off"))
    assert 0 < len(read_records(folder / "records.jsonl")) < len(whole.records)
    assert not (folder / "scores.json").exists()
    assert manifest(folder)["finished"] is None


async def test_asking_failed_questions_again_keeps_a_finished_run_whole(bench) -> None:
    FakeBackend.failing.add("Rosa")
    try:
        first = await carry_out(bench.spec(), Board("off"))
    finally:
        FakeBackend.failing.clear()
    file, known = first.spec.folder / "manifest.json", manifest(first.spec.folder)
    assert first.failed and known["finished"]
    file.write_text(json.dumps(known | {"encoder_stats": {"texts": 5}}))
    with pytest.raises(Stopped):
        await carry_out(bench.spec("budget.calls=0"), Board("off"))
    again = manifest(first.spec.folder)
    assert (again["finished"], again["encoder_stats"]) == (known["finished"], {"texts": 5})
    assert (first.spec.folder / "scores.json").is_file()


async def test_a_part_of_a_run_has_scores_of_its_own(bench) -> None:
    spec = (await carry_out(bench.spec("shard=1/2"), Board("off"))).spec
    assert (spec.folder / "scores.1-of-2.json").is_file()
    assert not (spec.folder / "scores.json").exists()
    with pytest.raises(UserError, match="not finished"):
        await look_up(bench.spec())
    await carry_out(bench.spec("shard=2/2"), Board("off"))
    await carry_out(bench.spec(), Board("off"))
    assert await look_up(bench.spec()) == spec.folder


def test_a_refusal_in_the_middle_says_what_is_done_and_how_to_go_on(tmp_path: Path) -> None:
    with serve(latency=0.05) as server:
        script = server.script

        def out_of_credit(body):
            server.refuse = "402" if server.stats.answered >= 3 else ""
            return script(body)

        server.script = out_of_credit
        code, _, err = end(start(run_command(server, tmp_path, "concurrency.questions=1")))
        assert code == 2, err
        assert err.count("error:") == 1 and "no credit left" in err
        done = len([r for p in tmp_path.rglob("records.jsonl") for r in read_records(p)])
        assert f"{done} of " in err and f"{done} by this command for {done} calls" in err
        assert "Then the same command goes on:" in err and "concurrency.questions=1" in err


def test_the_command_to_go_on_with_is_the_one_given(monkeypatch) -> None:
    words = ["/usr/bin/python3", "scripts/run.py", "method=rag", "llm.main.base_url=http://me:pw@h/v1",
             "measures=[f1_squad]", "budget.calls=9"]  # fmt: skip
    monkeypatch.setattr(sys, "orig_argv", words)
    again = shlex.split(command("budget.calls=18"))
    assert again == ["python3", "scripts/run.py", "method=rag", "llm.main.base_url=http://…@h/v1",
                     "measures=[f1_squad]", "budget.calls=18"]  # fmt: skip
