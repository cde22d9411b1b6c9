"""Findings: one test of one printed number, and the verdict on the number over all its tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from eval.audit.cells import Cell

Kind = Literal["impossible", "disagrees", "odd", "agrees", "possible", "not testable"]
"""From worst to weakest. `odd` is possible but unlike all of its kind."""

ORDER: tuple[Kind, ...] = ("impossible", "disagrees", "odd", "agrees", "possible", "not testable")
FAULTS: tuple[Kind, ...] = ("impossible", "disagrees", "odd")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a number or a statement stands."""

    paper: str
    where: str
    dataset: str = ""
    method: str = ""
    metric: str = ""

    @classmethod
    def of(cls, cell: Cell) -> Place:
        """Return where a cell stands."""
        method = cell.method if not cell.retriever_matters else f"{cell.method} ({cell.retriever})"
        return cls(cell.paper, cell.source, cell.dataset, method, cell.metric)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one test says of one number; `against` names what it was held against."""

    place: Place
    printed: str
    test: str
    kind: Kind
    why: str = ""
    against: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in words: `disagrees with Table 7`, `impossible: neighbours 41.04 and …`."""
        if self.kind == "disagrees" and self.against:
            return f"disagrees with {self.against}"
        if self.kind == "impossible" and self.against:
            return f"impossible: neighbours {self.against}"
        return self.kind


@dataclass(frozen=True, slots=True)
class Row:
    """A cell or a statement with all its findings."""

    place: Place
    printed: str
    findings: tuple[Finding, ...]

    @property
    def kind(self) -> Kind:
        """The worst kind of its findings."""
        return min((f.kind for f in self.findings), key=ORDER.index)

    @property
    def verdict(self) -> str:
        """The verdicts of its worst findings, faults of every kind included."""
        faults = [f.verdict for f in self.findings if f.kind in FAULTS]
        return "; ".join(dict.fromkeys(faults)) if faults else self.kind

    @property
    def tests(self) -> str:
        """The tests that were made."""
        return "; ".join(dict.fromkeys(f.test for f in self.findings))

    @property
    def why(self) -> str:
        """The reasons, those of faults first."""
        ranked = sorted(self.findings, key=lambda f: ORDER.index(f.kind))
        return "; ".join(dict.fromkeys(f.why for f in ranked if f.why))


def rows(findings: Iterable[Finding], order: Sequence[tuple[Place, str]]) -> list[Row]:
    """Gather findings by number: first in the order given, then as they come."""
    found: dict[tuple[Place, str], list[Finding]] = {key: [] for key in order}
    for finding in findings:
        found.setdefault((finding.place, finding.printed), []).append(finding)
    return [Row(place, printed, tuple(fs)) for (place, printed), fs in found.items() if fs]
