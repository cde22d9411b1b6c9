"""Prices by model, as replies name it."""

from __future__ import annotations

import pytest

from eval.prices import Price, PriceList

PRICES = PriceList(
    {
        "gpt-4o": Price(input=2.5, output=10, date="2024-10-02", source="list"),
        "gpt-4o-mini": Price(input=0.15, output=0.6, date="2024-07-18", source="list"),
    }
)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-4o", 2.5),
        ("gpt-4o fp_1a2b", 2.5),  # the server's fingerprint stands behind the model
        ("gpt-4o-2024-08-06 fp_1a2b", 2.5),
        ("gpt-4o-mini-2024-07-18", 0.15),
        ("gpt-4o-mini fp_1a2b", 0.15),
        ("gpt-4o@main", 2.5),
        ("gpt-4", None),
        ("my gpt-4o", None),
    ],
)
def test_a_model_has_its_price_or_its_familys(model: str, price: float | None) -> None:
    found = PRICES.of(model)
    assert (None if found is None else found.input) == price


def test_dollars_of_tokens_and_of_calls() -> None:
    assert PRICES.usd("gpt-4o fp_x", 1e6, 2e6) == pytest.approx(22.5)
    assert PRICES.usd("gpt-4", 1, 1) is None
    call = {"model": "gpt-4o fp_x", "prompt_tokens": 2000, "completion_tokens": 100}
    assert PRICES.cost([call, call]) == pytest.approx(2 * (2000 * 2.5 + 100 * 10) / 1e6)
    assert PRICES.cost([call, {**call, "model": "gpt-4"}]) is None
