"""The whole audit of a paper: every cell and statement with its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from eval.audit import agreement, possible, stated, statements
from eval.audit.cells import Cell, absent_rows, read_cells, select
from eval.audit.counts import (
    Counts,
    Missing,
    agreement_with_gold,
    count,
    mentioning,
    no_tokens,
    session_dated,
    turn_dated,
)
from eval.audit.findings import Finding, Kind, Place, Row, rows
from eval.audit.rules import Rules, load_rules
from eval.config import CONFIGS
from eval.prices import Price, PriceList
from eval.tables.published import Published
from memsys.rendering import exchanges, single_turns

CASE = {"conversation": "conv-47", "evidence": "D8:11", "words": ("James", "adventur")}
"""MGRetrieval's case study: its question by address, its second keyword group by stems."""

Counting = Callable[[str], Counts | Missing]


@dataclass(frozen=True, slots=True)
class Denominated:
    """What n the 0/1 means of some metrics have on a dataset, by the cells' own evidence."""

    metrics: str
    dataset: str
    chosen: possible.Chosen


@dataclass(frozen=True)
class Audit:
    """One paper's rows: cells first, in the order of the file, then statements."""

    name: str
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    denominators: tuple[Denominated, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def statements(self) -> tuple[Row, ...]:
        """The rows that are no cell of the file."""
        return self.rows[len({(Place.of(cell), cell.text) for cell in self.cells}) :]


def audit_tables(paper: str, counting: Counting, published: Published | None = None) -> Audit:
    """Audit a paper's cells under `configs/audit/<paper>.yaml`, and what its text says of them."""
    rules = load_rules(paper)
    cells = read_cells(published or Published.read(rules.published))
    order = [(Place.of(cell), cell.text) for cell in cells]
    found = [*_cell_findings(cells, rules), *_count_findings(cells, rules, counting)]
    for statement in rules.statements:
        found += statements.check(cells, statement, _title(paper, cells))
    return Audit(
        paper,
        tuple(_completed(rows(found, order), order)),
        cells,
        tuple(_denominators(cells, rules)),
        tuple(_remarks(cells, rules, counting)),
    )


def _denominators(cells: tuple[Cell, ...], rules: Rules) -> Iterator[Denominated]:
    for rule in rules.fractions:
        for dataset in rule.datasets:
            inside = select(cells, {"metric": rule.metrics, "dataset": dataset})
            if inside:
                chosen = possible.choose_denominator(inside, rule.candidates)
                yield Denominated(", ".join(rule.metrics), dataset, chosen)


def _remarks(cells: tuple[Cell, ...], rules: Rules, counting: Counting) -> Iterator[str]:
    if not cells:
        yield (
            "every cell is blank: our source of the paper has no table bodies; whoever holds the "
            f"paper can fill in results/published/{rules.published}.csv"
        )
        return
    repeated = agreement.repeated(cells, [])
    with_aliases = agreement.repeated(cells, rules.aliases)
    differ = sum(len({cell.text for cell in same}) > 1 for same in repeated)
    yield (
        f"{len(repeated)} numbers stand in several tables under one name "
        f"({len(with_aliases)} with aliases); {differ} of them differ"
    )
    yield from absent_rows(cells)
    for title, name in rules.counted.items():
        counts = counting(name)
        if not isinstance(counts, Missing) and counts.statistics.with_evidence:
            tally = sorted(counts.gold_sessions().items())
            said = ", ".join(f"{n}: {k:,}" for n, k in tally)
            yield f"{title}: questions by number of gold sessions (official parsing): {said}"


def _cell_findings(cells: tuple[Cell, ...], rules: Rules) -> Iterator[Finding]:
    for denominator in rules.fractions:
        yield from possible.fractions(cells, denominator)
    for mean in rules.count_means:
        yield from possible.count_means(cells, mean)
    yield from possible.in_range(cells, rules.percentages)
    yield from possible.not_below(cells, rules.not_below)
    yield from possible.usually_above(cells, rules.usually_above)
    yield from possible.coincidences(select(cells, {"metric": rules.percentages}), rules.aliases)
    yield from agreement.duplicates(cells, rules.aliases)
    for share in rules.shares:
        yield from agreement.shares(cells, share)
    for average, weights in rules.weighted.items():
        yield from agreement.weighted_averages(cells, weights, average)


def _count_findings(cells: tuple[Cell, ...], rules: Rules, counting: Counting) -> Iterator[Finding]:
    for title, name in rules.counted.items():
        counts = counting(name)
        for cell in select(cells, {"dataset": title, "table": "5"}):
            if isinstance(counts, Missing):
                yield _uncounted(cell, counts.reason)
            else:
                yield _statistic(cell, counts)


def _uncounted(cell: Cell, reason: str) -> Finding:
    return Finding(Place.of(cell), cell.text, "our own count", "not testable", reason)


def _statistic(cell: Cell, counts: Counts) -> Finding:
    s = counts.statistics
    totals = {
        "Total Conversations": (s.conversations, 1),
        "Avg. Sessions": (s.sessions, s.conversations),
        "Avg. Query": (s.questions, s.conversations),
    }
    yes = {
        "Sessions Dates": s.dated_sessions > 0,
        "Retrieval Ground-Truth": s.with_evidence > 0,
        "QA Ground-Truth": s.with_reference > 0,
    }
    if cell.metric in totals:
        total, n = totals[cell.metric]
        how = f"{total:,}" + (f"/{n}" if n > 1 else "")
        return agreement.own_count(cell, [Fraction(total, n)], how)
    if cell.metric == "Avg. Token":
        how = "o200k tokens of `[speaker]: text` and captions, by turn pairs and whole"
        if not counts.tokens:
            return _uncounted(cell, no_tokens())
        return agreement.own_count(cell, sorted(counts.tokens), how)
    subject = "User-AI" if s.with_assistant else "User-User"
    word = ("yes" if yes[cell.metric] else "no") if cell.metric in yes else subject
    kind: Kind = "agrees" if word == cell.text else "disagrees"
    why = f"{word} in the file"
    return Finding(Place.of(cell), cell.text, "our own count", kind, why, "the file")


def audit_stated(counting: Counting, filled: Published | None = None) -> Audit:
    """Audit the numbers that MGRetrieval's text states; `filled` are cells of its tables."""
    cells = read_cells(Published.read("mgretrieval-stated"))
    order = [(Place.of(cell), cell.text) for cell in cells]
    filled = filled or Published.read("mgretrieval")
    found = list(_stated_findings(stated.Stated(cells), counting, filled))
    return Audit("mgretrieval-stated", tuple(_completed(rows(found, order), order)), cells)


def _stated_findings(
    numbers: stated.Stated, counting: Counting, filled: Published
) -> Iterator[Finding]:
    locomo, gvd = counting("locomo"), counting("gvd")
    yield from stated.gains(numbers)
    if isinstance(locomo, Missing):
        yield from stated.tokens(numbers, None, None, locomo.reason)
        yield from stated.case(numbers, None, None, locomo.reason)
    else:
        forms = {
            "dated sessions": session_dated,
            "dated turns": turn_dated,
            stated.RAW: locomo.raw_text,
        }
        texts = {name: n for name, form in forms.items() if (n := locomo.full_tokens(form))}
        questions = locomo.questions()
        yield from stated.tokens(numbers, questions, texts or None, no_tokens())
        items = {"exchange": locomo.items(exchanges), "turn": locomo.items(single_turns)}
        yield from stated.money(numbers, questions, items, _prices())
        if (length := locomo.item_tokens()) is not None:
            yield from stated.items(numbers, length)
        where, evidence = str(CASE["conversation"]), str(CASE["evidence"])
        answer = numbers.cell("case study: final answer").text
        yield from stated.case(
            numbers,
            mentioning(locomo, where, CASE["words"]),
            agreement_with_gold(locomo, where, evidence, answer),
            "",
        )
    yield from stated.filled_gains(numbers, read_cells(filled))
    yield from stated.times(numbers)
    yield from stated.settings(numbers)

    def counted(key: str) -> tuple[Fraction | None, str]:
        counts = gvd if key in ("users", "days") else locomo
        if isinstance(counts, Missing):
            return None, counts.reason
        s = counts.statistics
        found = {
            "conversations": (Fraction(s.conversations), "conversations"),
            "turns": (Fraction(s.turns, s.conversations), f"{s.turns:,} turns"),
            "sessions": (Fraction(counts.most_sessions), "most sessions of one conversation"),
            "users": (Fraction(s.conversations), "users"),
            "days": (Fraction(counts.most_sessions), "most days of one user"),
        }
        return found[key]

    names = {
        "conversations": "conversations",
        "turns per conversation (mean)": "turns",
        "sessions per conversation (max)": "sessions",
        "virtual users": "users",
        "days": "days",
    }
    yield from stated.dataset(numbers, counted, names)


def _prices() -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
    prices = PriceList.read(CONFIGS)
    main, auxiliary = prices.of("gpt-4o"), prices.of("gpt-4o-mini")
    assert main is not None and auxiliary is not None  # configs/prices.yaml lists both
    return _exact(main), _exact(auxiliary)


def _exact(price: Price) -> tuple[Fraction, Fraction]:
    return Fraction(str(price.input)), Fraction(str(price.output))


def _completed(found: list[Row], order: list[tuple[Place, str]]) -> Iterator[Row]:
    """Yield every cell's row; one that no test applies to is said to be so."""
    by_key = {(row.place, row.printed): row for row in found}
    for key in dict.fromkeys(order):
        place, printed = key
        none = Finding(place, printed, "none", "not testable", "nothing here to hold it against")
        yield by_key.pop(key, Row(place, printed, (none,)))
    yield from by_key.values()


def _title(paper: str, cells: tuple[Cell, ...]) -> str:
    return cells[0].paper if cells else {"memgas": "MemGAS", "mgretrieval": "MGRetrieval"}[paper]


def audit_all(counting: Counting | None = None) -> list[Audit]:
    """Audit everything published that we hold; every benchmark is counted at most once."""
    known: dict[str, Counts | Missing] = {}

    def once(name: str) -> Counts | Missing:
        if name not in known:
            known[name] = (counting or count)(name)
        return known[name]

    return [audit_tables("memgas", once), audit_stated(once), audit_tables("mgretrieval", once)]
