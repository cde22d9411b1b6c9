"""What a table is: rows (systems), columns (measures or costs) and blocks (data × models).

`configs/table/NAME.yaml` describes one; docs/tables.md tells what every key means. A sweep or an
ablation is a table too: its rows differ by their overrides alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from eval.config import CONFIGS
from eval.costs import Cost, Per
from eval.measures.base import CorpusMeasure
from eval.measures.registry import parse
from memsys.datasets.configured import configured
from memsys.errors import UserError, suggest
from memsys.settings import Settings

TABLES = CONFIGS / "table"
NOT_IN_PAPER = "not in the paper"

Scalar = bool | int | float | str | None


class Column(Settings):
    """One measure or one cost under its printed `heading`: exactly one of the two.

    `category` takes that category's mean, by the benchmark's code or name. `published` is the
    column's metric in `results/published`, or a mapping laid over the whole selector. A cost is
    divided `per` question, unit, conversation or run, and printed times `scale`.
    """

    measure: str | None = None
    cost: str | None = None
    heading: str
    published: str | Mapping[str, str] | None = None
    category: str | None = None
    per: Per = "question"
    scale: float = Field(1.0, gt=0)
    digits: int = Field(2, ge=0, le=6)

    @model_validator(mode="after")
    def _check(self) -> Column:
        if (self.measure is None) == (self.cost is None):
            raise UserError(f"column '{self.heading}' needs exactly one of measure and cost.")
        if self.cost is not None:
            Cost.parse(self.cost)
            if self.category is not None:
                raise UserError(f"column '{self.heading}': a cost has no category.")
        elif self.per != "question" or self.scale != 1.0:
            raise UserError(f"column '{self.heading}': per and scale belong to a cost.")
        if self.measure is not None:
            parse(self.measure)
        return self

    @property
    def name(self) -> str:
        """What identifies the column: `f1_set`, `f1_set[temporal]`, `build.main.calls/unit`."""
        if self.cost is not None:
            return f"{self.cost}/{self.per}"
        return f"{self.measure}[{self.category}]" if self.category else str(self.measure)

    @property
    def definition(self) -> str:
        """The column's whole definition."""
        if self.cost is not None:
            unit = "" if self.scale == 1.0 else f", × {self.scale:g}"
            return Cost.parse(self.cost).describe(self.per) + unit
        title = parse(str(self.measure)).title
        return f"{title}, category {self.category} alone" if self.category else title

    @property
    def selector(self) -> Mapping[str, str] | None:
        """What the column adds to the selector of a published cell; `None` without one."""
        if self.published is None:
            return None
        if not isinstance(self.published, str):
            return self.published
        return {"metric": self.published} | ({"category": self.category} if self.category else {})


class Row(Settings):
    """One system under its label; `overrides` set it apart, those of `profiles` in one profile.

    `published` names the paper's row; `ours` marks a control row that the paper does not have.
    `where` keeps the records alone whose fields, by dotted path, equal its values
    (`{rounds: 2, "trace.stop": sufficient}`): they are scored anew.
    """

    label: str
    method: str
    overrides: tuple[str, ...] = ()
    profiles: Mapping[str, tuple[str, ...]] = {}
    published: str | None = None
    ours: bool = False
    where: Mapping[str, Scalar] = {}


class Block(Settings):
    """One dataset under one set of models: a group of columns.

    `published` selects the paper's cells (dataset, llm, retriever); `setting` is the paper's own
    setting, against which ours is compared (`main`, `auxiliary`, `judge`, `encoder`). `stage`
    differs from the table's where a block can only be retrieved, or is timed. Rows that a block
    does not have are listed in `without`, alone or each with its reason.
    """

    label: str
    dataset: str
    stage: Literal["retrieve", "answer", "timing"] | None = None
    overrides: tuple[str, ...] = ()
    published: Mapping[str, str] = {}
    setting: Mapping[str, str] = {}
    without: Mapping[str, str] = {}

    @field_validator("without", mode="before")
    @classmethod
    def _with_reasons(cls, given: object) -> object:
        if isinstance(given, list | tuple):
            return dict.fromkeys(given, NOT_IN_PAPER)
        return given


class Ratio(Settings):
    """A relative gain that a paper states in its text: `(row / against − 1) × 100`.

    `measure` is the measure of a column without category, or a column's whole cost word.
    """

    row: str
    against: str
    measure: str
    value: float
    source: str

    def column(self, columns: Sequence[Column]) -> Column:
        """Return the column that the ratio is of; raises `UserError` if there is none."""
        for column in columns:
            if self.measure in (column.measure, column.cost) and not column.category:
                return column
        names = [column.measure or str(column.cost) for column in columns]
        raise UserError(f"ratios: no column shows {self.measure}.{suggest(self.measure, names)}")


