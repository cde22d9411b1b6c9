"""Numbers that must agree: cells printed twice, percentages, averages, our own counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from eval.audit.cells import Cell, grouped, select
from eval.audit.findings import Finding, Kind, Place
from eval.audit.numbers import quotient_range, shown
from eval.audit.rules import Share


def duplicates(cells: Sequence[Cell], aliases: Sequence[Sequence[str]]) -> list[Finding]:
    """Compare cells of one dataset, retriever, method and metric that stand in several tables.

    `aliases` are names of one method: the first stands for the others.
    """
    found: list[Finding] = []
    for same in repeated(cells, aliases):
        for cell in same:
            others = [other for other in same if other is not cell]
            unlike = [other for other in others if other.text != cell.text]
            test = f"same in {_tables(others)}"
            if not unlike:
                found.append(Finding(Place.of(cell), cell.text, test, "agrees"))
                continue
            why = ", ".join(f"{other.source}: {other.text}" for other in unlike)
            found.append(
                Finding(Place.of(cell), cell.text, test, "disagrees", why, _tables(unlike))
            )
    return found


def repeated(cells: Sequence[Cell], aliases: Sequence[Sequence[str]]) -> list[list[Cell]]:
    """Return the groups of cells that are one number of one run, printed more than once."""
    same_name = {name: group[0] for group in aliases for name in group}
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        method = same_name.get(cell.method, cell.method)
        key = (cell.dataset, cell.retriever, method, cell.metric, cell.category)
        groups.setdefault(key, []).append(cell)
    # retrieval cells name no LLM: a cell with one and a cell without are of different metrics
    return [
        part
        for group in groups.values()
        for part in grouped(group, "llm").values()
        if len({cell.table for cell in part}) > 1
    ]


def shares(cells: Sequence[Cell], rule: Share) -> list[Finding]:
    """Recompute printed percentages from the printed amounts, as `amount / base × 100`.

    The amounts are themselves rounded: `why` tells what range of percentages they allow.
    """
    found: list[Finding] = []
    for cell in select(cells, {"metric": rule.percent}):
        row = {"table": cell.table, "dataset": cell.dataset, "metric": rule.amount}
        amount = select(cells, {**row, "method": cell.method})[0].printed
        base = select(cells, {**row, "method": rule.base})[0].printed
        printed = cell.printed
        assert amount is not None and base is not None and printed is not None
        value = 100 * amount.value / base.value
        test = f"{amount.text}/{base.text}"
        if printed.fits(value):
            why = f"{test} = {shown(value, printed.digits)} %"
            found.append(Finding(Place.of(cell), cell.text, test, "agrees", why))
            continue
        low, high = quotient_range(amount, base)
        near = low <= printed.high and high >= printed.low
        why = f"{test} = {shown(value, 1)} %; the rounded totals allow {shown(low, 1)}–"
        why += f"{shown(high, 1)} %" + (
            ", so the printed value only at their very edge" if near else ""
        )
        against = f"{cell.source}'s own totals"
        found.append(Finding(Place.of(cell), cell.text, test, "disagrees", why, against))
    return found


def weighted_averages(
    cells: Sequence[Cell], weights: Mapping[str, int], average: str
) -> list[Finding]:
    """Recompute `average` cells from their categories' cells, weighted by questions.

    Every printed value is rounded, so the average may differ by half a digit of its own and half
    a digit of theirs.
    """
    found: list[Finding] = []
    total = sum(weights.values())
    test = f"Σ n·score / {total:,}"
    for row in grouped(cells, "table", "dataset", "llm", "method", "metric").values():
        by_category = {cell.category: cell for cell in row}
        if average not in by_category:
            continue
        cell = by_category[average]
        parts = {c: by_category[c].printed for c in weights if c in by_category}
        numbers = {c: printed for c, printed in parts.items() if printed is not None}
        mine = cell.printed
        if not numbers or mine is None:
            continue
        place = Place.of(cell)
        if len(numbers) < len(weights):
            why = f"no cell for {', '.join(c for c in weights if c not in numbers)}"
            found.append(Finding(place, cell.text, test, "not testable", why))
            continue
        low, value, high = (
            sum((n * getattr(numbers[c], at) for c, n in weights.items()), Fraction(0)) / total
            for at in ("low", "value", "high")
        )
        fits = low <= mine.high and high >= mine.low
        kind: Kind = "agrees" if fits else "disagrees"
        why = f"recomputed {shown(value, mine.digits)}"
        found.append(Finding(place, cell.text, test, kind, why, f"{cell.source}'s categories"))
    return found


def own_count(cell: Cell, ours: Sequence[Fraction], how: str) -> Finding:
    """Hold a statistic against our own count: one value, or one for each way to count.

    A value between two ways to count is possible: a third way may give it.
    """
    printed = cell.printed
    assert printed is not None, cell.text
    said = " and ".join(shown(value, printed.digits) for value in ours)
    why = f"{said}: {how}"
    place, test = Place.of(cell), "our own count"
    if any(printed.fits(value) for value in ours):
        return Finding(place, cell.text, test, "agrees", why)
    if min(ours) < printed.value < max(ours):
        return Finding(place, cell.text, test, "possible", f"between {why}")
    return Finding(place, cell.text, test, "disagrees", why, "our own count")


def _tables(cells: Sequence[Cell]) -> str:
    return " and ".join(dict.fromkeys(cell.source for cell in cells))
