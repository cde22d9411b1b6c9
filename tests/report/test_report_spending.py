"""What a run took and where it failed, as the report tells it."""

from __future__ import annotations

import pytest

from eval.prices import Price, PriceList
from eval.report.reading import load_run
from eval.report.spending import error_kind, failures, latency, spending
from memsys.system import Unit

from .conftest import call, loaded, record


def test_costs_by_phase_and_role_in_order(case) -> None:
    judged = {"conversation": "mill", "index": 0, "id": "mill_qa0", "judge": "s", "verdicts": {},
              "counts": {}, "calls": [call(phase="judge", role="judge", model="other")],
              "error": None}  # fmt: skip
    build = case.memory("ab" * 32, Unit("u", ""))
    calls = [call(), call(cached=True), call(role="auxiliary", seconds=0.25)]
    case.run("rag", [record(calls=calls)], builds=[build], judgements=[judged], judge="j1")
    (run,) = loaded(case)
    prices = PriceList({"little-model": Price(input=1.0, output=10.0, date="d", source="s")})
    rows = spending(run, prices)
    assert [(r["phase"], r["role"], r["calls"], r["stored"]) for r in rows] == [
        ("build", "main", 1, 0), ("question", "main", 2, 1), ("question", "auxiliary", 1, 0),
        ("judge", "judge", 1, 0),
    ]  # fmt: skip
    assert rows[1]["prompt_tokens"] == 200
    assert rows[1]["usd"] == pytest.approx((200 * 1.0 + 20 * 10.0) / 1e6)
    assert rows[3]["usd"] is None
    assert rows[3]["no_usd"] == "no price for other"


def test_latency_leaves_failed_questions_out(case) -> None:
    records = [record(i, seconds=float(i)) for i in range(1, 21)]
    records.append(record(21, seconds=900.0, error="Timeout: x"))
    folder = case.run("rag", records, builds=[case.memory("ab" * 32, Unit("u", ""))])
    case.lines(folder / "timing.jsonl", [record(0, seconds=7.0)])
    found = latency(load_run(folder))
    assert (found["median"], found["p95"]) == (11.0, 20.0)
    assert (found["timed_median"], found["timed"]) == (7.0, 1)
    assert (found["build_seconds"], found["units"]) == (1.5, 1)
    failed = case.run("mpc", [record(error="Timeout: x")])
    assert latency(load_run(failed))["median"] is None


def test_failures_are_told_by_kind_with_events_and_valid_replies(case) -> None:
    records = [
        record(0, error="Timeout: no reply after 60 s", calls=[]),
        record(1, error="Timeout: no reply after 90 s", calls=[]),
        record(2, error="build: the endpoint gave up: 500", calls=[]),
        record(3, counts={"rag.rewrite:fallback": 2, "context_tokens": 9},
               calls=[call(schema=True, valid=True), call(schema=True, valid=False)]),
    ]  # fmt: skip
    case.run("rag", records, values=[{"f1": 0.0}] * 4)
    (run,) = loaded(case)
    found = failures(run)
    assert found["errors"] == [
        ["Timeout", 2, "Timeout: no reply after 60 s"],
        ["build: the endpoint gave up", 1, "build: the endpoint gave up: 500"],
    ]
    assert found["events"] == [("rag.rewrite:fallback", 2)]
    assert (found["valid"], found["schema_calls"]) == (1, 2)
    assert found["unavailable"] == {"bertscore": "needs roberta-large"}
    assert error_kind("no colon at all") == "no colon at all"
