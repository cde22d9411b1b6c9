"""Scores by type of question, one spoke a type (MemGAS Figs. 3 and 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.figures.data import Point, RunData, hundredfold, source
from eval.figures.spec import FEW, Radar
from eval.measures.registry import parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eval.figures.style import Caption


@dataclass(frozen=True, kw_only=True)
class Spoke(Point):
    """One system's mean for one type of question, ×100; `few` where too few questions carry it."""

    measure: str
    heading: str
    definition: str
    category: str
    name: str
    few: bool
    value: float | None
    low: float | None
    high: float | None


def frame(
    spec: Radar, runs: Sequence[RunData], category_names: Callable[[str], Mapping[str, str]]
) -> list[Spoke]:
    """Compute each system's mean by type of question, types in the benchmark's order."""
    spokes: list[Spoke] = []
    for data in runs:
        names = category_names(data.block.dataset)
        for measure in spec.measures:
            scored: Any = data.reason or data.scored(measure)
            if isinstance(scored, str):
                where = {**source(data), "reason": scored}
                spokes.append(_spoke(where, measure, "", "", 0, (None, None, None)))
                continue
            for code, name in names.items():
                at = [i for i, item in enumerate(data.items) if item.category == code]
                if at:
                    found = scored.aggregate(at)
                    where = {**source(data), "failed": found.n_failed}
                    if found.mean is None:
                        where["reason"] = "no question counts"
                    spokes.append(_spoke(where, measure, code, name, found.n, hundredfold(found)))
    return spokes


def _spoke(
    where: Mapping[str, Any], measure: str, code: str, name: str, n: int,
    values: tuple[float | None, float | None, float | None],
) -> Spoke:  # fmt: skip
    value, low, high = values
    made = parse(measure)
    return Spoke(
        **where, n=n, measure=measure, heading=made.label, definition=made.title, category=code,
        name=name, few=bool(name) and n < FEW, value=value, low=low, high=high,
    )  # fmt: skip


def draw(spec: Radar, spokes: Sequence[Spoke], words: Caption) -> Figure:
    """Draw one radar a block and measure; where there are fewer than three types, marks in rows."""
    from matplotlib.lines import Line2D

    from eval.figures import style

    panels = list(dict.fromkeys((s.block, s.measure) for s in spokes if s.value is not None))
    systems = list(dict.fromkeys(s.system for s in spokes if s.value is not None))
    looks = _looks(systems, spec.highlight)
    columns = min(len(panels), 2)
    rows = math.ceil(len(panels) / columns)
    most = max(len({s.name for s in spokes if (s.block, s.measure) == panel}) for panel in panels)
    figure = style.page(
        words,
        style.WIDE if columns > 1 else style.NARROW + 0.9,
        rows * (2.75 if most >= 3 else 0.5 * most + 0.6),
        [Line2D([], [], label=system, **looks[system]) for system in systems],
        7 if columns > 1 else 4,
    )
    for i, (block, measure) in enumerate(panels):
        inside = [s for s in spokes if (s.block, s.measure) == (block, measure) and s.name]
        types = list(dict.fromkeys(s.name for s in inside))
        polar = len(types) >= 3
        axes = figure.add_subplot(rows, columns, i + 1, projection="polar" if polar else None)
        (_polar if polar else _marks)(axes, inside, types, looks)
        heading = inside[0].heading
        blocks = {b for b, _ in panels}
        name = heading if len(blocks) == 1 else f"{heading}: {block}"
        style.heading(axes, style.wrapped(name, style.NARROW - 0.6, style.TEXT))
    return figure


def _looks(systems: Sequence[str], highlight: str | None) -> dict[str, dict[str, Any]]:
    from eval.figures import style

    found = {}
    for system, place in style.colour_of(systems, highlight).items():
        strong = system == highlight
        found[system] = {
            "color": style.COLOURS[place],
            "marker": style.MARKERS[place],
            "linestyle": "-" if strong else style.DASHES[place % len(style.DASHES)],
            "linewidth": 1.9 if strong else 1.0,
            "markersize": 4.2 if strong else 3.6,
            "markeredgecolor": "white",
            "markeredgewidth": 0.3,
            "zorder": 5 if strong else 3,
        }
    return found


def _name(spokes: Sequence[Spoke], name: str) -> str:
    n = max(s.n for s in spokes if s.name == name)
    few = any(s.few for s in spokes if s.name == name)
    return f"{name.replace(' (', chr(10) + '(')}\nn = {n:,}{' – few!' if few else ''}"


def _polar(
    axes: Any, spokes: Sequence[Spoke], types: Sequence[str], looks: Mapping[str, dict[str, Any]]
) -> None:
    from eval.figures import style

    angles = [2 * math.pi * i / len(types) for i in range(len(types))]
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    for system, look in looks.items():
        value = {s.name: s.value for s in spokes if s.system == system}
        known = [(a, value.get(t)) for a, t in zip(angles, types, strict=True)]
        found = [(a, v) for a, v in known if v is not None]
        if found:  # a ring is closed only where no type is missing
            ring = [*found, found[0]] if len(found) == len(types) else found
            axes.plot(*zip(*ring, strict=True), **look)
    axes.set_xticks(angles, [_name(spokes, t) for t in types], size=style.SMALL)
    for label, angle in zip(axes.get_xticklabels(), angles, strict=True):
        side = math.sin(angle)
        label.set_horizontalalignment(
            "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
        )
    axes.tick_params(axis="x", pad=1)
    axes.set_ylim(0, (max((s.value or 0.0 for s in spokes), default=1.0) or 1.0) * 1.08)
    axes.set_rlabel_position(180 / len(types))
    axes.yaxis.set_major_locator(_few_rings())
    axes.tick_params(axis="y", labelsize=style.SMALL - 1, labelcolor=style.MUTED)
    axes.spines["polar"].set_visible(False)


def _few_rings() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4, prune="lower")


def _marks(
    axes: Axes, spokes: Sequence[Spoke], types: Sequence[str], looks: Mapping[str, dict[str, Any]]
) -> None:
    for j, (system, look) in enumerate(looks.items()):
        shift = 0.6 * ((j + 0.5) / len(looks) - 0.5)
        for s in spokes:
            if s.system == system and s.value is not None:
                axes.plot(s.value, -types.index(s.name) - shift, **look)
    axes.set_yticks([-i for i in range(len(types))], [_name(spokes, t) for t in types])
    axes.set_ylim(-len(types) + 0.4, 0.6)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.grid(axis="x")
