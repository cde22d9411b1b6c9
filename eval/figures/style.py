"""How all figures look: palette, page, title and footer; and how they are saved, byte for byte.

Colours are Okabe and Ito's, told apart by colour-blind readers; marks and dashes differ as well.
matplotlib is imported only when something is drawn.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.figures.data import Point
from eval.tables.level import REPRODUCTIONS
from memsys.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, WARNING = "#1a1a1a", "#666666", "#e2e2e2", "#B03A00"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#C98A00", "#56B4E9", "#7A4A1E", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
NARROW, WIDE = 3.5, 7.0
"""Widths in inches of one and of two columns of a paper."""
SMALL, TEXT, TITLE = 6.5, 7.5, 9.0
_NO_REPRODUCTION = {"cut": "a cut of the data", "sample": "synthetic data of ours"}
_PARAMETERS = {
    "font.family": ["DejaVu Sans"],
    "font.size": TEXT,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "white",
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "memsys",
    "path.simplify": False,
    "mathtext.default": "regular",
}


@dataclass(frozen=True)
class Caption:
    """The words around a drawing: a title, a warning where it is no reproduction, a footer."""

    title: str
    warning: str
    footer: tuple[str, ...]


def caption(
    title: str, profile: str, points: Sequence[Point], notes: Sequence[str] = ()
) -> Caption:
    """Say what a frame is of: profile, level, number of questions, and how its setting differs."""
    drawn = [p for p in points if p.run]
    levels = list(dict.fromkeys(p.level for p in drawn if p.level))
    cuts = [_NO_REPRODUCTION[level] for level in levels if level in _NO_REPRODUCTION]
    warning = f"No reproduction: {' and '.join(cuts)}" if cuts else ""
    if not warning and levels and not set(levels) & set(REPRODUCTIONS):
        warning = "Not the paper's models"
    counts = sorted({p.n for p in drawn if p.n})
    span = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"
    blocks = list(dict.fromkeys(p.block for p in drawn))
    said = [f"{'; '.join(blocks)}. Profile {profile}; level: {', '.join(levels) or 'none'}"]
    if counts:
        failed = max(p.failed for p in drawn)
        said.append(f"n = {span} questions{f', up to {failed} failed' if failed else ''}")
    apart = dict.fromkeys(d for p in drawn for d in p.differences.split("; ") if d)
    footer = ["; ".join(said) + "."]
    if apart:
        footer.append(f"Differs from the paper: {'; '.join(apart)}.")
    missing = reasons([p for p in points if not p.run])
    if missing:
        footer.append(f"Left out: {'; '.join(missing)}.")
    return Caption(title, warning, (*footer, *notes))


def reasons(points: Sequence[Point]) -> list[str]:
    """Say why points have no value: each reason once, after the systems that it is of."""
    found: dict[str, dict[str, None]] = {}
    for point in points:
        if point.reason:
            found.setdefault(point.reason, {})[point.system] = None
    return [f"{', '.join(systems)}: {reason}" for reason, systems in found.items()]


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style; raises `UserError` where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise UserError(
            'Figures are drawn with matplotlib, which is not installed: pip install -e ".[plots]". '
            "Without it, their data are written all the same with --no-draw."
        ) from error
    with matplotlib.rc_context(_PARAMETERS):  # type: ignore[arg-type]
        yield


def page(
    words: Caption, width: float, height: float, handles: Sequence[Any] = (), columns: int = 1
) -> Figure:
    """Return a figure of `height` inches to draw in, with the words above and below it.

    `handles` make a legend of `columns` columns under the title.
    """
    from matplotlib.figure import Figure

    title = wrapped(words.title, width, TITLE, bold=True)
    footer = "\n".join(wrapped(line, width, SMALL - 1) for line in words.footer)
    named = 0.08 + _lines(title, TITLE) + (_lines("x", TEXT) if words.warning else 0)
    legend = _lines("x", SMALL + 1) * -(-len(handles) // columns) + 0.06 if handles else 0
    above = named + legend + 0.06
    below = 0.06 + _lines(footer, SMALL - 1) + 0.04
    whole = above + height + below
    figure = Figure(figsize=(width, whole), layout="constrained")
    figure.get_layout_engine().set(  # type: ignore[union-attr]
        rect=(0.0, below / whole, 1.0, height / whole), w_pad=0.04, h_pad=0.03  # type: ignore[call-arg]
    )  # fmt: skip
    edge = 0.07 / width
    y = 1 - 0.08 / whole
    figure.text(edge, y, title, size=TITLE, weight="bold", va="top", linespacing=1.25)
    if words.warning:
        figure.text(
            edge, y - _lines(title, TITLE) / whole, words.warning,
            size=TEXT, weight="bold", color=WARNING, va="top",
        )  # fmt: skip
    if handles:
        figure.legend(
            handles=list(handles), loc="upper left", bbox_to_anchor=(0.0, 1 - named / whole),
            ncols=columns, frameon=False, fontsize=SMALL, borderpad=0.3, labelspacing=0.35,
            handlelength=2.4, columnspacing=1.4,
        ).set_in_layout(False)  # fmt: skip
    figure.text(
        edge, 0.04 / whole, footer, size=SMALL - 1, color=MUTED, va="bottom", linespacing=1.25
    )
    return figure


def grid(figure: Figure, rows: int, columns: int, **options: Any) -> list[list[Axes]]:
    """Return `rows` × `columns` axes."""
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return [list(row) for row in axes]


def heading(axes: Axes, text: str, size: float = TEXT) -> None:
    """Put a panel's name above it, at the left."""
    axes.set_title(text, loc="left", size=size, weight="bold", pad=5)


