"""Every run that the tables describe, put together without Hydra's slow composition.

Hydra composes each profile × protocol once. A row's overrides are then laid over that as Hydra
would: a config of a group replaces the section, `preset` a part of the method, a dotted key one
value that must exist. `test_table_configs.py` checks some rows against Hydra itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from eval.config import CONFIGS, compose
from eval.tables.reproduce import overrides_of
from eval.tables.spec import Block, Row, TableSpec, load_table, table_names


@dataclass(frozen=True)
class TableRow:
    """One row of one block of one profile of one table."""

    table: str
    profile: str
    spec: TableSpec
    block: Block
    row: Row

    @property
    def overrides(self) -> list[str]:
        return overrides_of(self.spec, self.block, self.row, self.profile, [])

    @property
    def label(self) -> str:
        return f"{self.table}, {self.profile}, {self.block.label}, {self.row.label}"


@cache
def tables() -> Mapping[str, TableSpec]:
    return {name: load_table(name) for name in table_names()}


def all_rows() -> Iterator[TableRow]:
    """Every row that is to be run, those that a block leaves empty left out."""
    for name, spec in tables().items():
        for profile, blocks in spec.blocks.items():
            for block in blocks:
                for row in spec.rows:
                    if row.label not in block.without:
                        yield TableRow(name, profile, spec, block, row)


def values_of(overrides: Sequence[str]) -> dict[str, Any]:
    """The composed values of a run; an unknown key, value or config is an AssertionError."""
    given = dict(_parsed(line) for line in overrides)
    values = json.loads(_base(given.pop("profile"), given.pop("protocol")))
    plain = {key: value for key, value in given.items() if "." not in key.partition("@")[0]}
    metadata, preset = (plain.get(key, values[key]) for key in ("metadata", "preset"))
    for key, value in plain.items():
        group, _, package = key.partition("@")
        if group in _groups():
            value = json.loads(_loaded(group, value, metadata, preset))
        _put(values, package or key, value)
    for key, value in given.items():
        if key not in plain:
            _put(values, key, value)
    return dict(values)


@cache
def _parsed(line: str) -> tuple[str, Any]:
    override = OverridesParser.create().parse_override(line)
    value = OmegaConf.to_object(OmegaConf.create({"v": override.value()}))
    return str(override.get_key_element()), value["v"]  # type: ignore[index, call-overload]


@cache
def _groups() -> frozenset[str]:
    return frozenset(path.name for path in CONFIGS.iterdir() if path.is_dir())


@cache
def _base(profile: str, protocol: str) -> str:
    return json.dumps(compose([f"profile={profile}", f"protocol={protocol}"]).values)


@cache
def _loaded(group: str, name: str, metadata: str, preset: str) -> str:
    path = CONFIGS / group / f"{name}.yaml"
    assert path.is_file(), f"there is no config {group}={name}"
    root = OmegaConf.create({"metadata": metadata, "config": OmegaConf.load(path)})
    presets = root.config.pop("presets", {}) if "presets" in root.config else {}
    if group == "method" and preset != "paper":
        assert preset in presets, f"method={name} has no preset {preset}"
        root.config = OmegaConf.merge(root.config, presets[preset])
    return json.dumps(OmegaConf.to_container(root.config, resolve=True))


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    place = values
    for name in parents:
        place = place.get(name)  # type: ignore[assignment]
        assert isinstance(place, dict), f"there is no setting {key}"
    assert last in place, f"there is no setting {key}"
    place[last] = value
