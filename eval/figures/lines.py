"""Sweeps: scores and costs over one setting, with 95 % intervals and the paper's choice marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eval.figures.costs import question_costs
from eval.figures.data import Point, RunData, hundredfold, source
from eval.figures.spec import Axis, Lines, Panel
from eval.statistics import clustered_mean_interval
from eval.tables.spec import TableSpec
from memsys.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eval.figures.style import Caption

ALL = "all questions"
Names = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class LinePoint(Point):
    """One mean of one row: `facet` is its column of panels, `panel` its y axis, `line` its curve.

    `x` places it, `x_text` is what the label says; a reference has no `x`. Scores are ×100.
    """

    facet: str
    panel: str
    line: str
    x: float | None
    x_text: str
    chosen: bool
    measure: str
    definition: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class _Curve:
    text: str
    name: str  # a measure's or a cost's
    is_cost: bool


@dataclass(frozen=True)
class _Place:
    series: str
    panel: str
    x: float | None
    text: str
    chosen: bool


def frame(
    spec: Lines, runs: Sequence[RunData], table: TableSpec, category_names: Names
) -> list[LinePoint]:
    """Compute every mean of a sweep, in the order of blocks, rows, facets and panels.

    `category_names` gives a dataset's types of question by their codes. Raises `UserError` for a
    panel that names no column of the table.
    """
    by_row = spec.x.source == "rows"
    searched = [data.row.label for data in runs] if by_row else [c.heading for c in table.columns]
    places = _places(spec.x, list(dict.fromkeys(searched)))
    points: list[LinePoint] = []
    for data in runs:
        label = data.row.label
        for facet, at in _facets(spec, data, category_names):
            for panel in spec.panels:
                for curve in _curves(panel, table):
                    place = places.get(label if by_row else curve.text)
                    if label in spec.references:
                        place = _Place(label, "", None, "", False)
                    elif place is not None and not by_row:
                        place = replace(place, series=label)
                    if place is not None:
                        points.append(_point(data, place, facet, at, panel, curve, by_row))
    if not points:
        raise UserError(f"Figure '{spec.title}': no row of {spec.table} is a point of the sweep.")
    return points


def _places(axis: Axis, labels: Sequence[str]) -> dict[str, _Place]:
    """Return where each row's label stands on the x axis."""
    found: dict[str, _Place] = {}
    order: list[str] = []
    for label in labels:
        match = re.search(axis.pattern, label)
        if match is None:
            continue
        groups = match.groupdict()
        text = groups["x"].strip()
        if text not in order:
            order.append(text)
        if axis.scale in ("ordinal", "category"):
            x = float(order.index(text))
        else:
            x = axis.ticks[text] if text in axis.ticks else _number(text, label)
        series, panel = groups.get("series") or axis.unnamed, groups.get("panel") or ""
        found[label] = _Place(_bare(series), _bare(panel), x, text, _same(text, axis.chosen))
    return found


def _bare(text: str) -> str:
    return text.strip(" ,:·/")


def _number(text: str, label: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"Row '{label}': '{text}' is no number on the x axis.") from error


def _same(text: str, chosen: float | str | None) -> bool:
    if chosen is None:
        return False
    try:
        return float(text) == float(chosen)
    except ValueError:
        return text == str(chosen)


def _facets(spec: Lines, data: RunData, names: Names) -> list[tuple[str, list[int]]]:
    """Return the columns of panels that a run fills, each with the positions of its questions."""
    everything = (ALL, list(range(len(data.items))))
    if spec.by is None:
        return [everything]
    found = [everything]
    for code, name in names(data.block.dataset).items():
        at = [i for i, item in enumerate(data.items) if item.category == code]
        if at:
            found.append((name, at))
    return found


def _curves(panel: Panel, table: TableSpec) -> list[_Curve]:
    """Return what a panel shows: columns of the table, or costs."""
    known = {column.heading: column for column in table.columns}
    found: list[_Curve] = []
    for heading in panel.columns:
        if heading not in known or known[heading].measure is None:
            raise UserError(f"Table '{table.title}' has no measure '{heading}'.")
        found.append(_Curve(heading, str(known[heading].measure), False))
    return found + [_Curve(text, cost, True) for cost, text in panel.costs.items()]


