"""The kinds of check: what each reads, compares and asks of the interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import pairwise

from eval.claims import contrast, traces
from eval.claims.comparing import (
    Desk,
    any_of,
    barred,
    best_of,
    compared,
    labels_of,
    quantity_of,
    runs_of,
    title_of,
)
from eval.claims.contrast import Contrast, Values
from eval.claims.evidence import Evidence, hindrances
from eval.claims.outcome import (
    FAILS,
    HOLDS,
    UNKNOWN,
    Outcome,
    Verdict,
    against,
    direction,
    not_below,
    nothing,
    printed,
    within,
)
from eval.claims.quantities import NotHere, events, read, scores
from eval.claims.spec import (
    Above,
    Case,
    Ceiling,
    Comparable,
    Flat,
    Gain,
    Lengths,
    Order,
    Part,
    Peak,
    Retains,
    Trend,
    Value,
    Walk,
)
from eval.costs import Missing
from eval.measures.registry import parse
from eval.prices import PriceList

Found = list[Outcome]


def judge(part: Part, desk: Desk) -> Found:
    """Return the outcomes of one part of a claim."""
    return _judge(part, desk)


@singledispatch
def _judge(part: Part, desk: Desk) -> Found:
    raise TypeError(f"No check for {type(part).__name__}.")


@_judge.register
def _(part: Gain, desk: Desk) -> Found:
    mains = part.mean_over or (part.main,)
    pairs: list[tuple[Values, Values]] = []
    used: list[Evidence] = []
    lost: list[str] = []
    second: list[str] = []
    for main in mains:
        mine = desk.row(part, part.row, main)
        others = [desk.row(part, row, main) for row in part.over]
        used += [mine, *others]
        try:
            a = read(mine, part, desk.prices)
            best, b = best_of(others, part, desk.prices, lowest=part.cost is not None)
        except NotHere as reason:
            lost.append(str(reason))
            continue
        if part.mean_over and any(e.measured is None or _unlike(e, main) for e in (mine, *others)):
            lost.append(f"no complete set of runs with {main}")
            if pairs:  # another model's runs would stand in for it a second time
                continue
        pairs.append((a, b))
        second.append(best.label)
    over = " / ".join(dict.fromkeys(second)) or labels_of(used[1:])
    what = f"{title_of(part)}: {labels_of(used[:1])} over {over}"
    stated = f"{part.published:+.2f} %"
    if not pairs:
        return [nothing(what, "; ".join(dict.fromkeys(lost)), stated, runs_of(used))]
    try:
        found = contrast.mean_gain(pairs)
    except ZeroDivisionError:
        return [nothing(what, f"{over} is 0 on every question", stated, runs_of(used))]
    except ValueError as error:
        return [nothing(what, str(error), stated, runs_of(used))]
    signed = found if part.published > 0 else _negated(found)
    verdict, why = direction(signed)
    value = against(found, part.published)
    outcome = Outcome(what, printed(found, " %"), verdict, stated, value, why, runs_of(used))
    return [barred(part, outcome, [*hindrances(used), *lost])]


@_judge.register
def _(part: Value, desk: Desk) -> Found:
    mine = desk.row(part, part.row)
    what = f"{title_of(part)}: {mine.label}"
    stated = f"{part.published:,.2f}".rstrip("0").rstrip(".")
    try:
        if part.cost is not None and part.per != "question":
            found = _divided(mine, part, desk.prices)
        else:
            found = contrast.mean(read(mine, part, desk.prices))
    except NotHere as reason:
        return [nothing(what, str(reason), stated, runs_of([mine]))]
    verdict, why, said = _near(part, found, mine)
    outcome = Outcome(what, said, verdict, stated, "", why, runs_of([mine]))
    return [barred(part, outcome, hindrances([mine]))]


@_judge.register
def _(part: Order, desk: Desk) -> Found:
    rows = [desk.row(part, row) for row in part.order]
    return [compared(part, part, desk, upper, lower) for upper, lower in pairwise(rows)]


@_judge.register
def _(part: Above, desk: Desk) -> Found:
    found: Found = []
    for name in part.measures:
        quantity = quantity_of(part, name)
        for upper in part.upper:
            for lower in part.lower:
                one, other = desk.row(part, upper), desk.row(part, lower)
                found.append(compared(part, quantity, desk, one, other, paired=part.paired))
    if not part.some:
        return found
    return [any_of(part, found)]


@_judge.register
def _(part: Trend, desk: Desk) -> Found:
    rows = [desk.row(part, row) for row in part.along]
    first, last = rows[0], rows[-1]
    ends = (last, first) if part.direction == "up" else (first, last)
    found = [compared(part, part, desk, *ends)]
    # a step may be flat; it must not go the other way
    for one, other in pairwise(rows):
        upper, lower = (other, one) if part.direction == "up" else (one, other)
        step = compared(part, part, desk, upper, lower)
        if step.verdict == FAILS:
            found.append(step)
    if part.flattens:
        found.append(_flattening(part, desk, rows))
    return found


@_judge.register
def _(part: Peak, desk: Desk) -> Found:
    best = desk.row(part, part.row)
    found: Found = []
    for name in part.measures:
        quantity = quantity_of(part, name)
        for row in part.ends:
            found.append(compared(part, quantity, desk, best, desk.row(part, row)))
        for row in part.near:
            # a neighbour may be as good; only one that is surely better moves the peak
            better = compared(part, quantity, desk, desk.row(part, row), best)
            if better.verdict == HOLDS:
                why = f"{row} is above {best.label}" if isinstance(row, str) else ""
                found.append(replace(better, verdict=FAILS, why=why))
            elif not better.ours:
                found.append(better)
    return found


@_judge.register
def _(part: Flat, desk: Desk) -> Found:
    near = desk.row(part, part.near)
    found: Found = []
    for row in part.others:
        other = desk.row(part, row)
        what = f"{title_of(part)}: {other.label} − {near.label}, within ±{part.margin:g}"
        used = [other, near]
        try:
            a, b = (read(e, part, desk.prices) for e in used)
            difference = contrast.paired(a, b)
        except (NotHere, ValueError) as reason:
            found.append(nothing(what, str(reason), runs=runs_of(used)))
            continue
        verdict, why = within(difference, part.margin)
        outcome = Outcome(what, printed(difference), verdict, "", "", why, runs_of(used))
        found.append(barred(part, outcome, hindrances(used)))
    return found


@_judge.register
def _(part: Retains, desk: Desk) -> Found:
    mine, full = desk.row(part, part.row), desk.row(part, part.full)
    others = [desk.row(part, row) for row in part.over]
    used = [mine, full, *others]
    what = f"{title_of(part)}: {mine.label} keeps over {part.share:.0%} of the gain"
    try:
        best, base = best_of(others, part, desk.prices, lowest=False)
        a, b = (read(e, part, desk.prices) for e in (mine, full))
        # (mine − base) − share·(full − base) > 0
        found = contrast.combined([(1.0, a), (-part.share, b), (part.share - 1, base)])
        whole = contrast.paired(b, base)
    except (NotHere, ValueError) as reason:
        return [nothing(what, str(reason), runs=runs_of(used))]
    what += f" of {full.label} over {best.label}"
    verdict, why = direction(found)
    if whole.value <= 0:
        verdict, why = UNKNOWN, f"{full.label} has no gain over {best.label} here"
    said = printed(found) + " beyond that share"
    outcome = Outcome(what, said, verdict, f"over {part.share:.0%}", "", why, runs_of(used))
    return [barred(part, outcome, hindrances(used))]


@_judge.register
def _(part: Comparable, desk: Desk) -> Found:
    mine = desk.row(part, part.row)
    others = [desk.row(part, row) for row in part.others]
    used = [mine, *others]
    found: Found = []
    for name in part.measures:
        quantity = quantity_of(part, name)
        what = f"{title_of(quantity)}: {mine.label} − best baseline, at least −{part.margin:g}"
        try:
            best, b = best_of(others, quantity, desk.prices, lowest=False)
            difference = contrast.paired(scores(mine, name), b)
        except (NotHere, ValueError) as reason:
            found.append(nothing(what, str(reason), runs=runs_of(used)))
            continue
        verdict, why = not_below(difference, part.margin)
        what = what.replace("best baseline", f"{best.label} (best)")
        outcome = Outcome(what, printed(difference), verdict, "", "", why, runs_of(used))
        found.append(barred(part, outcome, hindrances(used)))
    return found


@_judge.register
def _(part: Ceiling, desk: Desk) -> Found:
    mine = desk.row(part, part.row)
    said: list[str] = []
    above: list[Verdict] = []
    what = f"{mine.label}: {part.most} of {len(part.measures)} measures at {part.level:g} or more"
    try:
        for name in part.measures:
            found = contrast.mean(scores(mine, name))
            above.append(HOLDS if found.value >= part.level else FAILS)
            said.append(f"{parse(name).name} {printed(found, sign=False)}")
    except NotHere as reason:
        return [nothing(what, str(reason), runs=runs_of([mine]))]
    verdict = HOLDS if above.count(HOLDS) >= part.most else FAILS
    outcome = Outcome(what, "; ".join(said), verdict, "near saturation", runs=runs_of([mine]))
    return [barred(part, outcome, hindrances([mine]))]


@_judge.register
def _(part: Lengths, desk: Desk) -> Found:
    mine = desk.row(part, part.row)
    found: Found = []
    for row in part.others:
        other = desk.row(part, row)
        reasons = hindrances([mine, other])
        outcomes = traces.lengths(mine, other, runs_of([mine, other]))
        found += [barred(part, outcome, reasons) for outcome in outcomes]
    return found


@_judge.register
def _(part: Case, desk: Desk) -> Found:
    mine = desk.row(part, part.row)
    reasons = hindrances([mine])
    return [barred(part, o, reasons) for o in traces.case(part, mine, runs_of([mine]))]


@_judge.register
def _(part: Walk, desk: Desk) -> Found:
    mine = desk.row(part, part.row)
    return [barred(part, traces.walk(mine, runs_of([mine])), hindrances([mine]))]


def _flattening(part: Trend, desk: Desk, rows: Sequence[Evidence]) -> Outcome:
    """Judge whether the first half of the way changes more than the second."""
    middle = rows[len(rows) // 2]
    first, last = rows[0], rows[-1]
    what = f"{title_of(part)}: {first.label} to {middle.label} changes more than on to {last.label}"
    sign = 1.0 if part.direction == "up" else -1.0
    try:
        a, b, c = (read(e, part, desk.prices) for e in (first, middle, last))
        # (middle − first) − (last − middle), per step where the halves differ in length
        before, after = len(rows) // 2, len(rows) - 1 - len(rows) // 2
        weights = ((-sign / before, a), (sign / before + sign / after, b), (-sign / after, c))
        found = contrast.combined(weights)
    except (NotHere, ValueError) as reason:
        return nothing(what, str(reason), runs=runs_of([first, middle, last]))
    verdict, why = direction(found)
    used = [first, middle, last]
    outcome = Outcome(what, printed(found, " a step"), verdict, "", "", why, runs_of(used))
    return barred(part, outcome, hindrances(used))


def _near(part: Value, found: Contrast, mine: Evidence) -> tuple[Verdict, str, str]:
    assert mine.measured is not None  # it has just been read
    again = events(mine.measured, part.retries) if part.retries else 0
    said = printed(found, sign=False)
    if part.tolerance == 0:
        net = found.value - again / found.n
        said += f", of which {again} retries" if again else ""
        exact = abs(net - part.published) < 1e-9
        return (HOLDS if exact else FAILS), "", said
    inside = found.low is not None and found.high is not None
    inside = inside and found.low <= part.published <= found.high  # type: ignore[operator]
    off = found.value / part.published - 1
    verdict: Verdict = HOLDS if inside or abs(off) <= part.tolerance else FAILS
    return verdict, f"{off:+.1%} (within {part.tolerance:.0%} or inside the interval holds)", said


def _divided(mine: Evidence, part: Value, prices: PriceList) -> Contrast:
    if mine.measured is None:
        raise NotHere(mine.hindrances[0])
    costs = mine.measured.costs(prices)
    value = costs.value(str(part.cost), part.per)
    if isinstance(value, Missing):
        raise NotHere(value.reason)
    n = {"unit": costs.units, "conversation": costs.conversations}.get(part.per, 1)
    return Contrast(value, None, None, n, f"over {n} {part.per}s")


def _negated(found: Contrast) -> Contrast:
    low = None if found.high is None else -found.high
    high = None if found.low is None else -found.low
    return Contrast(-found.value, low, high, found.n, found.method, found.detectable)


def _unlike(evidence: Evidence, main: str | None) -> bool:
    return any(f"no block with {main}" in reason for reason in evidence.hindrances)
