"""What a printed mean can be: fractions of a denominator, ranges, orders between measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from eval.audit.cells import Cell, grouped, select
from eval.audit.findings import Finding, Kind, Place
from eval.audit.numbers import (
    Printed,
    can_tell,
    count_behind,
    denominators,
    neighbours,
    shown,
)
from eval.audit.rules import CountMean, Denominator


@dataclass(frozen=True, slots=True)
class Chosen:
    """The candidate n that fits most cells, and which of the cells it does not fit."""

    n: int
    meaning: str
    misfits: tuple[Cell, ...]
    others: Mapping[int, int]


class _Number(NamedTuple):
    cell: Cell
    printed: Printed


def choose_denominator(cells: Sequence[Cell], candidates: Mapping[int, str]) -> Chosen:
    """Return the candidate with the fewest misfits, the greater of two; `others`: n → misfits."""
    numbers = _numbers(cells)
    misfits = {
        n: tuple(c.cell for c in numbers if count_behind(c.printed, n) is None) for n in candidates
    }
    n = min(candidates, key=lambda n: (len(misfits[n]), -n))
    others = {m: len(found) for m, found in misfits.items() if m != n}
    return Chosen(n, candidates[n], misfits[n], others)


def fractions(cells: Sequence[Cell], rule: Denominator) -> list[Finding]:
    """Test every cell of 0/1 means for being k/n, dataset by dataset and metric by metric.

    All metrics of the rule share one denominator in a dataset.
    """
    found: list[Finding] = []
    chosen_cells = select(cells, {"metric": rule.metrics, "dataset": rule.datasets})
    for dataset in dict.fromkeys(cell.dataset for cell in chosen_cells):
        inside = [cell for cell in chosen_cells if cell.dataset == dataset]
        chosen = choose_denominator(inside, rule.candidates)
        found += [fraction(Place.of(c), p, chosen.n, chosen.meaning) for c, p in _numbers(inside)]
    return found


def fraction(place: Place, printed: Printed, n: int, meaning: str) -> Finding:
    """Test one printed percentage for being k/n."""
    test = f"k/{n} ({meaning})"
    if not can_tell(printed, n):
        why = f"{n} is so large that every value with {printed.digits} digits is possible"
        return Finding(place, printed.text, test, "not testable", why)
    k = count_behind(printed, n)
    if k is not None:
        return Finding(place, printed.text, test, "possible", f"{k}/{n}")
    low, high = neighbours(printed, n)
    less = denominators(printed, n)
    why = f"no k/{n} is printed so"
    if less and less[-1] < n:
        k = count_behind(printed, less[-1])
        why += f"; the greatest smaller number of questions that fits is {k}/{less[-1]}"
        root = less[0]
        if less[-1] != root:
            why += f", the least {count_behind(printed, root)}/{root}"
    return Finding(place, printed.text, test, "impossible", why, f"{low} and {high}")


def count_means(cells: Sequence[Cell], rule: CountMean) -> list[Finding]:
    """Test means of whole numbers (sessions, queries, tokens a conversation) for being k/n."""
    found: list[Finding] = []
    for cell, printed in _numbers(select(cells, {"metric": rule.metrics})):
        over = select(cells, {"metric": rule.over, "table": cell.table, "dataset": cell.dataset})
        n = int(over[0].text)
        test = f"total/{n} conversations"
        place = Place.of(cell)
        total = round(printed.value * n)
        if Fraction(1, n) <= printed.unit:
            why = f"over {n} conversations every value with {printed.digits} digit is possible"
            found.append(Finding(place, cell.text, test, "possible", why))
        elif printed.fits(Fraction(total, n)):
            found.append(Finding(place, cell.text, test, "possible", f"{total:,}/{n}"))
        else:
            low, high = neighbours(printed, n, 1)
            why = f"no total/{n} is printed so"
            found.append(Finding(place, cell.text, test, "impossible", why, f"{low} and {high}"))
    return found


def in_range(cells: Sequence[Cell], percentages: Sequence[str]) -> list[Finding]:
    """Test that percentages lie between 0 and 100: all that can be said of NDCG and text scores."""
    found = []
    for cell, printed in _numbers(select(cells, {"metric": tuple(percentages)})):
        inside = 0 <= printed.value <= 100
        kind: Kind = "possible" if inside else "impossible"
        found.append(
            Finding(
                Place.of(cell), cell.text, "range 0–100", kind, "", "" if inside else "0 and 100"
            )
        )
    return found


def not_below(cells: Sequence[Cell], pairs: Sequence[tuple[str, str]]) -> list[Finding]:
    """Test orders that hold by definition: Recall@5 is never below Recall@3 of the same row."""
    found = []
    for upper, lower in pairs:
        for one, other in _same_row(cells, upper, lower):
            kind: Kind = "possible" if one.printed.high >= other.printed.low else "impossible"
            why = "" if kind == "possible" else f"{upper} {one.cell.text} < {other.cell.text}"
            test = f"not below {lower}"
            found.append(Finding(Place.of(one.cell), one.cell.text, test, kind, why, why))
    return found


def usually_above(cells: Sequence[Cell], pairs: Sequence[tuple[str, str]]) -> list[Finding]:
    """Look for rows that break an order that nearly every other row of the paper keeps.

    Both cells of a breaking row are `odd`, since either may be wrong. If a tenth of all rows
    break the order it is none.
    """
    found: list[Finding] = []
    for upper, lower in pairs:
        rows = _same_row(cells, upper, lower)
        broken = [pair for pair in rows if pair[0].printed.value <= pair[1].printed.value]
        if 10 * len(broken) > len(rows):
            continue
        test = f"{upper} above {lower}"
        for one, other in rows:
            if (one, other) not in broken:
                found.append(Finding(Place.of(one.cell), one.cell.text, test, "possible"))
                continue
            same = [p for p in rows if p[0].cell.table == one.cell.table and p not in broken]
            gaps = sorted(a.printed.value - b.printed.value for a, b in same)
            why = f"{upper} {one.cell.text} ≤ {lower} {other.cell.text}, as in {len(broken)} of "
            why += f"{len(rows)} rows of the paper"
            if gaps:
                why += f"; the {len(gaps)} other rows of {one.cell.source} exceed it by "
                why += f"{shown(gaps[0])} to {shown(gaps[-1])}"
            for cell in (one.cell, other.cell):
                found.append(Finding(Place.of(cell), cell.text, test, "odd", why))
    return found


def coincidences(cells: Sequence[Cell], aliases: Sequence[Sequence[str]]) -> list[Finding]:
    """Name the other methods of a column with the very same value: possible, and worth knowing.

    A method that shares several of its values with another in one table is worth a look.
    """
    found: list[Finding] = []
    same_name = {name: group[0] for group in aliases for name in group}
    for column in grouped(cells, "table", "dataset", "metric").values():
        for cell, printed in _numbers(column):
            mine = same_name.get(cell.method, cell.method)
            twins = [
                other.method
                for other in column
                if other.text == cell.text and same_name.get(other.method, other.method) != mine
            ]
            if twins and printed.value != 100:
                why = f"the same value as {', '.join(twins)}"
                found.append(Finding(Place.of(cell), cell.text, "coincidence", "possible", why))
    return found


def _numbers(cells: Sequence[Cell]) -> list[_Number]:
    return [_Number(cell, found) for cell in cells if (found := cell.printed) is not None]


def _same_row(cells: Sequence[Cell], upper: str, lower: str) -> list[tuple[_Number, _Number]]:
    pairs = []
    names = ("table", "dataset", "llm", "retriever", "method", "category")
    for row in grouped(cells, *names).values():
        by_metric = {number.cell.metric: number for number in _numbers(row)}
        if upper in by_metric and lower in by_metric:
            pairs.append((by_metric[upper], by_metric[lower]))
    return pairs
