"""From a figure's name to its files: runs → frame → CSV, SVG and PNG."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.config import ROOT
from eval.figures import bars, distribution, lines, matrix, radar
from eval.figures.data import Point, RunData, columns_of, gather
from eval.figures.spec import (
    Bars,
    Distribution,
    FigureSpec,
    Lines,
    Matrix,
    Radar,
    load_figure,
    table_of,
)
from eval.figures.style import caption, saved, styled
from eval.tables.reproduce import FindsRuns
from memsys.datasets.configured import configured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTES: Mapping[str, str] = {
    "lines": "Bands and bars: 95 % intervals of each mean, clustered by conversation; every x has "
    "the same questions.",
    "distribution": "Tokens are summed over a question's rounds; each histogram is scaled to its "
    "own height.",
    "bars": "Lines: 95 % intervals, clustered by conversation. The hatched bar is no method: it "
    "is chosen with the gold.",
    "radar": "Intervals are in the CSV. few!: fewer than 30 questions.",
    "matrix": "Retrieved: all gold sessions among the first K of the ranking, K as the system "
    "answers from (in the CSV); questions without gold sessions count as not retrieved. "
    "†: a control row of ours.",
}


@dataclass(frozen=True)
class Made:
    """A figure's frame and the files that were written; `undrawn` says why there is no drawing."""

    name: str
    points: Sequence[Point]
    written: Sequence[Path]
    undrawn: str = ""


async def make_figure(
    name: str, profile: str, extra: Sequence[str], runs: FindsRuns, folder: Path, *,
    draw: bool = True,
) -> Made:  # fmt: skip
    """Make or find a figure's runs and write `<name>-<profile>.*` into `folder`."""
    spec = load_figure(name)
    data = await gather(spec, profile, extra, runs, ROOT)
    return write_figure(name, spec, profile, data, folder, draw=draw)


def write_figure(
    name: str, spec: FigureSpec, profile: str, data: Sequence[RunData], folder: Path, *,
    draw: bool = True,
) -> Made:  # fmt: skip
    """Write a figure's CSV and, if it has any value, its SVG and PNG.

    Equal runs give equal bytes. Drawings of an earlier time are removed where there is nothing to
    draw, so that no picture outlives its data. Raises `UserError` without matplotlib.
    """
    points = frame_of(spec, data)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{profile}"
    table = folder / f"{stem}.csv"
    table.write_text(comma_separated(points), encoding="utf-8")
    pictures = [folder / f"{stem}.{kind}" for kind in ("svg", "png")]
    undrawn = "" if draw else "as asked"
    if draw and all(_value(point) is None for point in points):
        reasons = dict.fromkeys(point.reason for point in points if point.reason)
        undrawn = "; ".join(reasons) or "there is no value"
    if undrawn:
        for path in pictures:
            path.unlink(missing_ok=True)
        return Made(name, points, [table], undrawn)
    with styled():
        figure = drawn(spec, profile, points)
        for path in pictures:
            path.write_bytes(saved(figure, path.suffix[1:]))
    return Made(name, points, [table, *pictures])


def frame_of(spec: FigureSpec, data: Sequence[RunData]) -> Sequence[Point]:
    """Return the numbers of a figure."""
    match spec:
        case Lines():
            return lines.frame(spec, data, table_of(spec), category_names)
        case Distribution():
            return distribution.frame(spec, data)
        case Bars():
            return bars.frame(spec, data)
        case Radar():
            return radar.frame(spec, data, category_names)
        case Matrix():
            return matrix.frame(spec, data)


def drawn(spec: FigureSpec, profile: str, points: Sequence[Any]) -> Figure:
    """Draw a frame; call it inside `styled()`."""
    words = caption(spec.title, profile, points, (_NOTES[spec.kind], *spec.notes))
    match spec:
        case Lines():
            return lines.draw(spec, points, words)
        case Distribution():
            return distribution.draw(spec, points, words)
        case Bars():
            return bars.draw(spec, points, words)
        case Radar():
            return radar.draw(spec, points, words)
        case Matrix():
            return matrix.draw(spec, points, words)


def category_names(dataset: str) -> Mapping[str, str]:
    """Return a dataset's types of question by their codes."""
    return configured(dataset).CATEGORY_NAMES


def comma_separated(points: Sequence[Point]) -> str:
    """Return a frame as CSV, one point a row; numbers to six decimals."""
    out = io.StringIO()
    columns = columns_of(points)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for point in points:
        writer.writerow([_cell(getattr(point, column)) for column in columns])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _value(point: Any) -> Any:
    return getattr(point, "tokens", None) if hasattr(point, "tokens") else point.value
