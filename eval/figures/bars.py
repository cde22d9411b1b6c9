"""Alternatives side by side, and the best of them for each question (MemGAS Fig. 1(a))."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from eval.figures.data import Point, RunData, hundredfold, source
from eval.figures.spec import Bars
from eval.measures.registry import parse
from eval.statistics import clustered_mean_interval
from memsys.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eval.figures.style import Caption


@dataclass(frozen=True, kw_only=True)
class Bar(Point):
    """One mean, ×100. `role` is `single` for an alternative, `best` for the oracle's choice."""

    measure: str
    heading: str
    definition: str
    role: Literal["single", "best", "other"]
    value: float | None
    low: float | None
    high: float | None


def frame(spec: Bars, runs: Sequence[RunData]) -> list[Bar]:
    """Compute each row's mean and, after the last alternative, the mean of each question's best.

    The best is taken over the questions that every alternative answered, joined by conversation
    and index; where an alternative has no run there is no best. Raises `UserError` for a corpus
    measure, which has no value for a question, or a name in `best_of` that is no row.
    """
    labels = [data.row.label for data in runs]
    for name in spec.best_of:
        if name not in labels:
            raise UserError(f"Figure '{spec.title}': '{name}' in best_of is no row of its table.")
    bars: list[Bar] = []
    for block in dict.fromkeys(data.block.label for data in runs):
        inside = [data for data in runs if data.block.label == block]
        singles = [data for data in inside if data.row.label in spec.best_of]
        others = [data for data in inside if data.row.label not in spec.best_of]
        for measure in spec.measures:
            bars += [_bar(data, measure, "single") for data in singles]
            bars.append(_best(spec, measure, singles))
            bars += [_bar(data, measure, "other") for data in others]
    return bars


def _bar(data: RunData, measure: str, role: Literal["single", "other"]) -> Bar:
    where = source(data)
    n, value, low, high, definition = 0, None, None, None, parse(measure).title
    if not data.reason:
        scored = data.scored(measure)
        if isinstance(scored, str):
            where["reason"] = scored
        else:
            found = scored.aggregate()
            definition = scored.measure.describe(data.items, found.n)
            n, (value, low, high) = found.n, hundredfold(found)
            where["reason"] = "" if n else "no question counts"
    return Bar(
        **where, n=n, measure=measure, heading=parse(measure).label, definition=definition,
        role=role, value=value, low=low, high=high,
    )  # fmt: skip


def _best(spec: Bars, measure: str, singles: Sequence[RunData]) -> Bar:
    """Return the mean over questions of the best value that any alternative has."""
    tables = []
    reason = ""
    for data in singles:
        scored = data.reason or data.scored(measure)
        if isinstance(scored, str):
            reason = f"{data.row.label}: {scored}"
            break
        if scored.counts is not None:
            raise UserError(f"'{measure}' has no value for a question: a best needs one that has.")
        tables.append(dict(zip(data.keys, scored.values, strict=True)))
    first = singles[0]
    where = {**source(first), "system": spec.best_label, "run": "", "reason": reason, "failed": 0}
    n, value, low, high = 0, None, None, None
    if not reason:
        best, clusters = [], []
        for key in tables[0]:
            values = [v for t in tables if (v := t.get(key)) is not None]
            if len(values) == len(tables):
                best.append(max(values))
                clusters.append(key[0])
        if best:
            found = clustered_mean_interval(best, clusters)
            n, value = found.n, 100 * found.mean
            low = None if found.low is None else 100 * max(0.0, found.low)
            high = None if found.high is None else 100 * min(1.0, found.high)
            where["run"] = " ".join(data.folder for data in singles)
        else:
            where["reason"] = "no question was answered by all alternatives"
    return Bar(
        **where, n=n, measure=measure, heading=parse(measure).label,
        definition=f"{parse(measure).title}, best of {', '.join(spec.best_of)} for each question",
        role="best", value=value, low=low, high=high,
    )  # fmt: skip


def draw(spec: Bars, bars: Sequence[Bar], words: Caption) -> Figure:
    """Draw horizontal bars from zero, one panel a block and measure, the oracle's set apart."""
    from eval.figures import style

    blocks = list(dict.fromkeys(b.block for b in bars))
    systems = list(dict.fromkeys(b.system for b in bars))
    rows, columns = len(blocks), len(spec.measures)
    width = style.WIDE if columns > 1 else style.NARROW + 0.9
    figure = style.page(words, width, rows * (0.2 * len(systems) + 0.55))
    axes = style.grid(figure, rows, columns, sharey=True)
    for r, block in enumerate(blocks):
        for c, measure in enumerate(spec.measures):
            inside = [b for b in bars if (b.block, b.measure) == (block, measure)]
            _panel(axes[r][c], inside, systems, spec.highlight)
            name = inside[0].heading if len(blocks) == 1 else f"{inside[0].heading}: {block}"
            style.heading(axes[r][c], style.wrapped(name, width / columns - 0.9, style.TEXT))
    return figure


def _panel(axes: Axes, bars: Sequence[Bar], systems: Sequence[str], highlight: str | None) -> None:
    from eval.figures import style

    colours = {"single": style.COLOURS[5], "best": style.COLOURS[1], "other": style.COLOURS[0]}
    top = max((b.high or b.value or 0.0 for b in bars), default=1.0) or 1.0
    for b in bars:
        y = -systems.index(b.system)
        if b.value is None:
            axes.annotate("–", (0, y), xytext=(3, 0), textcoords="offset points", va="center")
            continue
        hatch = "////" if b.role == "best" else None  # no method: an oracle
        axes.barh(
            y, b.value, height=0.66, color="white" if hatch else colours[b.role], hatch=hatch,
            edgecolor=colours[b.role], linewidth=0.8,
        )  # fmt: skip
        if b.low is not None and b.high is not None:
            axes.plot([b.low, b.high], [y, y], color=style.INK, linewidth=0.8)
        axes.annotate(
            f"{b.value:.1f}", (max(b.high or 0, b.value), y), xytext=(3, 0),
            textcoords="offset points", va="center", size=style.SMALL,
        )  # fmt: skip
    style.name_rows(axes, systems, highlight)
    axes.set_xlim(0, min(top * 1.18, 118))
    axes.grid(axis="x")
