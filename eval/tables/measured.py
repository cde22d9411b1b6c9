"""What a row's run measured: its scores and costs, in all or of a part of its records.

`scores.json` is used as it is where it holds what a table asks for. What it lacks (another table
scored the same run by other measures) or cannot hold (a part of the records) is scored from the
records, without any model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.costs import RunCosts, costs_of, timing_of
from eval.measures.registry import parse
from eval.prices import PriceList
from eval.records import Key, Record, key_of
from eval.runfolder import RunFolder
from eval.scoring import FailedAs, score
from eval.summary import items_of
from eval.tables.spec import Scalar

JUDGED = "judge_"


@dataclass
class Measured:
    """The records of one row of a table: those of `run` that fit `where`.

    `measures` are what the table reads; rows of one run should share its `RunFolder`, which reads
    every file once.
    """

    run: RunFolder
    measures: Sequence[str]
    where: Mapping[str, Scalar]

    @cached_property
    def records(self) -> list[Record]:
        """The row's records, in benchmark order."""
        return [record for record in self.run.records if fits(record, self.where)]

    @cached_property
    def judgements(self) -> list[Record]:
        """The judgements of the row's records."""
        return self._of_row(self.run.judgements)

    @cached_property
    def scores(self) -> Mapping[str, Any]:
        """What `scores.json` would hold for these records and measures."""
        stored = self.run.scores
        if self.where or not stored:
            return self._scored(self.measures)
        missing = [measure for measure in self.measures if not _holds(stored, measure)]
        if missing and len(stored["items"]) != len(self.records):
            return self._scored(self.measures)  # records have been added since it was scored
        return _joined(stored, self._scored(missing)) if missing else stored

    @property
    def failed_as(self) -> FailedAs:
        """How the run counts failed questions."""
        found: FailedAs = self.run.manifest["configuration"].get("failed_as") or "excluded"
        return found

    def values(self, measure: str) -> dict[Key, float]:
        """Return the value of each question that has one, by conversation and index."""
        name = parse(measure).name
        rows = self.scores["items"]
        ids = [str(record["id"]) for record in self.records]
        if [row["id"] for row in rows] != ids:  # records have been added since it was scored
            rows = self._scored([measure])["items"]
        return {
            key_of(record): row[name]
            for record, row in zip(self.records, rows, strict=True)
            if row.get(name) is not None
        }

    def costs(self, prices: PriceList) -> RunCosts:
        """Return what the row's records cost, with the memories of their conversations."""
        held = {record["conversation"] for record in self.records}
        builds = [build for build in self.run.builds if build["conversation"] in held]
        timing = self._of_row(self._timing)
        return costs_of(self.records, builds, self.judgements, timing, prices)

    @property
    def nothing(self) -> str:
        """Why there is no record to score; empty where there is one."""
        if not self.where or self.records:
            return ""
        return "no record has " + " and ".join(f"{k} = {v}" for k, v in self.where.items())

    @cached_property
    def _timing(self) -> list[Record]:
        return timing_of(self.run.path)

    def _of_row(self, entries: Sequence[Record]) -> list[Record]:
        if not self.where:
            return list(entries)
        held = {key_of(record) for record in self.records}
        return [entry for entry in entries if key_of(entry) in held]

    def _scored(self, measures: Sequence[str]) -> dict[str, Any]:
        able = [m for m in measures if self.judgements or not parse(m).name.startswith(JUDGED)]
        items = items_of(self.records, self.judgements)
        return score(items, able, self.failed_as).plain()


@dataclass(frozen=True)
class RunFolders:
    """The run folders behind one table, each read once."""

    known: dict[Path, RunFolder]

    def of(self, path: Path) -> RunFolder:
        """Return the folder's files as they were when this table first asked for them."""
        return self.known.setdefault(path, RunFolder(path))


def fits(record: Mapping[str, Any], where: Mapping[str, Scalar]) -> bool:
    """Whether a record's fields, named by dotted path, equal the wanted values."""
    return all(_same(_field(record, path), wanted) for path, wanted in where.items())


_ABSENT = object()


def _field(record: Mapping[str, Any], path: str) -> Any:
    found: Any = record
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return _ABSENT
        found = found[name]
    return found


def _same(found: Any, wanted: Scalar) -> bool:
    # True == 1 in Python, but not in a record
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


def _holds(stored: Mapping[str, Any], name: str) -> bool:
    """Whether stored scores have a measure, by its present definition."""
    measure = parse(name)
    version = stored.get("versions", {}).get(measure.name, measure.version)
    return measure.name in stored["mean"] and version == measure.version


_BY_MEASURE = (
    "mean", "counts", "intervals", "unavailable", "agreement", "measures", "versions", "resources",
)  # fmt: skip


def _joined(stored: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored scores with those of further measures beside them."""
    joined = {**stored}
    for part in _BY_MEASURE:
        joined[part] = {**stored.get(part, {}), **more.get(part, {})}
    joined["by_category"] = {
        category: {**of, **more["by_category"].get(category, {})}
        for category, of in stored["by_category"].items()
    }
    pairs = zip(stored["items"], more["items"], strict=True)
    joined["items"] = [{**a, **b} for a, b in pairs]
    return joined