def colour_of(names: Sequence[str], highlight: str | None) -> dict[str, int]:
    """Return each name's place in the palette; the highlighted one is always vermilion."""
    strong = next((n for n in names if highlight and n.startswith(highlight)), None)
    others = [place for place in range(len(COLOURS)) if place != 1 or strong is None]
    rest = [name for name in names if name != strong]
    found = {name: others[i % len(others)] for i, name in enumerate(rest)}
    return found if strong is None else {**found, strong: 1}


def name_rows(axes: Axes, names: Sequence[str], highlight: str | None) -> None:
    """Name the rows 0, −1, … of a drawing of systems; the highlighted one in bold."""
    axes.set_yticks([-i for i in range(len(names))], list(names))
    axes.tick_params(axis="y", length=0)
    for label in axes.get_yticklabels():
        if highlight is not None and label.get_text() == highlight:
            label.set_fontweight("bold")


def axis_label(text: str, inches: float) -> str:
    """Break an axis label so that it fits beside or under an axis of this length."""
    return "\n".join(textwrap.wrap(text, max(8, int(inches * 72 / (0.6 * TEXT)))))


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], inches: float) -> None:
    """Name each curve at its right end, in its colour, moved apart where they would touch."""
    low, high = axes.get_ylim()
    gap = (high - low) * SMALL * 1.15 / 72 / (inches - 0.65)
    places = spread([y for y, _, _ in ends], gap, low, high)
    for (_, name, colour), y in zip(ends, places, strict=True):
        axes.annotate(
            name, (1, y), xycoords=("axes fraction", "data"), xytext=(4, 0),
            textcoords="offset points", size=SMALL, color=colour, va="center",
            annotation_clip=False,
        )  # fmt: skip


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move label positions as little as needed to be `gap` apart and inside [low, high].

    Where there is no room for all, they stand evenly.
    """
    n = len(wanted)
    if not n:
        return []
    gap = min(gap, (high - low) / max(n - 1, 1))
    order = sorted(range(n), key=lambda i: (wanted[i], i))
    found = [0.0] * n
    # blocks of touching labels, each centred on where its labels want to be
    blocks: list[list[float]] = []  # [sum of (wanted − offset), number]
    for i in order:
        blocks.append([wanted[i], 1])
        while len(blocks) > 1 and _start(blocks[-1], gap) < _end(blocks[-2], gap) + gap:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    position = iter(order)
    for total, count in blocks:
        first = _start([total, count], gap)
        for k in range(int(count)):
            found[next(position)] = first + k * gap
    for places, sign, limit in ((order, 1, low), (order[::-1], -1, -high)):
        bound = limit  # push inwards from either end
        for i in places:
            found[i] = sign * max(sign * found[i], bound)
            bound = sign * found[i] + gap
    return found


def _start(block: list[float], gap: float) -> float:
    return block[0] / block[1] - gap * (block[1] - 1) / 2


def _end(block: list[float], gap: float) -> float:
    return block[0] / block[1] + gap * (block[1] - 1) / 2


def saved(figure: Figure, kind: str) -> bytes:
    """Return the figure as `svg` or `png`; equal figures give equal bytes."""
    out = io.BytesIO()
    if kind == "svg":
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "memsys"})
        # text stays text: name a second font of the same widths for machines without the first
        return out.getvalue().replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif")
    figure.savefig(out, format="png", dpi=200, metadata={"Software": "memsys"})
    return out.getvalue()


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Break a text into lines that fit `width` inches at `size` points."""
    letter = (0.65 if bold else 0.565) * size  # DejaVu Sans, on average
    return "\n".join(textwrap.wrap(text, max(20, int((width - 0.14) * 72 / letter))))


def _lines(text: str, size: float) -> float:
    """Return the height of a text in inches."""
    return (text.count("\n") + 1) * size * 1.32 / 72