def _point(
    data: RunData, place: _Place, facet: str, at: list[int], panel: Panel, curve: _Curve,
    by_row: bool,
) -> LinePoint:  # fmt: skip
    name = curve.name
    where = source(data)
    line = place.series or curve.text
    if place.series and by_row and len(panel.columns or panel.costs) > 1:
        line = f"{place.series}, {curve.text}"
    n, value, low, high, definition = 0, None, None, None, name
    if not data.reason:
        if curve.is_cost:
            n, value, low, high = _cost(data, name, at)
        else:
            scored = data.scored(name)
            if isinstance(scored, str):
                where["reason"] = scored
            else:
                found = scored.aggregate(at)
                definition = scored.measure.describe([data.items[i] for i in at], found.n)
                n, (value, low, high) = found.n, hundredfold(found)
        if value is None and not where["reason"]:
            where["reason"] = "no question counts"
    return LinePoint(
        **where, n=n, facet=_facet(place.panel, facet), panel=panel.label,
        line=line, x=place.x, x_text=place.text, chosen=place.chosen, measure=name,
        definition=definition, value=value, low=low, high=high,
    )  # fmt: skip


def _facet(panel: str, facet: str) -> str:
    if not panel:
        return facet
    return panel if facet == ALL else f"{panel}, {facet}"


def _cost(data: RunData, name: str, at: Sequence[int]) -> tuple[int, Any, Any, Any]:
    costs = question_costs(data.records, name)
    known = [(c, data.records[i]["conversation"]) for i in at if (c := costs[i]) is not None]
    if not known:
        return 0, None, None, None
    found = clustered_mean_interval([c for c, _ in known], [cluster for _, cluster in known])
    low = None if found.low is None else max(0.0, found.low)
    return found.n, found.mean, low, found.high


