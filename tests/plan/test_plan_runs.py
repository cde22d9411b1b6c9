"""Plans: what a dry run finds is what the run then takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FakeBackend, Notebook
from served import ROOT

from eval.config import CONFIGS, RunConfig, compose
from eval.judging import Judging
from eval.plan.against import compare, planned_for, said
from eval.plan.dryrun import Outcome, Sum
from eval.plan.estimate import Limits, Planner, Range, RunPlan, hours
from eval.plan.jobs import sweep_jobs, table_jobs
from eval.plan.models import PlanningEncoder
from eval.plan.replies import Manners
from eval.plan.show import count, short
from eval.prices import Price, PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished, run
from eval.spec import RunSpec
from eval.summary import costs
from memsys.errors import UserError

FAKE = {"_target_": "fakes.FakeBackend"}
NOTEBOOK = {"_target_": "fakes.Notebook", "build": {"style": "short"}, "ask": {"top_k": 2}}
PRICES = PriceList({"fake": Price(input=1.0, output=2.0, date="2024-01-01", source="a test")})


@pytest.fixture
def config(tmp_path: Path):
    def made(*overrides: str, method: Any = None, **changes: Any) -> RunConfig:
        composed = compose(
            ["protocol=mgretrieval", "dataset.sample=always", "progress=off",
             f"paths.results={tmp_path / 'results'}", *overrides]
        )  # fmt: skip
        values = {**composed.values, "llm": dict.fromkeys(("main", "auxiliary", "judge"), FAKE)}
        if method is not None:
            values["method"] = method
        return RunConfig({**values, **changes}, {**composed.choices, "method": "notebook"})

    FakeBackend.requests.clear()
    FakeBackend.failing.clear()
    return made


async def plan(config: RunConfig, planner: Planner | None = None, **how: int) -> RunPlan:
    how = {"conversations": 100, "questions": 1000, **how}
    planner = planner or Planner(Resources(), Manners.read(CONFIGS), **how)
    return await planner.plan("a run", (), config)


async def carried_out(config: RunConfig) -> Finished:
    spec = RunSpec.of(config, Resources(), ROOT)
    return await run(spec, PRICES, Board("off"), Judging.of(spec))


def used(done: Finished) -> dict[str, dict[str, int]]:
    found = costs(done.records, done.builds, done.judgements)
    return dict(found["by_phase_and_role"])


async def test_calls_and_prompt_tokens_are_exact_where_replies_decide_nothing(config) -> None:
    made = config("protocol=memgas", method=NOTEBOOK)
    found = await plan(made)
    assert not FakeBackend.requests
    done = used(await carried_out(made))
    assert {"/".join(place) for place in found.places()} == set(done)
    for place, actual in done.items():
        key = tuple(place.split("/"))
        assert found.of(key, "calls").plain() == [actual["calls"]] * 3
        assert found.of(key, "fresh_calls").expected <= actual["calls"]
    ins = found.of(("build", "main"), "tokens_in").plain()
    assert ins == [done["build/main"]["prompt_tokens"]] * 3


async def test_planning_leaves_nothing_behind(config, tmp_path: Path) -> None:
    await plan(config(method=NOTEBOOK))
    assert not (tmp_path / "results").exists()


async def test_what_is_stored_is_not_planned_again(config) -> None:
    made = config(method=NOTEBOOK)
    first = await plan(made)
    part = config("dataset.max_conversations=1", method=NOTEBOOK)
    await carried_out(part)
    second = await plan(made)
    assert second.total("calls") == first.total("calls")
    assert 0 < second.total("fresh_calls").expected < first.total("fresh_calls").expected
    assert second.extent.built == 1 and second.extent.to_build == 1
    await carried_out(made)
    third = await plan(made)
    assert third.total("calls").plain() == [0, 0, 0]
    assert third.extent.questions == 0 < third.extent.done
    assert third.usd(PRICES).plain(2) == [0, 0, 0]
    anew = await plan(config("resume=false", method=NOTEBOOK))
    assert anew.total("fresh_calls").plain() == [0, 0, 0] < anew.total("calls").plain()


async def test_runs_of_one_plan_share_their_calls(config) -> None:
    planner = Planner(Resources(), Manners.read(CONFIGS), conversations=100, questions=1000)
    first = await plan(config(method=NOTEBOOK), planner)
    other = {**NOTEBOOK, "ask": {"top_k": 3}}
    second = await plan(config(method=other), planner)
    assert second.of(("build", "main"), "fresh_calls").plain() == [0, 0, 0]
    assert second.of(("build", "main"), "calls") == first.of(("build", "main"), "calls")


async def test_a_part_is_scaled_up_and_always_the_same_part(config) -> None:
    made = config(method=NOTEBOOK)
    whole, part = await plan(made), await plan(made, conversations=1, questions=3)
    assert part.sampled and part.sampled_questions and not whole.sampled
    assert part.of(("question", "main"), "calls") == whole.of(("question", "main"), "calls")
    build, exact = (p.of(("build", "main"), "tokens_in") for p in (part, whole))
    assert build.low <= exact.expected <= build.high
    again = await plan(made, conversations=1, questions=3)
    assert part.plain(PRICES) == again.plain(PRICES)


async def test_rounds_that_depend_on_replies_have_a_range(config) -> None:
    from methodconfig import method_config

    mgretrieval = {k: v for k, v in method_config("mgretrieval").items() if k != "presets"}
    found = await plan(config(method=mgretrieval, metadata="llm"), questions=4)
    main = found.of(("question", "main"), "calls")
    asked = found.extent.questions
    assert main.low == 2 * asked, "one round and the rewriting"
    assert main.low <= main.expected <= main.high
    assert main.expected / asked == pytest.approx(2.23, abs=0.5)
    assert found.of(("build", "auxiliary"), "calls").low > 0


async def test_a_run_that_cannot_be_planned_says_why(config) -> None:
    found = await plan(config("dataset.path=/nowhere", "dataset.sample=never", method=NOTEBOOK))
    assert found.problem and "nowhere" in found.problem
    assert found.plain(PRICES)["problem"] == found.problem


async def test_money_and_hours_follow_from_tokens_and_rates(config) -> None:
    found = await plan(config(method=NOTEBOOK))
    ins, outs = found.total("fresh_in").expected, found.total("fresh_out").expected
    assert found.usd(PRICES).expected == pytest.approx((ins + 2 * outs) / 1e6)
    assert found.usd(PriceList({})) is None
    calls = found.total("fresh_calls").expected
    assert hours([found], Limits(requests=2)).expected == pytest.approx(calls / 2 / 60)
    slow = hours([found], Limits(requests=1000, tokens=10))
    assert slow.expected == pytest.approx((ins + outs) / 10 / 60)
    assert hours([found], Limits()) is None


async def test_a_finished_run_stands_beside_its_plan(config, tmp_path: Path) -> None:
    made = config(method=NOTEBOOK)
    found = await plan(made)
    plans = tmp_path / "results" / "plans"
    plans.mkdir(parents=True)
    (plans / "broken.json").write_text("{")
    (plans / "p.json").write_text(json.dumps({"runs": [found.plain(PRICES)]}))
    done = await carried_out(made)
    planned = planned_for(done.spec.folder, plans)
    assert planned is not None
    lines = compare(done.spec.folder, planned)
    assert lines[-1].calls == sum(place["calls"] for place in used(done).values())
    assert lines[-1].planned_calls[1] == lines[-1].calls
    assert "expected / used" in said(lines)
    assert planned_for(done.spec.folder.with_name("0" * 16), plans) is None
    with pytest.raises(UserError, match="holds no records"):
        compare(tmp_path, planned)
    Notebook.queries.clear()


def test_tables_and_sweeps_become_jobs() -> None:
    jobs = sweep_jobs(["method=rag,full", "stage=answer", "method.ask.top_k=1,2"])
    assert len(jobs) == 4
    assert jobs[0].overrides == ("method=rag", "stage=answer", "method.ask.top_k=1")
    assert jobs[0].title == "method=rag method.ask.top_k=1"
    assert len(sweep_jobs(["method=rag"])) == 1
    table = table_jobs("sweep-depth", "embedded", ["dataset.limit=1"])
    assert len(table) == 5 and all(job.overrides[-1] == "dataset.limit=1" for job in table)
    with pytest.raises(UserError, match="no table"):
        table_jobs("sweep-dept", "embedded", [])


def test_numbers_are_short() -> None:
    assert [short(v) for v in (812, 12_345, 1_234_567, 46_755_206)] == [
        "812", "12,345", "1.23M", "46.8M",
    ]  # fmt: skip
    assert count(Range(5, 5, 5)) == "5"
    assert count(Range(1, 2, 3)) == "2 (1–3)"


@pytest.mark.slow
def test_the_command_plans_without_network_key_or_model(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "plan.py"), "method=full,rag", "dataset=locomo",
         "dataset.sample=always", "protocol=mgretrieval", "--rate-requests", "60",
         "llm@llm.main=openai", f"paths.results={tmp_path}", "--name", "mine"],
        capture_output=True, text=True, timeout=300, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Total of 2 runs" in done.stdout and "Hours: at least" in done.stdout
    written = json.loads((tmp_path / "plans" / "mine.json").read_text())
    assert [run["questions"]["to_ask"] > 0 for run in written["runs"]] == [True, True]
    assert not (tmp_path / "stores").exists()


class Points:
    """An embedding model whose vectors form as many clusters as there are first letters."""

    name, limit, dimension, similarity = "points", 64, 8, "cosine"
    identity: dict[str, Any] = {"name": "points"}  # noqa: RUF012
    here = True

    def token_counts(self, texts: list[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed(self, texts: list[str], kind: str) -> Any:
        if not self.here:
            raise UserError("its weights are not here")
        return np.stack([np.eye(8, dtype=np.float32)[ord(text[0]) % 8] * 3 for text in texts])


async def test_vectors_that_are_clustered_are_the_encoders_own_where_it_can_be_had() -> None:
    notes: set[str] = set()
    stand_in = PlanningEncoder(Points(), None, notes)  # type: ignore[arg-type]
    own = PlanningEncoder(Points(), None, notes, own=True)  # type: ignore[arg-type]
    texts = ["apples fell", "anna ran", "boats sank", "apples fell"]
    assert not np.allclose(*(await stand_in.encode(texts))[[0, 1]])
    vectors = await own.encode(texts)
    assert np.array_equal(vectors, np.eye(8)[[ord(t[0]) % 8 for t in texts]])
    assert own.own and not notes and own.texts == stand_in.texts == 3

    away = Points()
    away.here = False
    instead = PlanningEncoder(away, None, notes, own=True)  # type: ignore[arg-type]
    assert np.array_equal(await instead.encode(texts), await stand_in.encode(texts))
    assert not instead.own and "its vectors are estimated" in notes.pop()


def test_a_build_whose_calls_follow_from_clusters_has_a_wider_range() -> None:
    def plan_of(further: tuple[float, float]) -> RunPlan:
        places = {("build", "main"): Sum(calls=100.0), ("question", "main"): Sum(calls=50.0)}
        return RunPlan("t", (), None, [Outcome(places)] * 3, build_wider=further)

    assert plan_of((0.0, 0.0)).total("calls").plain() == [150, 150, 150]
    assert plan_of((0.1, 0.6)).total("calls").plain() == [140, 150, 210]
    assert plan_of((0.1, 0.6)).of(("question", "main"), "calls").plain() == [50, 50, 50]


def test_prompts_of_questions_have_room_where_vectors_choose_what_is_recalled() -> None:
    places = {p: Sum(calls=9.0, tokens_in=100.0, tokens_out=10.0)
              for p in (("build", "main"), ("question", "main"))}  # fmt: skip
    made = RunPlan("t", (), None, [Outcome(places)] * 3, recall_wider=(0.1, 0.1))
    assert made.of(("question", "main"), "tokens_in").plain() == [90, 100, 110]
    assert made.of(("question", "main"), "tokens_out").plain() == [10, 10, 10]
    assert made.total("calls").plain() == [18, 18, 18]
    assert made.of(("build", "main"), "tokens_in").plain() == [100, 100, 100]
