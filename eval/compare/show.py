"""What `scripts/compare.py` prints and writes; the numbers come from `eval.compare.paired`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eval.compare.paired import FLIP, Paired, costs_apart, settings_apart
from eval.prices import PriceList
from eval.records import key_of
from eval.runfolder import RunFolder
from eval.statistics import Comparison

DASH = "–"
_LONG = 60  # characters of a setting's value that are shown


def show(
    a: RunFolder,
    b: RunFolder,
    found: Sequence[Paired],
    prices: PriceList,
    console: Console,
    flips: int,
) -> None:
    """Print the comparison: differences, categories, flips, settings, costs."""
    console.print(f"A  {a.label}\nB  {b.label}", highlight=False)
    console.print(_differences(found))
    first = found[0]
    if first.by_category:
        console.print(_categories(first))
    _flips(a, first, console, flips)
    console.print(_settings(a, b))
    console.print(_costs(a, b, prices))


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1))
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left", overflow="fold")
    return table


def _differences(found: Sequence[Paired]) -> Table:
    table = _table(
        "A less B, question by question (×100)",
        "measure", "A", "B", "A − B (95 %)", "p", "A/B/ties", "n",
    )  # fmt: skip
    for one in found:
        if one.found is None:
            table.add_row(one.measure.name, *[DASH] * 5, "0")
            continue
        table.add_row(
            one.measure.name,
            _percent(one.mean_a),
            _percent(one.mean_b),
            _difference(one.found),
            f"{one.found.p:.3f}",
            _wins(one.found),
            str(one.n),
        )
    caption = [one for one in found if one.found]
    if caption:
        one = caption[0]
        assert one.found is not None
        interval = one.found.difference
        flipped = "single questions" if "single" in interval.method else "whole conversations"
        lines = [f"interval: {interval.method}; p: sign flips of {flipped}"]
        if any(other.found.difference.flat for other in caption if other.found):
            lines.append("no ±: the difference is the same everywhere, which shows no spread")
        if one.detectable:
            lines.append(
                f"a true difference in {one.measure.name} of {100 * one.detectable:.1f} would be"
                " found 4 times in 5"
            )
        if one.failed_a or one.failed_b:
            lines.append(f"failed and left out: {one.failed_a} of A, {one.failed_b} of B")
        table.caption, table.caption_justify = "\n".join(lines), "left"
    return table


def _difference(found: Comparison) -> str:
    interval = found.difference
    if interval.high is None or interval.flat:
        return f"{100 * interval.mean:+.2f}"
    return f"{100 * interval.mean:+.2f} ± {100 * (interval.high - interval.mean):.2f}"


def _wins(found: Comparison) -> str:
    """Questions on which A, B or neither did better; none are known of a corpus measure."""
    if not found.wins + found.losses + found.ties:
        return DASH
    return f"{found.wins}/{found.losses}/{found.ties}"


def _percent(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.2f}"


def _categories(one: Paired) -> Table:
    table = _table(f"By category: {one.measure.name}", "category", "A − B (95 %)", "A/B/ties", "n")
    for name, found in one.by_category.items():
        table.add_row(name, _difference(found), _wins(found), str(found.difference.n))
    return table


def _flips(a: RunFolder, one: Paired, console: Console, most: int) -> None:
    texts = {key_of(record): str(record["question"]) for record in a.records}
    for side, other in (("A", "B"), ("B", "A")):
        flipped = one.flips(side)
        if not flipped:
            continue
        console.print(
            f"[bold]{len(flipped)} questions that {side} got and {other} did not[/bold]"
            f" ({one.measure.name} at least {FLIP:g} against less)"
        )
        for q in flipped[:most]:
            line = f"  {q.id}  [{q.category}]  {q.a:.2f} | {q.b:.2f}  {texts[q.key]}"
            console.print(escape(line), highlight=False, soft_wrap=True)
        if len(flipped) > most:
            console.print(f"  … {len(flipped) - most} more: --flips {len(flipped)}, or --csv FILE")


def _settings(a: RunFolder, b: RunFolder) -> Table:
    table = _table("Settings that differ", "setting", "A", "B")
    for key, first, second in settings_apart(a, b):
        table.add_row(key, *(escape(_cut(str(value))) for value in (first, second)))
    if not table.row_count:
        table.add_row("none", "", "")
    return table


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _costs(a: RunFolder, b: RunFolder, prices: PriceList) -> Table:
    table = _table("Cost a question", "", "A", "B", "A − B")
    for name, first, second in costs_apart(a, b, prices):
        apart = DASH
        if isinstance(first, float) and isinstance(second, float):
            apart = f"{first - second:+,.4g}"
        shown = (f"{v:,.4g}" if isinstance(v, float) else f"{DASH} ({v})" for v in (first, second))
        table.add_row(name, *shown, apart)
    return table


def write_csv(found: Sequence[Paired], path: Path) -> None:
    """Write one line a question and measure, without any text of the benchmark."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["conversation", "index", "id", "category", "measure", "a", "b", "difference", "flip"]
        )
        for one in found:
            for q in one.questions:
                writer.writerow(
                    [*q.key, q.id, q.category, one.measure.name]
                    + ["" if v is None else f"{v:.10g}" for v in (q.a, q.b, q.difference)]
                    + [q.flipped]
                )
