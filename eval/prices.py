"""What tokens cost: `configs/prices.yaml`, overlaid by a user's own `prices.local.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from memsys.settings import Settings


class Price(Settings):
    """US dollars per million tokens of one model, on `date`, according to `source`."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    date: str
    source: str


@dataclass(frozen=True)
class PriceList:
    """Prices by model id; a dated snapshot without a price of its own takes its family's."""

    prices: Mapping[str, Price]

    @classmethod
    def read(cls, folder: Path) -> PriceList:
        """Read the price lists of a config folder."""
        found: dict[str, Price] = {}
        for name in ("prices.yaml", "prices.local.yaml"):
            path = folder / name
            if path.is_file():
                raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
                found |= {model: Price(**price) for model, price in raw.items()}
        return cls(found)

    def of(self, model: str) -> Price | None:
        """Return the price of a model as servers name it, or `None` if it is not listed.

        A reply's model may carry the server's fingerprint behind a space, a revision behind `@`.
        """
        model = model.partition(" ")[0].partition("@")[0]
        fits = [m for m in self.prices if model == m or model.startswith(f"{m}-")]
        return self.prices[max(fits, key=len)] if fits else None

    def cost(self, calls: Iterable[Mapping[str, Any]]) -> float | None:
        """Return the dollars of some ledger calls, or `None` if a model has no price."""
        total = 0.0
        for call in calls:
            usd = self.usd(call["model"], call["prompt_tokens"], call["completion_tokens"])
            if usd is None:
                return None
            total += usd
        return total

    def usd(self, model: str, prompt: float, completion: float) -> float | None:
        """Return the dollars of so many tokens of one model, or `None` if it has no price."""
        price = self.of(model)
        if price is None:
            return None
        return (prompt * price.input + completion * price.output) / 1e6
