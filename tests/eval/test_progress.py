"""What a person sees of runs that go on: rate, calls, cost, failures, and nothing when off."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from eval import progress
from eval.prices import Price, PriceList
from eval.progress import Board, RunProgress
from memsys.llm.ledger import Account

PRICES = PriceList({"m": Price(input=1.0, output=2.0, date="2026-01-01", source="test")})


def call(model="m", cached=False):
    return {
        "model": model,
        "cached": cached,
        "prompt_tokens": 500_000,
        "completion_tokens": 250_000,
    }


@pytest.fixture
def board(monkeypatch):
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 0.0)
    return Board("plain", Console(file=io.StringIO(), width=200))


def test_one_run_tells_done_calls_money_and_failures(board) -> None:
    run = RunProgress("locomo × rag", PRICES, board)
    run.expect(4, reused=1)
    run.calls([call(), call(cached=True)])
    run.answered(failed=False)
    run.answered(failed=True)
    last = board.console.file.getvalue().splitlines()[-1]
    assert last.startswith("locomo × rag: 3/4 · ")
    assert "1 calls (+1 stored) · $1.00 · 1 failed" in last
    assert " s left" in last


def test_a_model_without_a_price_makes_the_cost_unknown(board) -> None:
    run = RunProgress("x", PRICES, board)
    run.calls([call("m-2026-01-01"), call("other")])
    assert "cost unknown" in run.detail


def test_several_runs_share_one_line(board) -> None:
    one, two = RunProgress("a", PRICES, board), RunProgress("b", PRICES, board)
    one.expect(3)
    two.expect(5)
    account = Account("build")
    account.calls += [object(), object()]
    two.watch(account, open_=True)
    last = board.console.file.getvalue().splitlines()[-1]
    assert last == "2 runs: 0/8 questions · 2 chat calls"
    two.watch(account, open_=False)
    two.close()
    one.answered(failed=False)
    assert board.console.file.getvalue().splitlines()[-1].startswith("a: 1/3")


def test_off_is_silent(monkeypatch) -> None:
    monkeypatch.setattr(progress, "_PLAIN_EVERY", 0.0)
    board = Board("off", Console(file=io.StringIO()))
    RunProgress("x", PRICES, board).expect(3)
    assert board.console.file.getvalue() == ""