def draw(spec: Lines, points: Sequence[LinePoint], words: Caption) -> Figure:
    """Draw a sweep: facets side by side, one row of panels a block and y axis."""
    from eval.figures import style

    facets = list(dict.fromkeys((p.block, p.facet) for p in points))
    panels = [panel.label for panel in spec.panels]
    # many facets: they stand side by side over the panels; else the panels stand side by side
    across = len(facets) > 1
    columns = len(facets) if across else min(len(panels), 2)
    rows = len(panels) if across else -(-len(panels) // 2)
    width = style.WIDE if columns > 1 else style.NARROW + 0.9
    height = (1.75 if across else 2.3) * rows
    figure = style.page(words, width, height)
    one_scale = across and len({block for block, _ in facets}) == 1
    axes = style.grid(figure, rows, columns, sharey="row" if one_scale else False)
    if not across and len(panels) % columns:
        axes[-1][-1].remove()
    to_label: list[tuple[Axes, list[tuple[float, str, str]]]] = []
    scores: list[Axes] = []
    for f, (block, facet) in enumerate(facets):
        for p, panel in enumerate(panels):
            here = axes[p][f] if across else axes[p // 2][p % 2]
            inside = [q for q in points if (q.block, q.facet, q.panel) == (block, facet, panel)]
            ends = _panel(here, spec, inside)
            if (not across or f == len(facets) - 1) and len(ends) > 1:
                to_label.append((here, ends))
            if not spec.panels[p].costs:
                scores.append(here)
            if f == 0:
                here.set_ylabel(style.axis_label(panel, height / rows - 0.4))
            if p == len(panels) - 1 or not across:
                here.set_xlabel(spec.x.label)
            if across and p == 0:
                n = max((q.n for q in inside), default=0)
                name = style.wrapped(
                    _facet_name(block, facet, facets), width / columns - 0.4, style.SMALL
                )
                style.heading(here, f"{name}\nn = {n:,}", style.SMALL)
    # limits and labels last: panels of one row share their axis
    for here in scores:
        if here.get_ylim()[1] > 102:  # no score is above 100
            here.set_ylim(top=102)
    for here, ends in to_label:
        style.label_ends(here, ends, height / rows)
    return figure


def _facet_name(block: str, facet: str, facets: Sequence[tuple[str, str]]) -> str:
    blocks = len({b for b, _ in facets}) > 1
    if not blocks:
        return facet
    return block if facet == ALL else f"{block}: {facet}"


def _panel(axes: Axes, spec: Lines, points: Sequence[LinePoint]) -> list[tuple[float, str, str]]:
    """Draw the curves of one panel; returns the last value, name and colour of each."""
    from eval.figures import style

    swept = [p for p in points if p.x is not None and p.value is not None]
    names = list(dict.fromkeys(p.line for p in points if p.x is not None))
    places = style.colour_of(names, spec.highlight)
    ends: list[tuple[float, str, str]] = []
    for i, name in enumerate(names):
        line = [p for p in swept if p.line == name]
        if line:
            shift = 0.12 * (i - (len(names) - 1) / 2)
            _curve(axes, spec, line, places[name], shift, len(names) > 3)
            ends.append((float(line[-1].value or 0.0), name, style.COLOURS[places[name]]))
    for p in points:
        if p.x is None and p.value is not None:
            axes.axhline(p.value, color=style.MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
            ends.append((p.value, p.line, style.MUTED))
    _x_axis(axes, spec.x, swept)
    axes.grid(axis="y")
    axes.margins(y=0.08)
    axes.yaxis.set_major_formatter(_number_text)
    if not swept:
        axes.text(0.5, 0.5, "no value", transform=axes.transAxes, ha="center", color=style.MUTED)
    _mark_chosen(axes, swept, spec.x.chosen_by)
    return ends


def _curve(
    axes: Axes, spec: Lines, line: Sequence[LinePoint], place: int, shift: float, many: bool
) -> None:
    """Draw one curve with its intervals: a band where curves are few, or it is the highlighted one.

    Marks that no line joins stand `shift` beside one another, so that their intervals stay apart.
    """
    from eval.figures import style

    colour, mark = style.COLOURS[place], style.MARKERS[place]
    strong = spec.highlight is not None and line[0].line.startswith(spec.highlight)
    dash = "-" if strong else style.DASHES[place % len(style.DASHES)]
    joined = spec.x.scale != "category"
    xs = [(p.x or 0.0) + (0.0 if joined else shift) for p in line]
    axes.plot(
        xs, [float(p.value or 0.0) for p in line], color=colour, marker=mark,
        linestyle=dash if joined else "none", linewidth=1.8 if strong else 1.2,
        zorder=4 if strong else 3, markeredgecolor="white", markeredgewidth=0.5,
    )  # fmt: skip
    known = [
        (x, p.low, p.high)
        for x, p in zip(xs, line, strict=True)
        if p.low is not None and p.high is not None
    ]
    if joined and (strong or not many):
        at, low, high = [x for x, _, _ in known], [y for _, y, _ in known], [y for _, _, y in known]
        axes.fill_between(at, low, high, color=colour, alpha=0.13, linewidth=0)
    elif not joined:
        for x, bottom, top in known:
            axes.plot([x, x], [bottom, top], color=colour, linewidth=0.9, zorder=2)


def _x_axis(axes: Axes, axis: Axis, swept: Sequence[LinePoint]) -> None:
    from matplotlib.ticker import NullLocator

    if axis.scale == "log":
        axes.set_xscale("log")
    ticks = {p.x: p.x_text for p in swept if p.x is not None}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    if axis.scale == "category" and ticks:
        axes.set_xlim(min(ticks) - 0.6, max(ticks) + 0.6)


def _number_text(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _mark_chosen(axes: Axes, swept: Sequence[LinePoint], by: str) -> None:
    from eval.figures import style

    chosen = next((p for p in swept if p.chosen), None)
    if chosen is None or chosen.x is None:
        return
    axes.axvline(chosen.x, color=style.MUTED, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=1)
    axes.annotate(
        by, (chosen.x, 1), xycoords=("data", "axes fraction"), xytext=(2, -1),
        textcoords="offset points", size=style.SMALL - 0.5, color=style.MUTED, va="top",
    )  # fmt: skip
