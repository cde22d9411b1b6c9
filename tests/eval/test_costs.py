"""Costs of a run, every number worked out by hand."""

from __future__ import annotations

import pytest
from runmade import build, call, record, write_run

from eval.costs import PERS, WHATS, Cost, Missing, run_costs
from eval.prices import Price, PriceList
from memsys.errors import UserError

PRICES = PriceList(
    {
        "big": Price(input=2.0, output=10.0, date="2024-01-01", source="a list"),
        "small": Price(input=0.1, output=0.5, date="2024-01-01", source="a list"),
    }
)


@pytest.fixture
def costs(tmp_path):
    """Two conversations, three questions of which one failed, two memories, a judge."""
    item = ("auxiliary", (100, 10), "small")
    builds = [
        build("c1", 3, 6.0, call("build", *item, reply="r1"), call("build", *item, reply="r2")),
        build("c2", 1, 2.0, call("build", *item, reply="r1", cached=True)),
    ]
    asked = call("question", "main", (1000, 20), "big")
    records = [
        record("c1", 0, calls=[asked, asked], seconds=4.0, context_tokens=600, rounds=2),
        record("c1", 1, calls=[call("question", "main", (500, 10), "big", cached=True)],
               seconds=2.0, context_tokens=400, rounds=1),
        record("c2", 0, calls=[asked], seconds=9.0, error="gave up", rounds=0),
    ]  # fmt: skip
    verdicts = [{"conversation": "c1", "index": i, "judge": "memgas", "verdicts": {"scores": {}},
                 "counts": {}, "calls": [call("judge", "judge", (300, 1), "big")], "error": None}
                for i in (0, 1)]  # fmt: skip
    folder = write_run(tmp_path / "run", records, builds=builds, judgements=verdicts)
    return run_costs(folder, PRICES)


@pytest.mark.parametrize(
    ("cost", "per", "expected"),
    [
        ("build.auxiliary.calls", "run", 3),  # two units' calls in c1, one in c2, each memory once
        ("build.auxiliary.calls", "unit", 3 / 4),
        ("build.auxiliary.calls", "conversation", 3 / 2),
        ("build.auxiliary.calls", "question", 1),  # three calls, three questions
        ("build.auxiliary.tokens", "run", 330),
        ("build.auxiliary.distinct_calls", "run", 2),  # c2's call is one of c1's
        ("build.auxiliary.distinct_tokens", "run", 220),
        ("build.main.tokens", "run", 0),
        ("question.main.calls", "run", 4),  # the stored one and the failed question's count
        ("question.main.calls", "question", 4 / 3),
        ("question.main.prompt_tokens", "run", 3500),
        ("question.main.completion_tokens", "run", 70),
        ("question.all.tokens", "question", 3570 / 3),
        ("judge.judge.calls", "run", 2),
        ("all.all.calls", "run", 9),
        ("build.all.usd", "run", (300 * 0.1 + 30 * 0.5) / 1e6),
        ("build.all.distinct_usd", "run", (200 * 0.1 + 20 * 0.5) / 1e6),
        ("question.main.usd", "run", (3500 * 2 + 70 * 10) / 1e6),
        ("all.all.usd", "run", (45 + 7700 + 600 * 2 + 2 * 10) / 1e6),
        ("build.seconds", "run", 8.0),
        ("build.seconds", "conversation", 4.0),
        ("build.units", "run", 4),
        ("build.units", "conversation", 2),
        ("question.seconds", "question", 3.0),  # of the two that were answered
        ("question.context_tokens", "question", 500),
        ("question.rounds", "question", 1.5),
        ("question.rounds", "run", 4.5),
    ],
)
def test_by_hand(costs, cost, per, expected) -> None:
    assert costs.value(cost, per) == pytest.approx(expected, abs=1e-12)


def test_equal_calls_count_once_where_every_call_names_its_reply(tmp_path) -> None:
    item = ("main", (100, 10), "small")
    builds = [
        build("c1", 2, 1.0, call("build", *item, reply="r1"), call("build", *item, reply="r2")),
        build("c2", 1, 1.0, call("build", *item, reply="r1", cached=True)),
    ]
    folder = write_run(tmp_path / "run", [record("c1", 0), record("c2", 0)], builds=builds)
    found = run_costs(folder, PRICES)
    assert found.value("build.main.calls", "run") == 3
    assert found.value("build.main.distinct_calls", "run") == 2
    assert found.value("build.main.distinct_tokens", "run") == 220
    assert found.value("build.main.distinct_usd", "run") == pytest.approx(30e-6)


