"""How much memory context answers each question: one distribution a system (MGRetrieval Fig. 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eval.figures.data import Point, RunData, source
from eval.figures.spec import FEW, Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eval.figures.style import Caption

BINS_A_DECADE = 16


@dataclass(frozen=True, kw_only=True)
class LengthPoint(Point):
    """The context of one answered question, in tokens.

    `tokens` is the sum over rounds, which is what is drawn; `rounds` is how many there were,
    `by_round` and `largest` are the tokens of each and of the largest, where the system's trace
    has them. A system without a run has one point without `tokens`.
    """

    conversation: str
    index: int | None
    category: str
    tokens: int | None
    rounds: int | None
    by_round: str
    largest: int | None


def frame(spec: Distribution, runs: Sequence[RunData]) -> list[LengthPoint]:
    """Return every answered question's context length, by block, system and question."""
    points: list[LengthPoint] = []
    for data in runs:
        where = source(data)
        answered = [r for r in data.records if not r["error"] and r["answer"] is not None]
        if not answered:
            where["reason"] = data.reason or "no question was answered"
            points.append(
                LengthPoint(
                    **where, conversation="", index=None, category="", tokens=None, rounds=None,
                    by_round="", largest=None,
                )
            )  # fmt: skip
        for record in answered:
            rounds = record["trace"].get("rounds")
            steps = [
                step["memory_tokens"]
                for step in (rounds if isinstance(rounds, list) else ())
                if isinstance(step, dict) and "memory_tokens" in step
            ]
            points.append(
                LengthPoint(
                    **where, n=len(answered), conversation=record["conversation"],
                    index=record["index"], category=str(record["category"]),
                    tokens=record["context_tokens"], rounds=record["rounds"],
                    by_round=" ".join(str(step) for step in steps),
                    largest=max(steps) if steps else record["context_tokens"],
                )
            )  # fmt: skip
    return points


def edges(tokens: Sequence[int]) -> list[float]:
    """Return equal steps of the logarithm that hold all positive lengths; the same everywhere."""
    known = [t for t in tokens if t > 0] or [1]
    first = math.floor(math.log10(min(known)) * BINS_A_DECADE)
    last = math.floor(math.log10(max(known)) * BINS_A_DECADE) + 1
    return [10 ** (i / BINS_A_DECADE) for i in range(first, last + 1)]


def draw(spec: Distribution, points: Sequence[LengthPoint], words: Caption) -> Figure:
    """Draw one histogram a system over a shared logarithmic axis, medians named."""
    from eval.figures import style

    blocks = list(dict.fromkeys(p.block for p in points))
    systems = list(dict.fromkeys(p.system for p in points if p.tokens is not None))
    columns = len(blocks)
    width = style.WIDE if columns > 1 else style.NARROW + 0.9
    figure = style.page(words, width, 0.38 * len(systems) + 0.75)
    axes = style.grid(figure, 1, columns, sharey=True)[0]
    limits = edges([p.tokens for p in points if p.tokens is not None])
    for block, here in zip(blocks, axes, strict=True):
        for i, system in enumerate(systems):
            found = [p.tokens for p in points if (p.block, p.system) == (block, system)]
            tokens = [t for t in found if t is not None]
            # the y axis counts systems downwards
            here.axhline(-i, color=style.GRID, linewidth=0.5, zorder=0)
            _ridge(here, tokens, -i, limits, style.COLOURS[0], system == spec.highlight)
        here.set_xscale("log")
        here.set_xlim(limits[0] * 0.9, limits[-1] * 1.1)
        here.set_yticks([-i + 0.08 for i in range(len(systems))], systems)
        here.set_ylim(-len(systems) + 0.75, 1.0)
        here.tick_params(axis="y", length=0)
        here.spines["left"].set_visible(False)
        here.grid(axis="x")
        here.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        here.set_xlabel(spec.label)
        if columns > 1:
            style.heading(here, style.wrapped(block, width / columns - 0.9, style.TEXT))
    return figure


def _ridge(
    axes: Axes, tokens: Sequence[int], base: float, limits: Sequence[float], colour: str,
    strong: bool,
) -> None:  # fmt: skip
    from eval.figures import style

    if not tokens:
        return
    shade = style.COLOURS[1] if strong else colour
    if len(tokens) < FEW:  # too few for a histogram: every question is a mark
        axes.plot(
            tokens, [base + 0.08] * len(tokens), "o", color=shade, alpha=0.75, markersize=3.5,
            markeredgewidth=0,
        )  # fmt: skip
    else:
        heights = np.histogram([max(t, limits[0]) for t in tokens], limits)[0].astype(float)
        heights *= 0.82 / heights.max()
        axes.stairs(
            base + heights, list(limits), baseline=base, fill=True, color=shade, alpha=0.75,
            linewidth=0,
        )  # fmt: skip
    middle = float(np.median(tokens))
    axes.plot([middle, middle], [base, base + 0.3], color=style.INK, linewidth=1.2)
    axes.annotate(
        f"median {middle:,.0f}", (1, base + 0.08), xycoords=("axes fraction", "data"),
        xytext=(3, 0), textcoords="offset points", size=style.SMALL, va="center",
        color=style.INK, weight="bold" if strong else "normal", annotation_clip=False,
    )  # fmt: skip
