"""A plan on one screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eval.plan.estimate import Limits, Range, RunPlan, hours
from eval.prices import PriceList


def show_plans(
    plans: Sequence[RunPlan], stated: Limits, prices: PriceList, console: Console
) -> None:
    """Print each run by phase and role, and the total."""
    table = Table(title="Planned: expected (low – high)", title_justify="left", box=None)
    for heading in ("phase / role", "calls", "stored", "tokens in", "tokens out", "USD"):
        left = heading == "phase / role"
        table.add_column(heading, justify="left" if left else "right")
    for plan in plans:
        _rows(table, plan, prices)
    console.print(table)
    good = [plan for plan in plans if plan.problem is None]
    for plan in plans:
        if plan.problem is not None:
            console.print(f"{plan.title}: not planned: {plan.problem}", highlight=False)
    if good:
        _total(good, stated, prices, console)


def _rows(table: Table, plan: RunPlan, prices: PriceList) -> None:
    if plan.problem is not None:
        return
    usd = plan.usd(prices)
    cost = "no price" if usd is None else money(usd)
    table.add_row(f"[bold]{escape(plan.title)}[/bold]", "", "", "", "", cost)
    for place in plan.places():
        fresh, every = plan.of(place, "fresh_calls"), plan.of(place, "calls")
        table.add_row(
            f"  {' / '.join(place)}: {escape(plan.model(place))}",
            count(fresh),
            f"{every.expected - fresh.expected:,.0f}" if every.expected > fresh.expected else "",
            count(plan.of(place, "fresh_in")),
            count(plan.of(place, "fresh_out")),
            "",
        )


def _total(plans: Sequence[RunPlan], stated: Limits, prices: PriceList, console: Console) -> None:
    def added(what: str) -> Range:
        return summed([plan.total(what) for plan in plans])

    calls, every = added("fresh_calls"), added("calls")
    console.print(
        f"\nTotal of {len(plans)} runs: {count(calls)} calls to make, "
        f"{every.expected - calls.expected:,.0f} stored or shared; "
        f"{count(added('fresh_in'))} tokens in, {count(added('fresh_out'))} out",
        highlight=False,
        soft_wrap=True,
    )
    costs = [plan.usd(prices) for plan in plans]
    known = [cost for cost in costs if cost is not None]
    missing = sorted(
        {plan.model(p) for plan in plans for p in plan.places() if not prices.of(plan.model(p))}
    )
    line = f"Money: {money(summed(known))}" if known else "Money: unknown"
    if missing:
        line += f", without {', '.join(missing)}: no price in configs/prices.yaml"
    console.print(line, highlight=False)
    time = hours(plans, stated)
    if time is None:
        console.print("Hours: no rate limit stated (--rate-requests, --rate-tokens a minute)")
    else:
        console.print(
            f"Hours: at least {time.expected:.1f} ({time.low:.1f} – {time.high:.1f}) at the rate "
            "limits; models work at the same time",
            highlight=False,
            soft_wrap=True,
        )
    texts = sum(plan.embedded().texts for plan in plans)
    tokens = sum(plan.embedded().tokens for plan in plans)
    stored = sum(plan.embedded().stored for plan in plans)
    if texts or stored:
        console.print(
            f"Embedding: {texts:,.0f} texts, {tokens:,.0f} tokens; {stored:,.0f} stored",
            highlight=False,
        )
    sampled = [plan for plan in plans if plan.sampled or plan.sampled_questions]
    if sampled:
        least = min(len(plan.extent.chosen) for plan in sampled)
        console.print(
            f"{len(sampled)} runs are scaled up from a part ({least} or more conversations): "
            "--conversations N --questions N for more",
            highlight=False,
            soft_wrap=True,
        )


def summed(ranges: Sequence[Range]) -> Range:
    """Add ranges end to end: the true total lies nearer to the expected value."""
    return Range(
        sum(r.low for r in ranges), sum(r.expected for r in ranges), sum(r.high for r in ranges)
    )


def count(found: Range) -> str:
    """Return a range of numbers in short; one number where both ends look alike."""
    low, expected, high = (short(v) for v in (found.low, found.expected, found.high))
    return expected if low == high else f"{expected} ({low}–{high})"


def short(value: float) -> str:
    """Return a number with three digits or more: `812`, `12,345`, `1.23M`, `46.8M`."""
    if value < 99_999.5:
        return f"{value:,.0f}"
    digits = 2 if value < 9_995_000 else 1 if value < 99_950_000 else 0
    return f"{value / 1e6:,.{digits}f}M"


def money(found: Range) -> str:
    """Return a range of dollars."""
    low, expected, high = (f"{v:,.2f}" for v in (found.low, found.expected, found.high))
    return f"${expected}" if low == high else f"${expected} ({low}–{high})"
