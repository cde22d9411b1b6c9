"""What an audit of one paper is told: `configs/audit/<paper>.yaml`. Facts and readings, no verdict.

Denominators are candidates: the cells choose among them. Statements are the paper's sentences in
our words, each with what it would have to mean for the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from eval.config import CONFIGS
from memsys.errors import UserError
from memsys.settings import Settings

Names = str | tuple[str, ...]


class Denominator(Settings):
    """Means of 0/1 scores over n questions: which n a metric may have on some datasets."""

    metrics: tuple[str, ...]
    datasets: tuple[str, ...]
    candidates: Mapping[int, str]


class CountMean(Settings):
    """Means of whole numbers over as many conversations as another cell of the dataset says."""

    metrics: tuple[str, ...]
    over: str


class Share(Settings):
    """A printed percentage: `percent` is the cell's `amount` over that of method `base`."""

    amount: str
    percent: str
    base: str


class Statement(Settings):
    """One sentence of a paper, in our words."""

    id: str
    where: str
    says: str


class Best(Statement):
    """A method is above (or below) all others, or those named, in every column or in most."""

    check: Literal["best"]
    method: str
    cells: Mapping[str, Names] = {}
    against: tuple[str, ...] = ()
    per_retriever: bool = False
    lowest: bool = False
    extent: Literal["every", "most"] = "every"


class Above(Statement):
    """One selection of cells is above another, column by column."""

    check: Literal["above"]
    upper: Mapping[str, Names]
    lower: Mapping[str, Names]
    cells: Mapping[str, Names] = {}


class Repeats(Statement):
    """The text gives a cell's number, in units of `times`: `115` thousand, `51.6` million."""

    check: Literal["repeats"]
    said: str
    cell: Mapping[str, str]
    times: int = 1
    factor: Mapping[str, str] | None = None


class Bound(Statement):
    """The text says that a cell is over a number."""

    check: Literal["over"]
    said: str
    cell: Mapping[str, str]


class FractionOf(Statement):
    """The text gives percentages of questions."""

    check: Literal["fraction"]
    said: tuple[str, ...]
    candidates: Mapping[int, str]


class Pointer(Statement):
    """The text sends the reader to a figure; its own section shows others."""

    check: Literal["pointer"]
    said: str
    section_has: tuple[str, ...]


AnyStatement = Annotated[
    Best | Above | Repeats | Bound | FractionOf | Pointer, Field(discriminator="check")
]


class Rules(Settings):
    """The audit of one paper's tables."""

    published: str
    fractions: tuple[Denominator, ...] = ()
    count_means: tuple[CountMean, ...] = ()
    aliases: tuple[tuple[str, ...], ...] = ()
    percentages: tuple[str, ...] = ()
    not_below: tuple[tuple[str, str], ...] = ()
    usually_above: tuple[tuple[str, str], ...] = ()
    shares: tuple[Share, ...] = ()
    weighted: Mapping[str, Mapping[str, int]] = {}
    counted: Mapping[str, str] = {}
    statements: tuple[AnyStatement, ...] = ()


def load_rules(paper: str) -> Rules:
    """Read `configs/audit/<paper>.yaml`; raises `UserError`."""
    path = CONFIGS / "audit" / f"{paper}.yaml"
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Rules.model_validate(raw)
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise UserError(f"configs/audit/{paper}.yaml cannot be used: {error}") from error