def test_equal_calls_cannot_be_told_where_one_does_not_name_its_reply(costs) -> None:
    nothing = Missing("its calls do not say which stored reply they got")
    assert costs.value("question.main.distinct_calls") == nothing
    assert costs.value("all.all.distinct_calls") == nothing


def test_per_run_is_per_question_times_the_questions(costs) -> None:
    for what in WHATS:
        whole = costs.value(f"question.main.{what}", "run")
        if not isinstance(whole, Missing):
            assert whole == pytest.approx(3 * costs.value(f"question.main.{what}", "question"))


def test_a_model_without_a_price_has_no_dollars_but_tokens(tmp_path) -> None:
    folder = write_run(
        tmp_path / "run", [record("c", 0, calls=[call("question", model="mine-7b")])]
    )
    found = run_costs(folder, PRICES)
    assert found.value("question.all.usd") == Missing("no price for mine-7b")
    assert found.value("question.all.tokens") == 11


def test_what_is_not_there_says_why(tmp_path) -> None:
    found = run_costs(write_run(tmp_path / "run", [record("c", 0, error="x")]), PRICES)
    assert found.value("build.seconds") == Missing("no memory was built")
    assert found.value("judge.judge.calls") == Missing("not judged")
    assert found.value("question.seconds") == Missing("no question was answered")
    assert found.value("question.main.calls", "unit") == Missing("the run has no unit")
    empty = run_costs(write_run(tmp_path / "empty", []), PRICES)
    assert empty.value("question.main.calls") == Missing("the run has no question")


def test_response_times_come_from_the_timing_stage_where_it_ran(tmp_path, costs) -> None:
    assert "while other questions ran" in costs.remark("question.seconds")
    assert costs.remark("question.main.calls") == ""
    timing = [
        {"conversation": "c", "index": 0, "seconds": 1.0, "calls": [], "error": None},
        {"conversation": "c", "index": 1, "seconds": 2.0, "calls": [], "error": None},
        {"conversation": "c", "index": 2, "seconds": 90.0, "calls": [], "error": "gave up"},
    ]
    records = [record("c", i, seconds=50.0) for i in range(4)]
    found = run_costs(write_run(tmp_path / "timed", records, timing=timing), PRICES)
    assert found.value("question.seconds") == 1.5
    assert found.value("question.seconds", "run") == 6.0
    assert "over 2 questions" in found.remark("question.seconds")


def test_a_run_in_shards_costs_the_same(tmp_path) -> None:
    records = [record("c1", 0, calls=[call("question")]), record("c2", 0)]
    folder = write_run(tmp_path / "run", records[:1], builds=[build("c1", 2, 1.0)])
    (folder / "records.jsonl").rename(folder / "records.1-of-2.jsonl")
    other = write_run(tmp_path / "other", records[1:])
    (other / "records.jsonl").rename(folder / "records.2-of-2.jsonl")
    assert run_costs(folder, PRICES).value("question.main.calls", "question") == 0.5


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("build.main.token", "'token' is no what. Did you mean 'tokens'"),
        ("question.auxilary.calls", "'auxilary' is no role. Did you mean 'auxiliary'"),
        ("judging.judge.calls", "'judging' is no phase. Did you mean 'judge'"),
        ("question.second", "Did you mean 'question.seconds'"),
        ("calls", "neither <phase>.<role>.<what> nor one of build.seconds"),
    ],
)
def test_a_wrong_word_is_one_sentence_with_the_right_one(word, message) -> None:
    with pytest.raises(UserError, match=message):
        Cost.parse(word)


def test_a_wrong_divisor_is_an_error_too(costs) -> None:
    with pytest.raises(UserError, match="Did you mean 'question'"):
        costs.value("question.main.calls", "questions")


def test_every_cost_says_what_it_is() -> None:
    said = {Cost.parse(f"build.main.{what}").describe(per) for what in WHATS for per in PERS}
    assert len(said) == len(WHATS) * len(PERS)
    assert Cost.parse("question.all.usd").describe("run") == (
        "US dollars of all models, phase question, the whole run"
    )
