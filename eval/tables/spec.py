"""What a table is: rows (systems), columns (measures) and blocks (data × models).

`configs/table/NAME.yaml` describes one. A sweep or an ablation is a table too: its rows differ by
their overrides alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import yaml
from pydantic import ValidationError

from eval.config import CONFIGS
from memsys.errors import UserError, suggest
from memsys.settings import Settings

TABLES = CONFIGS / "table"


class Column(Settings):
    """One measure; `published` is its name in `results/published`, `heading` what is printed."""

    measure: str
    heading: str
    published: str | None = None


class Row(Settings):
    """One system under its label; `overrides` set it apart, those of `profiles` in one profile.

    `published` names the paper's row; `ours` marks a control row that the paper does not have.
    """

    label: str
    method: str
    overrides: tuple[str, ...] = ()
    profiles: Mapping[str, tuple[str, ...]] = {}
    published: str | None = None
    ours: bool = False


class Block(Settings):
    """One dataset under one set of models: a group of columns.

    `published` selects the paper's cells (dataset, llm, retriever); `setting` is the paper's own
    setting, against which ours is compared (`main`, `auxiliary`, `judge`, `encoder`). `stage`
    differs from the table's where a block can only be retrieved.
    """

    label: str
    dataset: str
    stage: Literal["retrieve", "answer"] | None = None
    overrides: tuple[str, ...] = ()
    published: Mapping[str, str] = {}
    setting: Mapping[str, str] = {}


class Ratio(Settings):
    """A relative gain that a paper states in its text: `(row / against − 1) × 100`."""

    row: str
    against: str
    measure: str
    value: float
    source: str


class TableSpec(Settings):
    """A table of a paper, a sweep or an ablation."""

    title: str
    paper: Literal["memgas", "mgretrieval", "ours"]
    number: str | None = None
    protocol: str
    stage: Literal["retrieve", "answer"] = "answer"
    published: str | None = None
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    blocks: Mapping[str, tuple[Block, ...]]
    overrides: tuple[str, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    notes: tuple[str, ...] = ()

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
    except (ValidationError, yaml.YAMLError) as error:
        raise UserError(f"{_relative(path)} is not a table: {error}") from error


def table_names() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.stem for path in TABLES.glob("*.yaml"))


def find_tables(paper: str, number: str | None) -> list[str]:
    """Return the names of a paper's tables, all of them or the one of this number."""
    found = [
        name
        for name in table_names()
        if (spec := load_table(name)).paper == paper and number in (None, spec.number)
    ]
    if found:
        return found
    papers = {load_table(name).paper for name in table_names()}
    if paper not in papers:
        raise UserError(f"PAPER={paper} is not known.{suggest(paper, papers)}")
    numbers = {str(load_table(n).number) for n in table_names() if load_table(n).paper == paper}
    raise UserError(f"PAPER={paper} has no TABLE={number} here.{suggest(str(number), numbers)}")


def _relative(path: Path) -> Path:
    return path.relative_to(CONFIGS.parent)
