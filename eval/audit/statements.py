"""A paper's sentences held against its own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import singledispatch

from eval.audit.cells import Cell, grouped, select
from eval.audit.findings import Finding, Place
from eval.audit.numbers import Printed
from eval.audit.possible import fraction
from eval.audit.rules import Above, Best, Bound, FractionOf, Pointer, Repeats, Statement
from memsys.errors import UserError


def check(cells: Sequence[Cell], statement: Statement, paper: str) -> list[Finding]:
    """Return what the cells say of one statement."""
    return _check(statement, cells, Place(paper, statement.where, metric=statement.id))


@singledispatch
def _check(statement: Statement, cells: Sequence[Cell], place: Place) -> list[Finding]:
    raise TypeError(f"No check for {type(statement).__name__}.")


@_check.register
def _(statement: Best, cells: Sequence[Cell], place: Place) -> list[Finding]:
    names = ["table", "dataset", "metric", *(["retriever"] if statement.per_retriever else [])]
    held = 0
    against: list[str] = []
    tables: dict[str, None] = {}
    for column in grouped(select(cells, statement.cells), *names).values():
        mine = [cell for cell in column if cell.method == statement.method]
        others = [
            cell
            for cell in column
            if cell.method != statement.method
            and (not statement.against or cell.method in statement.against)
        ]
        if not mine or not others:
            continue
        own = _value(mine[0])
        better = [c for c in others if _beats(_value(c), own, lowest=statement.lowest)]
        held += not better
        if better:
            sign = "<" if statement.lowest else ">"
            rivals = ", ".join(f"{c.method} {c.text}" for c in better)
            against.append(f"{_column(mine[0])}: {rivals} {sign} {mine[0].text}")
            tables[mine[0].source] = None
    return [_tallied(statement, place, held, against, tables, statement.extent)]


@_check.register
def _(statement: Above, cells: Sequence[Cell], place: Place) -> list[Finding]:
    held = 0
    against: list[str] = []
    tables: dict[str, None] = {}
    for column in grouped(select(cells, statement.cells), "table", "dataset", "metric").values():
        for upper in select(column, statement.upper):
            for lower in select(column, statement.lower):
                if _value(upper) > _value(lower):
                    held += 1
                    continue
                said = f"{_column(upper)}: {upper.method} {upper.text} ≤ "
                against.append(f"{said}{lower.method} {lower.text}")
                tables[upper.source] = None
    return [_tallied(statement, place, held, against, tables, "every")]


@_check.register
def _(statement: Repeats, cells: Sequence[Cell], place: Place) -> list[Finding]:
    cell, said = _one(cells, statement.cell), _number(statement.said)
    value = _value(cell) / statement.times
    text = cell.text
    if statement.factor:
        factor = _one(cells, statement.factor)
        value *= _value(factor)
        text = f"{factor.text} × {text}"
    test = f"text against {cell.source}"
    if said.fits(value):
        return [Finding(place, statement.says, test, "agrees", text)]
    off = 100 * float(said.value / value - 1)
    why = f"{cell.source} has {text} ({off:+.1f} % in the text)"
    return [Finding(place, statement.says, test, "disagrees", why, cell.source)]


@_check.register
def _(statement: Bound, cells: Sequence[Cell], place: Place) -> list[Finding]:
    cell = _one(cells, statement.cell)
    test = f"text against {cell.source}"
    if _value(cell) > _number(statement.said).value:
        return [Finding(place, statement.says, test, "agrees", cell.text)]
    why = f"{cell.source} has {cell.text}"
    alike = [
        f"{other.metric} {other.text}"
        for other in cells
        if other.method == cell.method
        and other.table == cell.table
        and other is not cell
        and other.printed is not None
        and cell.printed is not None
        and _value(other) > _number(statement.said).value
        and other.metric.endswith(cell.metric.partition("(")[2])
    ]
    why += f"; over {statement.said} is {', '.join(alike)}" if alike else ""
    return [Finding(place, statement.says, test, "disagrees", why, cell.source)]


@_check.register
def _(statement: FractionOf, cells: Sequence[Cell], place: Place) -> list[Finding]:
    numbers = [_number(text) for text in statement.said]
    best = min(
        statement.candidates,
        key=lambda n: sum(fraction(place, p, n, "").kind == "impossible" for p in numbers),
    )
    found = [fraction(place, p, best, statement.candidates[best]) for p in numbers]
    bad = [f for f in found if f.kind == "impossible"]
    why = "; ".join(f"{f.printed} %: {f.why}" for f in found)
    others = [n for n in statement.candidates if n != best]
    for n in others:
        misfits = [p.text for p in numbers if fraction(place, p, n, "").kind == "impossible"]
        why += f"; of {n} ({statement.candidates[n]}) {', '.join(misfits) or 'none'} would not be"
    kind = bad[0].kind if bad else found[0].kind
    against = bad[0].against if bad else ""
    return [Finding(place, statement.says, found[0].test, kind, why, against)]


@_check.register
def _(statement: Pointer, cells: Sequence[Cell], place: Place) -> list[Finding]:
    own = " and ".join(statement.section_has)
    if statement.said in statement.section_has:
        return [Finding(place, statement.says, "pointer", "agrees")]
    why = f"the section's own are {own}"
    return [Finding(place, statement.says, "pointer", "disagrees", why, own)]


def _tallied(
    statement: Statement,
    place: Place,
    held: int,
    against: Sequence[str],
    tables: Mapping[str, None],
    extent: str,
) -> Finding:
    n = held + len(against)
    if not n:
        why = "no cell to compare"
        return Finding(place, statement.says, "text against tables", "not testable", why)
    why = f"{held} of {n} comparisons" + (f"; not {'; '.join(against)}" if against else "")
    test = "text against tables"
    if not against or (extent == "most" and 2 * held > n):
        return Finding(place, statement.says, test, "agrees", why)
    return Finding(place, statement.says, test, "disagrees", why, " and ".join(tables))


def _beats(value: Fraction, own: Fraction, *, lowest: bool) -> bool:
    return value < own if lowest else value > own


def _column(cell: Cell) -> str:
    retriever = f" {cell.retriever}" if cell.retriever_matters else ""
    return f"{cell.source} {cell.dataset}{retriever} {cell.metric}"


def _one(cells: Sequence[Cell], where: Mapping[str, str]) -> Cell:
    found = select(cells, where)
    if len(found) != 1:
        raise UserError(f"A statement's cell {dict(where)} fits {len(found)} published cells.")
    return found[0]


def _number(text: str) -> Printed:
    found = Printed.of(text)
    if found is None:
        raise UserError(f"A statement's number '{text}' is none.")
    return found


def _value(cell: Cell) -> Fraction:
    return _number(cell.text).value
