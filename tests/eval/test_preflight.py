"""Preflight: all faults at once, before the first call; nothing checked that is not needed."""

from __future__ import annotations

import pytest
from fakes import FakeBackend

from eval.judging import Judging
from eval.preflight import nothing_left, preflight
from memsys.errors import UserError


class Broken(FakeBackend):
    """A model that cannot be reached."""

    checks = 0

    async def check(self) -> None:
        Broken.checks += 1
        raise UserError("the endpoint http://127.0.0.1:9/v1 cannot be reached")


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setattr("fakes.Broken", Broken, raising=False)
    Broken.checks = 0


def broken(*roles: str) -> dict:
    good, bad = {"_target_": "fakes.FakeBackend"}, {"_target_": "fakes.Broken"}
    return {role: bad if role in roles else good for role in ("main", "auxiliary", "judge")}


async def test_an_unreachable_model_is_found_before_any_call(bench) -> None:
    spec = bench.spec(llm=broken("main"))
    with pytest.raises(UserError, match="cannot be reached"):
        await preflight(spec, None)
    assert not FakeBackend.requests


async def test_a_model_that_no_stage_needs_is_not_checked(bench) -> None:
    await preflight(bench.spec(llm=broken("auxiliary", "judge")), None)
    assert Broken.checks == 0


async def test_the_judge_is_checked_when_there_is_one(bench) -> None:
    spec = bench.spec("protocol=memgas", llm=broken("judge"))
    with pytest.raises(UserError, match="cannot be reached"):
        await preflight(spec, Judging.of(spec))


async def test_a_fixed_prompt_longer_than_the_window_is_refused_by_name(bench) -> None:
    small = {"_target_": "fakes.FakeBackend", "window": 90}
    spec = bench.spec(llm={"main": small, "auxiliary": small, "judge": small})
    with pytest.raises(UserError, match="'answering/short' alone takes .* window of 90"):
        await preflight(spec, None)


async def test_all_faults_come_in_one_message(bench, tmp_path) -> None:
    spec = bench.spec("dataset.sample=never", f"dataset.path={tmp_path}", llm=broken("main"))
    (tmp_path / "results").write_text("a file where a folder should be")
    with pytest.raises(UserError) as error:
        await preflight(spec, None)
    text = str(error.value)
    assert "does not hold locomo10.json" in text
    assert "paths.results" in text


async def test_a_finished_run_loads_no_model(bench) -> None:
    spec = bench.spec()
    assert not nothing_left(spec, None)
    await bench.run()
    assert nothing_left(spec, None)
    FakeBackend.failing.clear()
    judged = bench.spec("protocol=memgas")
    await bench.run("protocol=memgas", "judge=none")
    assert nothing_left(judged, None)
    assert not nothing_left(judged, Judging.of(judged)), "the judge has still to judge"
    assert not nothing_left(bench.spec("resume=false"), None)


async def test_wandb_is_asked_for_before_it_is_needed(bench, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "wandb", None)
    await preflight(bench.spec(), None)
    with pytest.raises(UserError, match="pip install wandb"):
        await preflight(bench.spec("wandb.mode=offline"), None)
    with pytest.raises(UserError, match="Did you mean 'offline'"):
        bench.spec("wandb.mode=ofline")


async def test_a_folder_without_any_prompt_of_the_run_is_refused(bench, tmp_path) -> None:
    folder = tmp_path / "mine"
    (folder / "answring").mkdir(parents=True)
    (folder / "answring" / "short.txt").write_text("### user\n${question}\n")
    with pytest.raises(UserError, match="holds none of this run's prompts: answering/short"):
        await preflight(bench.spec(f"prompts.dir={folder}"), None)
    (folder / "answring").rename(folder / "answering")
    await preflight(bench.spec(f"prompts.dir={folder}"), None)
