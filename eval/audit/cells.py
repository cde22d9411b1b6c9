"""The printed cells of a paper's tables, as `results/published` keeps them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eval.audit.numbers import Printed
from eval.tables.published import Published

Selector = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed cell; `method` is as printed in its own table."""

    paper: str
    table: str
    dataset: str
    llm: str
    retriever: str
    method: str
    metric: str
    category: str
    text: str
    source: str
    retriever_matters: bool = False

    @property
    def printed(self) -> Printed | None:
        """The number in it, if it is one."""
        return Printed.of(self.text)

    def fits(self, where: Selector) -> bool:
        """Whether every field named has the value, or one of the values, asked for."""
        return all(
            getattr(self, name) in ((wanted,) if isinstance(wanted, str) else wanted)
            for name, wanted in where.items()
        )


def read_cells(published: Published) -> tuple[Cell, ...]:
    """Return a paper's cells in the order of its file.

    Where a table prints one method over several retrievers, the retriever belongs to its address.
    """
    raw = published.cells
    several: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in raw:
        several[_address(row)].add(row["retriever"])
    return tuple(
        Cell(
            paper=row["paper"],
            table=row["table"],
            dataset=row["dataset"],
            llm=row["llm"],
            retriever=row["retriever"],
            method=row["method"],
            metric=row["metric"],
            category=row["category"],
            text=row["value"].strip(),
            source=row["source"],
            retriever_matters=len(several[_address(row)]) > 1,
        )
        for row in raw
    )


def _address(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[k] for k in ("table", "dataset", "llm", "method", "metric", "category"))


def select(cells: Iterable[Cell], where: Selector) -> list[Cell]:
    """Return the cells that fit."""
    return [cell for cell in cells if cell.fits(where)]


def grouped(cells: Iterable[Cell], *names: str) -> dict[tuple[Hashable, ...], list[Cell]]:
    """Group cells by the fields named, in order of first appearance."""
    found: dict[tuple[Hashable, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(tuple(getattr(cell, name) for name in names), []).append(cell)
    return found


def absent_rows(cells: Sequence[Cell]) -> list[str]:
    """Say which methods of a table have no row on some of its datasets."""
    found = []
    for (table,), inside in grouped(cells, "table").items():
        methods = list(dict.fromkeys(cell.method for cell in inside))
        for dataset in dict.fromkeys(cell.dataset for cell in inside):
            there = {cell.method for cell in inside if cell.dataset == dataset}
            absent = [method for method in methods if method not in there]
            if absent:
                found.append(f"Table {table}, {dataset}: no row for {', '.join(absent)}")
    return found
