"""The papers' own cells, from `results/published/*.csv`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eval.config import ROOT
from memsys.errors import UserError

PUBLISHED = ROOT / "results" / "published"


@dataclass(frozen=True)
class Published:
    """The cells of one paper."""

    cells: tuple[Mapping[str, str], ...]

    @classmethod
    def read(cls, name: str, folder: Path = PUBLISHED) -> Published:
        """Read a paper's cells; an empty `value` is no cell. Raises `UserError`."""
        path = folder / f"{name}.csv"
        try:
            with path.open(encoding="utf-8", newline="") as file:
                return cls(tuple(row for row in csv.DictReader(file) if row["value"].strip()))
        except (OSError, KeyError) as error:
            raise UserError(f"{path} cannot be read as published cells: {error}.") from error

    def value(self, **where: str) -> float | None:
        """Return the number of the one cell that fits, or `None`; the first of several."""
        for cell in self.cells:
            if all(cell.get(name) == wanted for name, wanted in where.items()):
                try:
                    return float(cell["value"])
                except ValueError:
                    return None
        return None
