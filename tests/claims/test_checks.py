"""Every kind of check on invented runs: holds, does not hold, and cannot be judged."""

from __future__ import annotations

from typing import Any

import pytest

from eval.claims.checks import judge
from eval.claims.comparing import Desk
from eval.claims.evidence import Shelf
from eval.claims.ledger import wanted
from eval.claims.outcome import FAILS, HOLDS, UNKNOWN, Outcome
from eval.claims.spec import Claim, Ledger
from eval.prices import Price, PriceList

PRICES = PriceList(
    {
        "gpt-4o": Price(input=2.5, output=10.0, date="2024", source="list"),
        "gpt-4o-mini": Price(input=0.15, output=0.6, date="2024", source="list"),
    }
)
MAIN = {"table": "mgretrieval-1", "main": "Qwen2.5-14B-Instruct"}
ABLATION = {"table": "ablation-mgretrieval"}
FULL_ROUNDS = "Round 4 (full) = MGRetrieval"


async def outcomes(shelf: Shelf, **part: Any) -> list[Outcome]:
    claim = {"id": "X", "claim": "", "published": "", "scope": "", "source": "", "parts": [part]}
    ledger = Ledger(paper="p", title="", claims=(Claim.model_validate(claim),))
    await shelf.fetch(wanted(ledger))
    return judge(ledger.claims[0].parts[0], Desk(shelf, PRICES))


async def test_a_gain_holds_fails_or_is_open(world) -> None:
    world.add("mgretrieval", quality=0.7)
    world.add("full", quality=0.4)
    world.add("memoryos", quality=0.95)
    world.add("memr3", quality=0.7)
    shelf = world.shelf()

    async def over(row: str) -> Outcome:
        part = {"check": "gain", "measure": "f1_set", "row": "MGRetrieval", "over": [row]}
        (found,) = await outcomes(shelf, **MAIN, **part, published=20.0)
        return found

    better = await over("FULL")
    assert better.verdict == HOLDS and better.value == "published value outside ours"
    assert better.ours.startswith("+") and "n = 120" in better.ours
    assert (await over("MemoryOS")).verdict == FAILS
    same = await over("MemR3")
    assert same.verdict == UNKNOWN and "includes zero" in same.why


async def test_the_second_best_is_the_best_of_the_others(world) -> None:
    world.add("mgretrieval", quality=0.9)
    world.add("full", quality=0.3)
    world.add("rag", quality=0.6)
    over = {"over": ["FULL", "RAG"], "published": 10.0}
    part = {"check": "gain", "measure": "f1_set", "row": "MGRetrieval"}
    (found,) = await outcomes(world.shelf(), **MAIN, **part, **over)
    assert found.what == "f1_set: MGRetrieval over RAG"
    assert found.verdict == HOLDS


async def test_a_mean_over_two_models_needs_both(world) -> None:
    qwen3 = "llm@llm.main=qwen3-14b"
    world.add("mgretrieval", quality=0.9)
    world.add("rag", quality=0.5)
    part = {
        "check": "gain", "measure": "f1_set", "row": "MGRetrieval", "over": ["RAG"],
        "mean_over": ["Qwen2.5-14B-Instruct", "Qwen3-14B"], "published": 10.0,
    }  # fmt: skip
    table = {"table": "mgretrieval-1"}
    (one,) = await outcomes(world.shelf(), **table, **part)
    assert one.verdict == UNKNOWN and one.ours and "no run of MGRetrieval" in one.why
    world.add("mgretrieval", qwen3, quality=0.7, main="Qwen3-14B")
    world.add("rag", qwen3, quality=0.5, main="Qwen3-14B")
    (both,) = await outcomes(world.shelf(), **table, **part)
    assert both.verdict == HOLDS
    (embedded,) = await outcomes(world.shelf("embedded"), **table, **part)
    assert "no block with Qwen3-14B" in embedded.why and embedded.verdict == UNKNOWN


