"""Retrieval right or wrong × answer right or wrong, for every system (MemGAS Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.figures.data import Point, RunData, source
from eval.figures.spec import Matrix
from eval.measures.item import Item
from eval.measures.recall_all import RecallAll
from eval.statistics import clustered_mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eval.figures.style import Caption

BOTH, GENERATION, RETRIEVAL, NEITHER = (
    "retrieved, answered right",
    "not retrieved, answered right",
    "retrieved, answered wrong",
    "not retrieved, answered wrong",
)
CASES = (BOTH, GENERATION, RETRIEVAL, NEITHER)
RIGHT, WRONG = "answered right (no ranking)", "answered wrong (no ranking)"


@dataclass(frozen=True, kw_only=True)
class Share(Point):
    """The share of questions (in per cent of `n`) of one case, for one system.

    `k` is the cutoff of "retrieved", `without_gold` how many questions of this case have no gold
    sessions (they count as not retrieved), `unjudged` how many have no verdict and are left out,
    `published` what the paper states.
    """

    ours: bool
    outcome: str
    k: int | None
    questions: int | None
    without_gold: int | None
    unjudged: int
    value: float | None
    low: float | None
    high: float | None
    published: float | None


def frame(spec: Matrix, runs: Sequence[RunData]) -> list[Share]:
    """Count the cases of every row. A system that ranks no session has the answer's axis alone.

    Questions without gold sessions count as not retrieved: MemGAS's shares on LongMemEval-s are
    over 500 questions, 369 of them retrieved, which are the 369 of 470 behind its Recall@3.
    """
    shares: list[Share] = []
    for data in runs:
        verdicts: Any = data.reason or data.scored(spec.judge)
        if isinstance(verdicts, str):
            shares.append(_missing(data, verdicts))
            continue
        judged = [i for i, value in enumerate(verdicts.values) if value is not None]
        unjudged = len(data.items) - data.failed - len(judged)
        if not judged:
            shares.append(_missing(data, "no answer was judged"))
            continue
        k: int | None = cutoff(data.manifest, spec.k)
        if all(data.records[i]["trace"].get("control") for i in judged):
            k = None  # a control that is shown the evidence reads all that it ranks first
        found = _retrieved([data.items[i] for i in judged], k)
        # repeated verdicts may have a mean between wrong and right: the majority counts
        right = [verdicts.values[i] > 0.5 for i in judged]
        clusters = [data.items[i].conversation for i in judged]
        gold = [data.items[i].has_evidence for i in judged]
        if found is None:
            cases = [RIGHT if ok else WRONG for ok in right]
        else:
            cases = [_case(got, ok) for got, ok in zip(found, right, strict=True)]
        for outcome in (RIGHT, WRONG) if found is None else CASES:
            inside = [case == outcome for case in cases]
            interval = clustered_mean_interval([float(x) for x in inside], clusters)
            low, high = interval.low, interval.high
            shares.append(
                Share(
                    **source(data), n=len(judged), ours=data.row.ours, outcome=outcome,
                    k=k if found is not None else None, questions=sum(inside),
                    without_gold=sum(x and not g for x, g in zip(inside, gold, strict=True)),
                    unjudged=unjudged, value=100 * interval.mean,
                    low=None if low is None else 100 * max(0.0, low),
                    high=None if high is None else 100 * min(1.0, high),
                    published=_stated(spec, data, outcome),
                )
            )  # fmt: skip
    return shares


def cutoff(manifest: Mapping[str, Any], default: int) -> int:
    """Return the K that the system answers from: its own `top_k`, or `default`."""
    ask = manifest["configuration"]["method"].get("ask") or {}
    own = ask.get("top_k")
    return own if isinstance(own, int) and not isinstance(own, bool) and own > 0 else default


def _retrieved(items: Sequence[Item], k: int | None) -> list[bool] | None:
    """Say for each item whether all gold sessions are in the first `k`; `None` without rankings.

    Without `k` as many sessions were read as are gold.
    """
    if all(item.ranked_sessions is None for item in items):
        return None
    if k is None:
        return [
            bool(gold := set(i.evidence_sessions or ()))
            and set((i.ranked_sessions or ())[: len(gold)]) == gold
            for i in items
        ]
    return [value == 1 for value in RecallAll(k).per_item(items)]


def _case(retrieved: bool, right: bool) -> str:
    return (BOTH if right else RETRIEVAL) if retrieved else (GENERATION if right else NEITHER)


def _stated(spec: Matrix, data: RunData, outcome: str) -> float | None:
    key = (data.block.dataset, data.row.label, outcome)
    return next((s.value for s in spec.stated if (s.dataset, s.row, s.outcome) == key), None)


def _missing(data: RunData, reason: str) -> Share:
    return Share(
        **{**source(data), "reason": reason}, ours=data.row.ours, outcome="", k=None,
        questions=None, without_gold=None, unjudged=0, value=None, low=None, high=None,
        published=None,
    )  # fmt: skip


def draw(spec: Matrix, shares: Sequence[Share], words: Caption) -> Figure:
    """Draw one stacked bar a system: answered right in blue, wrong in orange, dark if retrieved."""
    from matplotlib.patches import Patch

    from eval.figures import style

    colours = {
        BOTH: "#0072B2", GENERATION: "#8CC4E8", RETRIEVAL: "#F2B183", NEITHER: "#D55E00",
        RIGHT: "#8CC4E8", WRONG: "#F2B183",
    }  # fmt: skip
    drawn = [s for s in shares if s.value is not None]
    blocks = list(dict.fromkeys(s.block for s in drawn))
    systems = {b: list(dict.fromkeys(s.system for s in drawn if s.block == b)) for b in blocks}
    tall = sum(0.22 * len(systems[b]) + 0.4 for b in blocks)
    handles = [Patch(facecolor=colours[c], label=c) for c in CASES]
    if any(s.outcome in (RIGHT, WRONG) for s in drawn):
        handles.append(
            Patch(facecolor="white", edgecolor=style.MUTED, hatch="////", label="ranks no sessions")
        )
    figure = style.page(words, style.WIDE, tall + 0.45, handles, 3)
    ratios = [len(systems[b]) + 1.5 for b in blocks]
    axes = style.grid(figure, len(blocks), 1, sharex=True, height_ratios=ratios)
    for block, (here,) in zip(blocks, axes, strict=True):
        _bars(here, [s for s in drawn if s.block == block], systems[block], colours, spec.highlight)
        if len(blocks) > 1:
            style.heading(here, block)
    axes[-1][0].set_xlabel("share of the judged questions, %")
    return figure


def _bars(
    axes: Axes, shares: Sequence[Share], systems: Sequence[str], colours: Mapping[str, str],
    highlight: str | None,
) -> None:  # fmt: skip
    from eval.figures import style

    for i, system in enumerate(systems):
        left = 0.0
        for s in (s for s in shares if s.system == system):
            value = s.value or 0.0
            hatched = s.outcome in (RIGHT, WRONG)
            axes.barh(
                -i, value, left=left, height=0.74, color=colours[s.outcome],
                hatch="////" if hatched else None, edgecolor="white", linewidth=0.7,
            )  # fmt: skip
            if value >= 6:
                dark = s.outcome in (BOTH, NEITHER)
                axes.text(
                    left + value / 2, -i, f"{value:.0f}", ha="center", va="center",
                    size=style.SMALL, color="white" if dark else style.INK,
                    bbox={"facecolor": colours[s.outcome], "edgecolor": "none", "pad": 0.8},
                )  # fmt: skip
            left += value
    marked = {s.system for s in shares if s.ours}
    names = [f"{name} †" if name in marked else name for name in systems]
    style.name_rows(axes, names, highlight)
    axes.set_xlim(0, 100)
    axes.set_ylim(-len(systems) + 0.45, 0.55)
    axes.spines["left"].set_visible(False)
