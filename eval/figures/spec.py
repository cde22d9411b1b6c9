"""What a figure is: a kind of drawing, and the table whose rows and blocks it draws.

`configs/figure/NAME.yaml` describes one. Systems, datasets and models stand in a table
(`configs/table`), so that a figure and its table always come from the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from eval.config import CONFIGS
from eval.tables.spec import Row, TableSpec, load_table
from memsys.errors import UserError, suggest
from memsys.settings import Settings

FIGURES = CONFIGS / "figure"
FEW = 30
"""Means of fewer questions than this are flagged: one question moves them by more than 3 points."""


class FigureBase(Settings):
    """What all figures have.

    `table` names the table whose runs are drawn. Of it, `rows` picks rows by label (all if empty),
    in this order, `datasets` picks blocks by dataset, `stages` picks them by what was run;
    `extra_rows` adds rows that the table lacks. `highlight` is the label of the system that the
    figure is about. `number` is the figure's number in the paper.
    """

    title: str
    paper: Literal["memgas", "mgretrieval", "ours"]
    number: str | None = None
    table: str
    rows: tuple[str, ...] = ()
    extra_rows: tuple[Row, ...] = ()
    datasets: tuple[str, ...] = ()
    stages: tuple[Literal["retrieve", "answer"], ...] = ()
    highlight: str | None = None
    notes: tuple[str, ...] = ()


class Axis(Settings):
    """The x axis of a sweep, read from the labels of the table's rows, or from its columns.

    `pattern` is searched in each label: its group `x` is the value, its group `series`, if it has
    one, the curve (`unnamed` where the group is empty), its group `panel` the column of panels. A
    label without a match is no point of the sweep. With `source="columns"` the headings of the
    columns are searched, and each row is a curve. `ticks` gives a matched text its number
    (`all: 200`). On an `ordinal` scale values stand evenly spaced in the table's order; on a
    `category` scale they are not joined by lines.
    `chosen` is the value that `chosen_by` uses.
    """

    label: str
    source: Literal["rows", "columns"] = "rows"
    pattern: str = r"(?P<x>[-+]?\d+(?:\.\d+)?)"
    unnamed: str = ""
    ticks: Mapping[str, float] = {}
    scale: Literal["linear", "log", "ordinal", "category"] = "linear"
    chosen: float | str | None = None
    chosen_by: str = "paper"


class Panel(Settings):
    """One y axis: columns of the table by their heading, or costs of answering a question.

    `costs` maps a cost of phase `question` (`eval.costs`) to what its curve is called. Scores are
    ×100. Costs never share an axis with scores.
    """

    label: str
    columns: tuple[str, ...] = ()
    costs: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _check(self) -> Panel:
        if bool(self.columns) == bool(self.costs):
            raise ValueError(f"panel '{self.label}' needs columns or costs, and never both.")
        return self


class Lines(FigureBase):
    """A sweep: scores, and costs in panels of their own, over one setting.

    `by="category"` draws each type of question in a column of its own. `references` are rows
    drawn as horizontal lines.
    """

    kind: Literal["lines"]
    x: Axis
    panels: tuple[Panel, ...] = Field(min_length=1)
    by: Literal["category"] | None = None
    references: tuple[str, ...] = ()


class Distribution(FigureBase):
    """How long the context is that answers each question, one row a system."""

    kind: Literal["distribution"]
    label: str


class Bars(FigureBase):
    """Scores of alternatives, beside the best of them for each question: an oracle's choice."""

    kind: Literal["bars"]
    measures: tuple[str, ...] = Field(min_length=1)
    best_of: tuple[str, ...] = Field(min_length=2)
    best_label: str


class Radar(FigureBase):
    """Scores by type of question, one spoke a type; types of few questions are flagged."""

    kind: Literal["radar"]
    measures: tuple[str, ...] = Field(min_length=1)


class Stated(Settings):
    """A share that the paper's text states, in per cent."""

    dataset: str
    row: str
    outcome: str
    value: float


class Matrix(FigureBase):
    """Was the evidence retrieved, and was the answer judged right: shares of the four cases.

    Retrieved means all gold sessions among the first K of the system's ranking, where K is its own
    `top_k`, or `k` if it has none: what the answering model could read.
    """

    kind: Literal["matrix"]
    judge: str
    k: int = Field(3, ge=1)  # MemGAS §3.1
    stated: tuple[Stated, ...] = ()


FigureSpec = Lines | Distribution | Bars | Radar | Matrix
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Annotated[FigureSpec, Field(discriminator="kind")])


def load_figure(name: str) -> FigureSpec:
    """Read `configs/figure/<name>.yaml`; raises `UserError`."""
    path = FIGURES / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"There is no figure '{name}'.{suggest(name, figure_names())}")
    return parse_figure(path.read_text(encoding="utf-8"), str(path.relative_to(CONFIGS.parent)))


def parse_figure(text: str, where: str) -> FigureSpec:
    """Read a figure's description; `where` is its place, for messages. Raises `UserError`."""
    try:
        spec: FigureSpec = _ADAPTER.validate_python(yaml.safe_load(text))
    except (ValidationError, yaml.YAMLError) as error:
        raise UserError(f"{where} is not a figure: {error}") from error
    return spec


def figure_names() -> list[str]:
    """Return the names of all figures."""
    return sorted(path.stem for path in FIGURES.glob("*.yaml"))


def find_figures(paper: str, number: str | None) -> list[str]:
    """Return a paper's figures, all of them or those of one number (`1` finds `1a` too)."""
    of_paper = {n: spec for n in figure_names() if (spec := load_figure(n)).paper == paper}
    if not of_paper:
        papers = {load_figure(n).paper for n in figure_names()}
        raise UserError(f"PAPER={paper} is not known.{suggest(paper, papers)}")
    found = [n for n, spec in of_paper.items() if number is None or _fits(spec.number, number)]
    if not found:
        numbers = sorted({spec.number for spec in of_paper.values() if spec.number})
        raise UserError(
            f"PAPER={paper} has no FIGURE={number} here; there are {', '.join(numbers)}."
        )
    return found


def _fits(number: str | None, wanted: str) -> bool:
    return number is not None and wanted in (number, number.rstrip("abcd"))


def table_of(spec: FigureBase) -> TableSpec:
    """Return the figure's table with the rows that it draws; raises `UserError`."""
    table = load_table(spec.table)
    known = {row.label: row for row in table.rows}
    missing = [label for label in spec.rows if label not in known]
    if missing:
        raise UserError(
            f"Figure '{spec.title}': table {spec.table} has no row '{missing[0]}'."
            f"{suggest(missing[0], known)}"
        )
    kept = [known[label] for label in spec.rows] if spec.rows else list(table.rows)
    added = [row for row in spec.extra_rows if row.label not in {k.label for k in kept}]
    return table.model_copy(update={"rows": (*kept, *added)})