async def test_a_cheaper_pipeline_counts_building_too(world) -> None:
    world.add("mgretrieval", tokens=1500)
    world.add("memoryos", tokens=1000, build_main=12_000)
    costs = {"table": "mgretrieval-3", "main": "Qwen2.5-14B-Instruct", "row": "MGRetrieval"}
    part = {"check": "gain", "over": ["MemoryOS"], "published": -25.0, **costs}
    (whole,) = await outcomes(world.shelf(), **part, cost="all.main.tokens")
    assert whole.verdict == HOLDS and whole.ours.startswith("-25.00 %")  # 1500/(1000 + 12000/12)
    (asking,) = await outcomes(world.shelf(), **part, cost="question.main.tokens")
    assert asking.verdict == FAILS


async def test_money_needs_prices_and_times_need_timing(world) -> None:
    qwen = {"table": "mgretrieval-3", "main": "Qwen2.5-14B-Instruct"}
    world.add("mgretrieval", seconds=5.0)
    world.add("memr3", seconds=9.0)
    world.add("memoryos")
    part = {"check": "gain", "row": "MGRetrieval", "published": -45.0, **qwen}
    (time,) = await outcomes(world.shelf(), **part, cost="question.seconds", over=["MemR3"])
    assert time.verdict == HOLDS
    (untimed,) = await outcomes(world.shelf(), **part, cost="question.seconds", over=["MemoryOS"])
    assert untimed.verdict == UNKNOWN and "timed alone" in untimed.why
    shelf = world.shelf()
    claim = {"id": "X", "claim": "", "published": "", "scope": "", "source": "",
             "parts": [{**part, "cost": "all.all.usd", "over": ["MemR3"]}]}  # fmt: skip
    ledger = Ledger(paper="p", title="", claims=(Claim.model_validate(claim),))
    await shelf.fetch(wanted(ledger))
    (unpriced,) = judge(ledger.claims[0].parts[0], Desk(shelf, PriceList({})))
    assert unpriced.verdict == UNKNOWN and "no price for" in unpriced.why


async def test_values_by_tolerance_interval_or_exactly(world) -> None:
    world.add("mgretrieval", tokens=5500, retries=3)
    costs = {"check": "value", "table": "mgretrieval-3", "main": "Qwen2.5-14B-Instruct",
             "row": "MGRetrieval"}  # fmt: skip
    shelf = world.shelf()
    (near,) = await outcomes(shelf, **costs, cost="question.main.tokens", published=5799)
    assert near.verdict == HOLDS and "-5.2%" in near.why
    (far,) = await outcomes(shelf, **costs, cost="question.main.tokens", published=7000)
    assert far.verdict == FAILS
    exact = {**costs, "cost": "build.auxiliary.calls", "per": "unit", "tolerance": 0}
    (raw,) = await outcomes(shelf, **exact, published=2)
    assert raw.verdict == FAILS  # 2.05: three calls were retries
    (net,) = await outcomes(shelf, **exact, published=2, retries=["mgretrieval.extract:retried"])
    assert net.verdict == HOLDS and "of which 3 retries" in net.ours


async def test_a_mechanical_check_is_judged_in_any_setting(world) -> None:
    world.add("mgretrieval", main="SmolLM2-135M", cut="3 questions")
    part = {"check": "value", "table": "mgretrieval-3", "main": "Qwen2.5-14B-Instruct",
            "row": "MGRetrieval", "cost": "question.auxiliary.calls", "published": 1,
            "tolerance": 0}  # fmt: skip
    (barred,) = await outcomes(world.shelf(), **part)
    assert barred.verdict == UNKNOWN and barred.ours == "1.00 (1.00 to 1.00; n = 120)"
    assert "data: cut to 3 questions" in barred.why
    assert "main: SmolLM2-135M (paper: Qwen2.5-14B-Instruct)" in barred.why
    assert barred.here == HOLDS
    (judged,) = await outcomes(world.shelf(), **part, mechanical=True)
    assert judged.verdict == HOLDS


async def test_an_order_is_as_many_steps(world) -> None:
    for method, quality in (("mgretrieval", 0.9), ("memoryos", 0.6), ("full", 0.3), ("memr3", 0.5)):
        world.add(method, quality=quality)
    order = {"check": "order", "measure": "f1_set"}
    rows = ["MGRetrieval", "MemoryOS", "FULL", "MemR3"]
    found = await outcomes(world.shelf(), **MAIN, **order, order=rows)
    assert [o.verdict for o in found] == [HOLDS, HOLDS, FAILS]


