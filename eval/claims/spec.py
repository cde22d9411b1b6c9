"""What a claims ledger is: `configs/claims/PAPER.yaml`.

A claim has parts, each of one kind of check, which name rows of tables by their labels; no run is
described here. A part reads one measure or one cost. `main` picks the block of a table whose
paper setting has that main model.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from eval.config import CONFIGS
from eval.costs import Cost, Per
from eval.measures.registry import parse
from memsys.errors import UserError, suggest
from memsys.settings import Settings

LEDGERS = CONFIGS / "claims"


class Part(Settings):
    """One thing that a claim says.

    `mechanical`: it follows from the algorithm, so that any run can show it; everything else is
    judged on reproductions alone.
    """

    table: str
    main: str | None = None
    block: str | None = None
    mechanical: bool = False

    reads: ClassVar[tuple[str, ...]] = ()
    """The fields that name rows."""

    def rows(self) -> tuple[Ref, ...]:
        """Return the rows that the check reads."""
        found = [getattr(self, name) for name in self.reads]
        return refs(*(row for one in found for row in (one if isinstance(one, tuple) else (one,))))


class Ref(Settings):
    """A row of a table; a plain label stands for a row of the part's own table."""

    row: str
    table: str | None = None


Row = Annotated[str | Ref, Field(union_mode="left_to_right")]


class Quantity(Part):
    """A part about one measure or one cost."""

    measure: str | None = None
    cost: str | None = None
    per: Per = "question"

    @model_validator(mode="after")
    def _one_quantity(self) -> Quantity:
        if (self.measure is None) == (self.cost is None):
            raise UserError("a check needs exactly one of measure and cost.")
        if self.measure is not None:
            parse(self.measure)
        if self.cost is not None:
            Cost.parse(self.cost)
        return self


class Gain(Quantity):
    """`(row / over − 1) × 100`; over several rows: over the best of them.

    `mean_over`: the mean of the gains under several main models.
    """

    check: Literal["gain"]
    row: Row
    over: tuple[Row, ...]
    published: float
    mean_over: tuple[str, ...] = ()

    reads: ClassVar[tuple[str, ...]] = (
        "row",
        "over",
    )


class Value(Quantity):
    """A number: within `tolerance` of the published one (relative; 0: exactly, retries apart).

    `retries` are ledger events that stand for one more call each.
    """

    check: Literal["value"]
    row: Row
    published: float
    tolerance: float = Field(0.1, ge=0)
    retries: tuple[str, ...] = ()

    reads: ClassVar[tuple[str, ...]] = ("row",)


class Order(Quantity):
    """Each row is above the next."""

    check: Literal["order"]
    order: tuple[Row, ...] = Field(min_length=2)

    reads: ClassVar[tuple[str, ...]] = ("order",)


class Above(Part):
    """Every upper row is above every lower one on every measure; `some`: at least once.

    `paired: false` where the rows hold different questions of the same conversations.
    """

    check: Literal["above"]
    upper: tuple[Row, ...]
    lower: tuple[Row, ...]
    measures: tuple[str, ...]
    some: bool = False
    paired: bool = True

    reads: ClassVar[tuple[str, ...]] = (
        "upper",
        "lower",
    )


class Trend(Quantity):
    """Along the rows the quantity rises or falls; `flattens`: the second half of the way less."""

    check: Literal["trend"]
    along: tuple[Row, ...] = Field(min_length=2)
    direction: Literal["up", "down"]
    flattens: bool = False

    reads: ClassVar[tuple[str, ...]] = ("along",)


class Peak(Part):
    """`row` is above every row of `ends` on every measure, and no row of `near` is above it."""

    check: Literal["peak"]
    row: Row
    ends: tuple[Row, ...]
    near: tuple[Row, ...]
    measures: tuple[str, ...]

    reads: ClassVar[tuple[str, ...]] = ("row", "ends", "near")


class Flat(Quantity):
    """Every row lies within `margin` (printed points, or a relative share of a cost) of `near`."""

    check: Literal["flat"]
    near: Row
    others: tuple[Row, ...]
    margin: float = Field(gt=0)

    reads: ClassVar[tuple[str, ...]] = (
        "near",
        "others",
    )


class Retains(Quantity):
    """`row` keeps more than `share` of the gain of `full` over the best of `over`."""

    check: Literal["retains"]
    row: Row
    full: Row
    over: tuple[Row, ...]
    share: float = Field(gt=0, lt=1)

    reads: ClassVar[tuple[str, ...]] = (
        "row",
        "full",
        "over",
    )


class Comparable(Part):
    """`row` is at most `margin` points below the best of `others` on each measure."""

    check: Literal["comparable"]
    row: Row
    others: tuple[Row, ...]
    measures: tuple[str, ...]
    margin: float = Field(gt=0)

    reads: ClassVar[tuple[str, ...]] = (
        "row",
        "others",
    )


class Ceiling(Part):
    """At least `most` of the measures reach `level` points in the row."""

    check: Literal["ceiling"]
    row: Row
    measures: tuple[str, ...]
    level: float
    most: int

    reads: ClassVar[tuple[str, ...]] = ("row",)


class Lengths(Part):
    """Memory contexts: shorter than each other row's, and relatively more spread."""

    check: Literal["lengths"]
    row: Row
    others: tuple[Row, ...]

    reads: ClassVar[tuple[str, ...]] = (
        "row",
        "others",
    )


class Case(Part):
    """One question, by the address of its evidence, went exactly so."""

    check: Literal["case"]
    row: Row
    conversation: str
    evidence: str
    rounds: int
    new: tuple[int, ...]
    critical_first: int
    answer: str

    reads: ClassVar[tuple[str, ...]] = ("row",)


class Walk(Part):
    """Every question walked from all its keywords to fewer, and saw each memory once."""

    check: Literal["walk"]
    row: Row

    reads: ClassVar[tuple[str, ...]] = ("row",)


AnyPart = Annotated[
    Gain | Value | Order | Above | Trend | Peak | Flat | Retains | Comparable | Ceiling | Lengths
    | Case | Walk,
    Field(discriminator="check"),
]  # fmt: skip


class Claim(Settings):
    """One claim of a paper, in our words, with what it takes to judge it."""

    id: str
    claim: str
    published: str
    scope: str
    source: str
    parts: tuple[AnyPart, ...] = Field(min_length=1)
    note: str = ""


class Ledger(Settings):
    """All claims of one paper."""

    paper: str
    title: str
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _different_ids(self) -> Ledger:
        ids = [claim.id for claim in self.claims]
        if len(set(ids)) < len(ids):
            raise UserError("two claims have the same id.")
        return self


def refs(*rows: str | Ref) -> tuple[Ref, ...]:
    """Return rows as references."""
    return tuple(Ref(row=row) if isinstance(row, str) else row for row in rows)


def ledger_names() -> list[str]:
    """Return the papers that have a ledger."""
    return sorted(path.stem for path in LEDGERS.glob("*.yaml"))


def load_ledger(paper: str) -> Ledger:
    """Read `configs/claims/<paper>.yaml`; raises `UserError`."""
    path = LEDGERS / f"{paper}.yaml"
    if not path.is_file():
        raise UserError(f"There are no claims of '{paper}'.{suggest(paper, ledger_names())}")
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Ledger.model_validate(raw)
    except (ValidationError, yaml.YAMLError) as error:
        raise UserError(f"configs/claims/{path.name} is no ledger: {error}") from error