class TableSpec(Settings):
    """A table of a paper, a sweep or an ablation.

    Every row is compared with the row `reference` on the measure `primary`, if they are given.
    """

    title: str
    paper: Literal["memgas", "mgretrieval", "ours"]
    number: str | None = None
    protocol: str
    stage: Literal["retrieve", "answer", "timing"] = "answer"
    published: str | None = None
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    blocks: Mapping[str, tuple[Block, ...]]
    overrides: tuple[str, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    reference: str | None = None
    primary: str | None = None
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> TableSpec:
        labels = [row.label for row in self.rows]
        blocks = [block for of in self.blocks.values() for block in of]
        _all_known("without", [label for block in blocks for label in block.without], labels)
        if len(set(labels)) < len(labels):
            raise UserError("two rows have the same label.")
        for ratio in self.ratios:
            _all_known("ratios", [ratio.row, ratio.against], labels)
            ratio.column(self.columns)
        if (self.reference is None) != (self.primary is None):
            raise UserError("reference and primary belong together: give both, or neither.")
        if self.reference is not None and self.primary is not None:
            _all_known("reference", [self.reference], labels)
            if isinstance(parse(self.primary), CorpusMeasure):
                raise UserError(
                    f"primary: {self.primary} has no value for a single question, so that rows "
                    "cannot be compared question by question."
                )
        self._check_categories({block.dataset for block in blocks})
        return self

    def _check_categories(self, datasets: Iterable[str]) -> None:
        """Refuse a category that no dataset of the table has."""
        wanted = {column.category for column in self.columns if column.category}
        if not wanted:
            return
        names = [configured(dataset).CATEGORY_NAMES for dataset in datasets]
        known = {word for of in names for pair in of.items() for word in pair}
        for word in sorted(wanted):
            if all(category_code(of, word) is None for of in names):
                raise UserError(f"category '{word}' is not known.{suggest(word, known)}")

    def blocks_of(self, profile: str) -> tuple[Block, ...]:
        """Return the blocks that a profile fills; raises `UserError` if it fills none."""
        if profile not in self.blocks:
            known = suggest(profile, self.blocks)
            raise UserError(f"Table '{self.title}' is not described for profile={profile}.{known}")
        return self.blocks[profile]


def load_table(name: str) -> TableSpec:
    """Read `configs/table/<name>.yaml`; raises `UserError`."""
    path = TABLES / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"There is no table '{name}'.{suggest(name, table_names())}")
    try:
        return TableSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except UserError as error:
        raise UserError(f"{_relative(path)}: {error}") from error
    except ValidationError as error:
        raise UserError(f"{_relative(path)}: {_first_fault(error)}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{_relative(path)} is not YAML: {error}") from None


def table_names() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.stem for path in TABLES.glob("*.yaml"))


def find_tables(paper: str, number: str | None) -> list[str]:
    """Return the names of a paper's tables, all of them or all of this number.

    They come in the order of their numbers, 2 before 10, and one number's by name. The tables of
    `ours` have none. Raises `UserError` for an unknown paper or number.
    """
    tables = {name: load_table(name) for name in table_names()}
    of_paper = {name: spec for name, spec in tables.items() if spec.paper == paper}
    if not of_paper:
        papers = {spec.paper for spec in tables.values()}
        raise UserError(f"PAPER={paper} is not known.{suggest(paper, papers)}")
    found = [name for name, spec in of_paper.items() if number in (None, spec.number)]
    if not found:
        numbers = sorted((str(s.number) for s in of_paper.values() if s.number), key=natural)
        known = f" Known: {', '.join(dict.fromkeys(numbers))}." if numbers else ""
        raise UserError(f"PAPER={paper} has no TABLE={number} here.{known}")
    return sorted(found, key=lambda name: (natural(of_paper[name].number), natural(name)))


def described(names: Sequence[str], profile: str) -> tuple[list[str], list[str]]:
    """Split the tables of a paper into those that a profile fills, and the others.

    Raises `UserError` where it fills none of them.
    """
    filled = [name for name in names if profile in load_table(name).blocks]
    if not filled and names:
        load_table(names[0]).blocks_of(profile)
    return filled, [name for name in names if name not in filled]


def natural(text: str | None) -> tuple[tuple[int, int, str], ...]:
    """Return a sorting key by which 2 stands before 10, and nothing stands last."""
    if text is None:
        return ((2, 0, ""),)
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)


def category_code(names: Mapping[str, str], word: str) -> str | None:
    """Return the code of a benchmark's category called `word`, by code or by name, or `None`."""
    plain = _plain(word)
    return next((code for code, name in names.items() if plain in (code, _plain(name))), None)


def _plain(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")


def _all_known(key: str, used: Iterable[str], labels: Iterable[str]) -> None:
    known = list(labels)
    for label in used:
        if label not in known:
            raise UserError(f"{key}: there is no row '{label}'.{suggest(label, known)}")


_PARTS: dict[str, type[Settings]] = {
    "columns": Column,
    "rows": Row,
    "blocks": Block,
    "ratios": Ratio,
}


def _first_fault(error: ValidationError) -> str:
    """Return the first fault of a table's description as one sentence, with its place."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        part = _PARTS.get(str(first["loc"][0]), TableSpec) if len(first["loc"]) > 1 else TableSpec
        return f"there is no key {place}.{suggest(str(first['loc'][-1]), part.model_fields)}"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}."


def _relative(path: Path) -> Path:
    return path.relative_to(CONFIGS.parent)