async def test_above_asks_every_pair_or_some(world) -> None:
    for method, quality in (("rag", 0.5), ("memr3", 0.6), ("memorybank", 0.2), ("amem", 0.9)):
        world.add(method, quality=quality)
    part = {"check": "above", "upper": ["RAG", "MemR3"], "lower": ["MemoryBank", "A-Mem"],
            "measures": ["f1_set"]}  # fmt: skip
    every = await outcomes(world.shelf(), **MAIN, **part)
    assert [o.verdict for o in every] == [HOLDS, FAILS, HOLDS, FAILS]
    (some,) = await outcomes(world.shelf(), **MAIN, **part, some=True)
    assert some.verdict == HOLDS and some.ours.startswith("2 of 4")
    reverse = {**part, "upper": ["MemoryBank"], "lower": ["A-Mem"]}
    (none,) = await outcomes(world.shelf(), **MAIN, **reverse, some=True)
    assert none.verdict == FAILS and none.why == "in no case"


def rounds(world, *qualities: float) -> None:
    for r, quality in enumerate(qualities, 1):
        own = () if r == 4 else (f"method.ask.max_rounds={r}",)
        world.add("mgretrieval", *own, quality=quality, tokens=1000 * r)


TREND = {
    "check": "trend", "measure": "f1_set", "direction": "up", "flattens": True,
    "along": ["Round 1 (full)", "Round 2 (full)", "Round 3 (full)", FULL_ROUNDS],
}  # fmt: skip


async def test_a_trend_rises_ever_less(world) -> None:
    rounds(world, 0.2, 0.6, 0.8, 0.85)
    found = await outcomes(world.shelf(), **ABLATION, **TREND)
    assert [o.verdict for o in found] == [HOLDS, HOLDS]


async def test_a_trend_with_a_step_back_does_not_hold(world) -> None:
    rounds(world, 0.2, 0.9, 0.4, 0.85)
    found = await outcomes(world.shelf(), **ABLATION, **{**TREND, "flattens": False})
    assert [o.verdict for o in found] == [HOLDS, FAILS]


async def test_a_steepening_trend_does_not_flatten(world) -> None:
    rounds(world, 0.2, 0.25, 0.3, 0.9)
    found = await outcomes(world.shelf(), **ABLATION, **TREND)
    assert [o.verdict for o in found] == [HOLDS, FAILS]


async def test_flat_means_the_whole_interval_within_the_margin(world) -> None:
    rounds(world, 0.2, 0.4, 0.6, 0.8)
    world.add("mgretrieval", "method.ask.rmr=false", quality=0.8, tokens=9000)
    flat = {"check": "flat", "measure": "f1_set", "near": FULL_ROUNDS, "margin": 1.0}
    (same,) = await outcomes(world.shelf(), **ABLATION, **flat, others=["w/o RMR"])
    assert same.verdict == HOLDS
    (far,) = await outcomes(world.shelf(), **ABLATION, **flat, others=["Round 1 (full)"])
    assert far.verdict == FAILS
    cost = {"check": "order", "cost": "question.main.tokens", "order": ["w/o RMR", FULL_ROUNDS]}
    (more,) = await outcomes(world.shelf(), **ABLATION, **cost)
    assert more.verdict == HOLDS


@pytest.mark.parametrize(("without", "expected"), [(0.85, HOLDS), (0.45, FAILS)])
async def test_most_of_a_gain_is_kept_or_not(world, without, expected) -> None:
    rounds(world, 0.2, 0.4, 0.6, 0.9)
    world.add("mgretrieval", "method.ask.rewrite=false", quality=without)
    world.add("full", quality=0.4)
    world.add("rag", quality=0.2)
    over = [{"table": "mgretrieval-1", "row": row} for row in ("FULL", "RAG")]
    part = {"check": "retains", "measure": "f1_set", "row": "w/o R", "full": FULL_ROUNDS}
    (found,) = await outcomes(world.shelf(), **ABLATION, **part, over=over, share=0.5)
    assert found.verdict == expected and "over FULL" in found.what


