"""Which rows of a block differ from its reference row by more than chance.

The difference is taken question by question, and its test flips the signs of whole conversations
(`eval.statistics.sign_flip_test`), since questions about one conversation are not independent.
Holm's procedure keeps the chance of any false mark in a block at 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eval.records import Key
from eval.statistics import holm, minimum_detectable_difference, paired_comparison

LEVEL = 0.05
DRAWS = 10_000
UP, DOWN = "▲", "▼"


@dataclass(frozen=True, slots=True)
class Compared:
    """One row against the reference: the row less the reference, on the ×100 scale.

    `adjusted` is Holm's p over the block; `detectable` is the true difference that a paired t-test
    would find with 80 % power at Holm's strictest step.
    """

    difference: float
    low: float | None
    high: float | None
    p: float
    adjusted: float
    n: int
    clusters: int
    detectable: float | None

    @property
    def mark(self) -> str:
        """▲ or ▼ where the difference holds at 5 %, else nothing."""
        if self.clusters < 2 or self.adjusted > LEVEL:
            return ""
        return UP if self.difference > 0 else DOWN


@dataclass(frozen=True)
class Marks:
    """The comparisons of a block by row label, and what its footer says of them."""

    rows: Mapping[str, Compared]
    footer: tuple[str, ...]


def compare(values: Mapping[str, Mapping[Key, float]], reference: str, measure: str) -> Marks:
    """Compare every row with the reference row on the questions that both have a value for.

    `values` holds each row's values by conversation and index; `measure` is what the footer
    calls them.
    """
    base = values.get(reference) or {}
    if not base:
        return Marks({}, (f"no row is compared: {reference} has no {measure} here",))
    pairs = {
        label: sorted(base.keys() & of.keys()) for label, of in values.items() if label != reference
    }
    lost = [label for label, keys in pairs.items() if not keys]
    pairs = {label: keys for label, keys in pairs.items() if keys}
    if not pairs:
        return Marks({}, (f"no row is compared: {reference} is the only one with values",))
    tested = {
        label: paired_comparison(
            [values[label][key] for key in keys],
            [base[key] for key in keys],
            [conversation for conversation, _ in keys],
            draws=DRAWS,
        )
        for label, keys in pairs.items()
    }
    adjusted = holm([found.p for found in tested.values()])
    level = 1 - LEVEL / len(tested)
    rows = {}
    for (label, found), p in zip(tested.items(), adjusted, strict=True):
        keys = pairs[label]
        clusters = [conversation for conversation, _ in keys]
        spread = [values[label][key] - base[key] for key in keys]
        least = minimum_detectable_difference(spread, clusters, level)
        rows[label] = Compared(
            difference=100 * found.difference.mean,
            low=_percent(found.difference.low),
            high=_percent(found.difference.high),
            p=found.p,
            adjusted=p,
            n=len(keys),
            clusters=len(set(clusters)),
            detectable=_percent(least),
        )
    return Marks(rows, tuple(_footer(rows, reference, measure, lost)))


def _footer(
    rows: Mapping[str, Compared], reference: str, measure: str, lost: list[str]
) -> list[str]:
    conversations = max(row.clusters for row in rows.values())
    if conversations < 2:
        return [
            f"no row is marked against {reference}: the questions are of one conversation, and "
            "how another conversation would turn out cannot be told from one"
        ]
    count = len(rows)
    family = f"Holm over {count} rows" if count > 1 else "a single comparison"
    least = least_p(conversations)
    said = [
        f"{UP} {DOWN}: above, below {reference} in {measure} by more than chance at 5 % (paired by "
        f"question, signs of whole conversations flipped; {family}; {conversations} conversations, "
        f"whose least p is {least:.2g})"
    ]
    if count * least > LEVEL:
        after = f", {min(1.0, count * least):.2g} after {family}" if count > 1 else ""
        said.append(
            f"nothing can be marked with {conversations} conversations: the least p is "
            f"{least:.2g}{after}"
        )
    elif found := [row.detectable for row in rows.values() if row.detectable]:
        said.append(
            f"minimum detectable difference (80 % power, 5 % over the block): {_range(found)}"
        )
    if lost:
        said.append(f"not compared, without a value: {', '.join(lost)}")
    return said


def least_p(conversations: int) -> float:
    """Return the smallest p that the sign-flip test can give for so many conversations."""
    flips = 2**conversations
    return 2 / flips if flips <= DRAWS else 1 / (1 + DRAWS)


def _range(found: list[float]) -> str:
    low, high = min(found), max(found)
    same = f"{low:.2f}" == f"{high:.2f}"
    return f"{low:.2f} points" if same else f"{low:.2f} to {high:.2f} points, by row"


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
