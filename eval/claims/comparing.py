"""What all checks share: evidence and prices at hand, differences, and what bars a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eval.claims import contrast
from eval.claims.contrast import Values
from eval.claims.evidence import Evidence, Shelf, hindrances
from eval.claims.outcome import FAILS, HOLDS, UNKNOWN, Outcome, direction, nothing, printed
from eval.claims.quantities import NotHere, read
from eval.claims.spec import Above, Part, Quantity, Row, refs
from eval.measures.registry import parse
from eval.prices import PriceList


@dataclass(frozen=True)
class Desk:
    """What checks work with: the evidence and the price list."""

    shelf: Shelf
    prices: PriceList

    def row(self, part: Part, row: Row, main: str | None = None) -> Evidence:
        """Return the evidence of a row that a part names."""
        (ref,) = refs(row)
        return self.shelf.of(part, ref, main)


def compared(
    part: Part,
    quantity: Quantity,
    desk: Desk,
    upper: Evidence,
    lower: Evidence,
    *,
    paired: bool = True,
) -> Outcome:
    """Return the outcome of `upper` being above `lower` on a quantity."""
    what = f"{title_of(quantity)}: {upper.label} above {lower.label}"
    used = [upper, lower]
    try:
        a, b = (read(e, quantity, desk.prices) for e in used)
        found = contrast.paired(a, b) if paired else contrast.unpaired(a, b)
    except (NotHere, ValueError) as reason:
        return nothing(what, str(reason), runs=runs_of(used))
    verdict, why = direction(found)
    outcome = Outcome(what, printed(found), verdict, "", "", why, runs_of(used))
    return barred(part, outcome, hindrances(used))


def best_of(
    others: Sequence[Evidence], quantity: Quantity, prices: PriceList, *, lowest: bool
) -> tuple[Evidence, Values]:
    """Return the best of several rows (of a cost: the cheapest); those without a run are out."""
    found: list[tuple[float, int, Evidence, Values]] = []
    reasons: list[str] = []
    for i, other in enumerate(others):
        try:
            values = read(other, quantity, prices)
        except NotHere as reason:
            reasons.append(str(reason))
            continue
        mean = sum(values.values()) / len(values)
        found.append((mean if lowest else -mean, i, other, values))
    if not found:
        raise NotHere("; ".join(dict.fromkeys(reasons)))
    _, _, best, values = min(found, key=lambda one: one[:2])
    return best, values


def any_of(part: Above, found: Sequence[Outcome]) -> Outcome:
    """Return one outcome that holds if any of several does."""
    runs = tuple(dict.fromkeys(run for o in found for run in o.runs))
    holding = [o for o in found if o.verdict == HOLDS]
    upper, lower = (" or ".join(names_of(rows)) for rows in (part.upper, part.lower))
    what = f"at least once: {upper} above {lower}"
    if holding:
        ours = f"{len(holding)} of {len(found)}, e.g. {holding[0].what}: {holding[0].ours}"
        return Outcome(what, ours, HOLDS, runs=runs)
    seen = [o for o in found if o.ours]
    ours = "; ".join(f"{o.what}: {o.ours}" for o in seen[:2])
    reasons = "; ".join(dict.fromkeys(o.why for o in found if o.why and o.verdict == UNKNOWN))
    if any(o.verdict == UNKNOWN for o in found):
        return Outcome(what, ours, UNKNOWN, why=reasons, runs=runs)
    return Outcome(what, ours, FAILS, why="in no case", runs=runs)


def barred(part: Part, outcome: Outcome, reasons: Sequence[str]) -> Outcome:
    """Keep ours but take the verdict back where the setting is not the paper's."""
    if part.mechanical or not reasons:
        return outcome
    own = [outcome.why] if outcome.verdict == UNKNOWN and outcome.why else []
    why = "; ".join(dict.fromkeys([*own, *reasons]))
    return replace(outcome, verdict=UNKNOWN, here=outcome.verdict, why=why)


def quantity_of(part: Part, measure: str) -> Quantity:
    """Return a measure as a quantity under the part's own settings."""
    return Quantity(table=part.table, main=part.main, block=part.block, measure=measure)


def title_of(quantity: Quantity) -> str:
    """Return how a quantity is called in outcomes."""
    if quantity.measure is not None:
        return parse(quantity.measure).name
    return f"{quantity.cost}/{quantity.per}"


def labels_of(several: Sequence[Evidence]) -> str:
    """Return the labels of rows, each once."""
    return ", ".join(dict.fromkeys(e.label for e in several))


def names_of(rows: Sequence[Row]) -> list[str]:
    """Return the labels that a ledger gives to rows."""
    return [ref.row for ref in refs(*rows)]


def runs_of(several: Sequence[Evidence]) -> tuple[str, ...]:
    """Return the folders of the runs behind rows, each once."""
    return tuple(dict.fromkeys(e.folder for e in several if e.folder))