async def test_current_rounds_are_other_questions_than_full_ones(world) -> None:
    rounds(world, 0.3, 0.4, 0.5)
    world.add("mgretrieval", quality=1.0, rounds=4)
    part = {"check": "above", "measures": ["f1_set"], "paired": False,
            "upper": ["Round 2 (current)"], "lower": ["Round 1 (full)"]}  # fmt: skip
    (found,) = await outcomes(world.shelf(), **ABLATION, **part)
    assert found.verdict == HOLDS and "n = 150" in found.ours  # 30 of 120, and 120


async def test_contexts_are_shorter_and_relatively_wider(world) -> None:
    def wide(c: int, i: int) -> int:
        return 100 + 60 * i + c

    world.add("mgretrieval", context=wide)
    world.add("full", context=lambda c, i: 20_000 + 10 * c + i)
    world.add("rag", context=lambda c, i: 100 + 90 * i)
    part = {"check": "lengths", "row": "MGRetrieval"}
    found = await outcomes(world.shelf(), **MAIN, **part, others=["FULL"])
    assert [o.verdict for o in found] == [HOLDS, HOLDS]
    found = await outcomes(world.shelf(), **MAIN, **part, others=["RAG"])
    assert found[1].verdict == FAILS


CASE = {
    "check": "case", "row": "MGRetrieval", "conversation": "conv-47", "evidence": "D1:2",
    "rounds": 3, "new": [3, 6], "critical_first": 2, "answer": "26 April 2022",
}  # fmt: skip


async def test_the_case_is_held_against_its_trace(world) -> None:
    world.add("mgretrieval", quality=1.0, rounds=3)  # question 2 takes 3 rounds
    found = await outcomes(world.shelf(), **MAIN, **CASE)
    assert [o.verdict for o in found] == [HOLDS] * 4
    assert found[0].what.startswith("question 2 of conv-47")
    other = await outcomes(world.shelf(), **MAIN, **{**CASE, "new": [3, 5], "answer": "May"})
    assert [o.verdict for o in other] == [HOLDS, FAILS, HOLDS, FAILS]
    assert other[1].ours == "3, 6"


async def test_a_case_that_was_not_asked_or_failed_is_open(world) -> None:
    failed = {(7, 3): {"error": "no reply", "answer": None}}
    world.add("mgretrieval", rounds=3, changes=failed)
    (missing,) = await outcomes(world.shelf(), **MAIN, **{**CASE, "conversation": "conv-99"})
    assert missing.verdict == UNKNOWN and "was not asked" in missing.why
    (lost,) = await outcomes(world.shelf(), **MAIN, **{**CASE, "evidence": "D1:3"})
    assert lost.verdict == UNKNOWN and "failed: no reply" in lost.why
    world.add("mgretrieval", cut="some")
    (cut,) = await outcomes(world.shelf(), **MAIN, **{**CASE, "conversation": "conv-99"})
    assert cut.why == "that question was not asked in this run; data: cut to some"


@pytest.mark.parametrize("fault", ["repeats", "climbs", "starts low", "stops early"])
async def test_a_walk_that_is_none_is_found(world, trace, fault) -> None:
    bad = trace(2)
    if fault == "repeats":
        bad["rounds"][1]["new"] = bad["rounds"][0]["new"]
    elif fault == "climbs":
        bad["path"][1]["level"], bad["path"][3]["level"] = 1, 2
    elif fault == "starts low":
        bad["query_keywords"] = ["w", "x", "y", "z"]
    else:
        bad["rounds"][-1]["sufficient"] = False
    world.add("mgretrieval", rounds=2, changes={(1, 5): {"trace": bad}})
    (found,) = await outcomes(world.shelf(), **MAIN, check="walk", row="MGRetrieval")
    assert found.verdict == FAILS
    assert (found.ours, found.why) == ("119 of 120 questions", "not conv-41 5")


async def test_a_sound_walk_holds_whatever_the_model(world) -> None:
    world.add("mgretrieval", rounds=2, main="tiny", cut="some")
    part = {"check": "walk", "row": "MGRetrieval", "mechanical": True}
    (found,) = await outcomes(world.shelf(), **MAIN, **part)
    assert found.verdict == HOLDS and found.ours == "120 of 120 questions"


