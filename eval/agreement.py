"""Krippendorff's α: how far several ratings of the same things agree beyond chance.

Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): α = 1 − D_o / D_e, observed
over expected disagreement, from the coincidences of values within units. Missing ratings are
allowed; a unit with fewer than two ratings says nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Level = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """α over `units` things with at least two of `pairable` ratings; `None` where undefined.

    With a single value in all ratings there is nothing to disagree about: α is undefined.
    """

    alpha: float | None
    level: Level
    units: int
    pairable: int

    def plain(self) -> dict[str, Any]:
        """Return the agreement as JSON values."""
        return {
            "alpha": self.alpha,
            "level": self.level,
            "units": self.units,
            "ratings": self.pairable,
        }

    def words(self) -> str:
        """Return e.g. `Krippendorff's α 0.83 (nominal)`."""
        shown = (
            "undefined: all verdicts are the same" if self.alpha is None else f"{self.alpha:.2f}"
        )
        return f"Krippendorff's α {shown} ({self.level})"


def krippendorff(ratings: Sequence[Sequence[float | None]], level: Level = "nominal") -> Agreement:
    """Return α of `ratings`, one sequence of ratings a unit; `None` is a missing rating."""
    units = [known for unit in ratings if len(known := _known(unit)) > 1]
    values = sorted({value for unit in units for value in unit})
    place = {value: i for i, value in enumerate(values)}
    coincidences = np.zeros((len(values), len(values)))
    for unit in units:
        counts = np.bincount([place[v] for v in unit], minlength=len(values)).astype(float)
        # every ordered pair of ratings of the unit, each unit weighing as many as its ratings
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    totals = coincidences.sum(axis=1)
    n = float(totals.sum())
    apart = _squared_differences(np.array(values, float), totals, level)
    expected = float((np.outer(totals, totals) * apart).sum())
    alpha = None
    if expected > 0:
        alpha = 1 - (n - 1) * float((coincidences * apart).sum()) / expected
    return Agreement(alpha, level, len(units), sum(len(unit) for unit in units))


def _known(unit: Sequence[float | None]) -> list[float]:
    return [value for value in unit if value is not None]


def _squared_differences(
    values: NDArray[np.float64], totals: NDArray[np.float64], level: Level
) -> NDArray[np.float64]:
    """Return δ² of every two values under a level of measurement."""
    if level == "nominal":
        return np.asarray(values[:, None] != values[None, :], np.float64)
    # ordinal: the ranks between two values are all ratings up to them, and half of their own
    scale = values if level == "interval" else np.cumsum(totals) - totals / 2
    return np.subtract.outer(scale, scale) ** 2


def of_verdicts(
    verdicts: Sequence[Mapping[str, Any]], score: str, level: Level
) -> Agreement | None:
    """Return how a judge's repeated samples agree in one score; `None` if nothing was repeated."""
    ratings = [
        [(sample.get("scores") or {}).get(score) for sample in verdict.get("samples", ())]
        for verdict in verdicts
    ]
    if not any(len(unit) > 1 for unit in ratings):
        return None
    return krippendorff(ratings, level)