async def test_rows_that_are_not_there_are_open_with_the_reason(world) -> None:
    part = {"check": "gain", "measure": "f1_set", "over": ["FULL"], "published": 1.0}
    (unmade,) = await outcomes(world.shelf(), **MAIN, **part, row="MGRetrieval")
    assert "no run of MGRetrieval: not run yet in this setting" in unmade.why
    (typo,) = await outcomes(world.shelf(), **MAIN, **part, row="MGRetrival")
    assert "has no row 'MGRetrival'" in typo.why and "MGRetrieval" in typo.why
    (table,) = await outcomes(world.shelf(), table="nothing", **part, row="FULL")
    assert "There is no table 'nothing'" in table.why
    assert {o.verdict for o in (unmade, typo, table)} == {UNKNOWN}


async def test_failed_questions_are_left_out_of_both(world) -> None:
    lost = {(0, 0): {"error": "no reply", "answer": None}}
    world.add("mgretrieval", quality=0.9, changes=lost)
    world.add("full", quality=0.4)
    part = {"check": "gain", "measure": "f1_set", "row": "MGRetrieval", "over": ["FULL"]}
    (found,) = await outcomes(world.shelf(), **MAIN, **part, published=1.0)
    assert "n = 119" in found.ours


async def test_comparable_and_near_the_ceiling(world) -> None:
    world.add("mgretrieval", quality=0.97)
    world.add("rag", quality=0.99)
    world.add("full", quality=0.3)
    rows = {"row": "MGRetrieval", "measures": ["f1_set"]}
    part = {**MAIN, "check": "comparable", "others": ["RAG", "FULL"], **rows}
    (near,) = await outcomes(world.shelf(), **part, margin=20)
    assert near.verdict == HOLDS and "RAG (best)" in near.what
    ceiling = {**MAIN, "check": "ceiling", "most": 1, **rows}
    (high,) = await outcomes(world.shelf(), **ceiling, level=90)
    assert high.verdict == HOLDS
    (low,) = await outcomes(world.shelf(), **ceiling, level=99.9)
    assert low.verdict == FAILS


async def test_each_run_is_looked_up_once(world) -> None:
    world.add("mgretrieval", quality=0.9)
    world.add("full", quality=0.4)
    shelf = world.shelf("embedded")
    part = {"check": "gain", "measure": "f1_set", "row": "MGRetrieval", "over": ["FULL"]}
    for main in ("Qwen2.5-14B-Instruct", "Qwen3-14B"):
        await outcomes(shelf, table="mgretrieval-1", main=main, **part, published=1.0)
    assert len(world.asked) == 2


@pytest.mark.parametrize(
    ("qualities", "expected"),
    [
        ({1: 0.3, 15: 0.8, 20: 0.8, 50: 0.4}, {HOLDS}),
        ({1: 0.3, 15: 0.8, 20: 0.95, 50: 0.4}, {HOLDS, FAILS}),
        ({1: 0.9, 15: 0.8, 20: 0.8, 50: 0.4}, {HOLDS, FAILS}),
        ({1: 0.8, 15: 0.8, 20: 0.8, 50: 0.4}, {HOLDS, UNKNOWN}),
    ],
)
async def test_a_peak_is_above_its_ends_and_below_no_neighbour(world, qualities, expected) -> None:
    for alpha, quality in qualities.items():
        world.add("memgas", f"method.ask.alpha={alpha}", quality=quality)
    part = {"check": "peak", "table": "sweep-alpha", "row": "α = 15 (paper)",
            "ends": ["α = 1", "α = 50"], "near": ["α = 20"], "measures": ["f1_set"],
            "mechanical": True}  # fmt: skip
    shelf = world.shelf()
    claim = {"id": "X", "claim": "", "published": "", "scope": "", "source": "", "parts": [part]}
    ledger = Ledger(paper="p", title="", claims=(Claim.model_validate(claim),))
    await shelf.fetch(wanted(ledger))
    found = judge(ledger.claims[0].parts[0], Desk(shelf, PRICES))
    assert {o.verdict for o in found} == expected
