"""Each test of the audit on invented cells: what it finds, and what it must not find."""

from __future__ import annotations

from fractions import Fraction

import pytest

from eval.audit import agreement, possible, statements
from eval.audit.cells import Cell, absent_rows, read_cells
from eval.audit.findings import Finding, Place, rows
from eval.audit.rules import Denominator, Rules, Share, load_rules
from eval.tables.published import Published
from memsys.errors import UserError


def cell(text: str, **changes: str) -> Cell:
    fields = {
        "paper": "P", "table": "1", "dataset": "D", "llm": "", "retriever": "r", "method": "A",
        "metric": "Score", "category": "all", "source": "",
    } | changes  # fmt: skip
    fields["source"] = fields["source"] or f"Table {fields['table']}"
    return Cell(text=text, **fields)


def kinds(found: list[Finding]) -> list[str]:
    return [finding.kind for finding in found]


def test_the_cells_choose_their_denominator() -> None:
    cells = [cell(f"{100 * k / 47:.2f}", method=str(k)) for k in (3, 11, 40)]
    chosen = possible.choose_denominator([*cells, cell("yes")], {50: "all", 47: "most"})
    assert (chosen.n, chosen.meaning, chosen.misfits) == (47, "most", ())
    assert chosen.others[50] >= 1


def test_of_two_fitting_denominators_the_greater_is_taken() -> None:
    assert possible.choose_denominator([cell("50.00")], {2: "a", 4: "b"}).n == 4


def test_fractions_find_the_one_that_is_none() -> None:
    rule = Denominator(metrics=("Score",), datasets=("D",), candidates={7: "all"})
    found = possible.fractions([cell("14.29"), cell("14.50", method="B")], rule)
    assert kinds(found) == ["possible", "impossible"]
    assert found[0].why == "1/7"
    assert found[1].verdict == "impossible: neighbours 14.29 and 28.57"


def test_a_fraction_that_every_value_is_says_nothing() -> None:
    rule = Denominator(metrics=("Score",), datasets=("D",), candidates={20_000: "all"})
    assert kinds(possible.fractions([cell("14.29")], rule)) == ["not testable"]


def test_ranges_and_orders_by_definition() -> None:
    assert kinds(possible.in_range([cell("100.00"), cell("100.01")], ["Score"])) == [
        "possible",
        "impossible",
    ]
    row = [cell("50.00", metric="R@3"), cell("49.99", metric="R@5")]
    assert kinds(possible.not_below(row, [("R@5", "R@3")])) == ["possible"]  # may be equal
    row = [cell("50.00", metric="R@3"), cell("49.98", metric="R@5")]
    assert kinds(possible.not_below(row, [("R@5", "R@3")])) == ["impossible"]


def test_a_row_that_alone_breaks_an_order_is_odd_and_a_frequent_break_is_none() -> None:
    def pair(i: int, f1: str, rouge: str) -> list[Cell]:
        return [cell(f1, metric="F1", method=f"m{i}"), cell(rouge, metric="RL", method=f"m{i}")]

    nine = [c for i in range(11) for c in pair(i, "20.00", "19.50")]
    found = possible.usually_above([*nine, *pair(99, "17.00", "19.00")], [("F1", "RL")])
    odd = [f for f in found if f.kind == "odd"]
    assert [f.printed for f in odd] == ["17.00", "19.00"]
    assert "the 11 other rows of Table 1 exceed it by 0.50 to 0.50" in odd[0].why
    many = [*pair(1, "17.00", "19.00"), *pair(2, "20.00", "19.00")]
    assert possible.usually_above(many, [("F1", "RL")]) == []


def test_equal_values_of_two_methods_are_named_but_not_those_of_one_under_two_names() -> None:
    column = [cell("71.06", method=m) for m in ("Plain", "Session", "SeCom")]
    found = possible.coincidences(column, [("Plain", "Session")])
    assert [f.why for f in found] == [
        "the same value as SeCom",
        "the same value as SeCom",
        "the same value as Plain, Session",
    ]
    assert set(kinds(found)) == {"possible"}


def test_doubles_agree_or_disagree_and_another_model_is_no_double() -> None:
    cells = [
        cell("1.0"),
        cell("1.0", table="2", method="B"),
        cell("1.1", table="3"),
        cell("9.9", table="3", llm="other"),
    ]
    found = agreement.duplicates(cells, [("A", "B")])
    assert [f.verdict for f in found] == [
        "disagrees with Table 3",
        "disagrees with Table 3",
        "disagrees with Table 1 and Table 2",
    ]
    assert kinds(agreement.duplicates(cells[:2], [("A", "B")])) == ["agrees", "agrees"]
    assert agreement.duplicates(cells[:2], []) == []


def test_percentages_are_recomputed_from_their_totals() -> None:
    cells = [
        cell("52.9", metric="M", method="Base"),
        cell("106.2", metric="M"),
        cell("58.3", metric="M", method="C"),
        cell("200", metric="%"),
        cell("110", metric="%", method="C"),
    ]
    found = agreement.shares(cells, Share(amount="M", percent="%", base="Base"))
    assert kinds(found) == ["disagrees", "agrees"]
    assert "106.2/52.9 = 200.8 %" in found[0].why
    assert "200.5–201.0 %" in found[0].why


def test_a_weighted_average_may_differ_by_rounding_alone() -> None:
    def row(average: str) -> list[Cell]:
        values = {"average": average, "a": "10.00", "b": "20.00"}
        return [cell(text, category=name) for name, text in values.items()]

    weights = {"a": 1, "b": 3}
    assert kinds(agreement.weighted_averages(row("17.50"), weights, "average")) == ["agrees"]
    assert kinds(agreement.weighted_averages(row("17.51"), weights, "average")) == ["agrees"]
    assert kinds(agreement.weighted_averages(row("15.00"), weights, "average")) == ["disagrees"]
    found = agreement.weighted_averages(row("17.50")[:2], weights, "average")
    assert (kinds(found), found[0].why) == (["not testable"], "no cell for b")


def test_our_own_count_agrees_lies_between_or_disagrees() -> None:
    printed = cell("20.5")
    assert agreement.own_count(printed, [Fraction(205, 10)], "").kind == "agrees"
    assert agreement.own_count(printed, [Fraction(20), Fraction(21)], "").kind == "possible"
    assert agreement.own_count(printed, [Fraction(21), Fraction(22)], "").kind == "disagrees"


@pytest.fixture
def column() -> list[Cell]:
    values = {"Mine": "5.0", "X": "4.0", "Y": "6.0"}
    first = [cell(text, method=name) for name, text in values.items()]
    return [*first, *(cell("1.0" if c.method != "Mine" else "2.0", method=c.method, metric="T")
                      for c in first)]  # fmt: skip


def check(cells: list[Cell], **statement: object) -> Finding:
    rules = Rules.model_validate(
        {"published": "x", "statements": [{"id": "s", "where": "§1", "says": "it", **statement}]}
    )
    (found,) = statements.check(cells, rules.statements[0], "P")
    return found


def test_best_names_every_counterexample(column) -> None:
    found = check(column, check="best", method="Mine")
    assert found.verdict == "disagrees with Table 1"
    assert found.why == "1 of 2 comparisons; not Table 1 D Score: Y 6.0 > 5.0"
    assert check(column, check="best", method="Mine", against=["X"]).kind == "agrees"
    assert check(column, check="best", method="Mine", extent="most").kind == "disagrees"
    assert check(column, check="best", method="Mine", lowest=True).kind == "disagrees"
    assert check(column, check="best", method="Nobody").kind == "not testable"


def test_above_counts_equal_as_not_above() -> None:
    cells = [cell("5.0"), cell("5.0", method="B")]
    found = check(cells, check="above", upper={"method": "A"}, lower={"method": "B"})
    assert (found.kind, "A 5.0 ≤ B 5.0" in found.why) == ("disagrees", True)


def test_numbers_of_the_text_are_rounded_as_printed() -> None:
    cells = [cell("103137.4"), cell("500", metric="N")]
    where = {"metric": "Score"}
    assert check(cells, check="repeats", said="103", times=1000, cell=where).kind == "agrees"
    assert check(cells, check="repeats", said="115", times=1000, cell=where).kind == "disagrees"
    product = {"said": "51.6", "times": 10**6, "cell": where, "factor": {"metric": "N"}}
    assert check(cells, check="repeats", **product).kind == "agrees"
    assert check(cells, check="over", said="100000", cell=where).kind == "agrees"
    assert check(cells, check="over", said="200000", cell=where).kind == "disagrees"


def test_fractions_and_pointers_of_the_text() -> None:
    found = check([], check="fraction", said=["18.6"], candidates={470: "some", 500: "all"})
    assert (found.kind, "of 470 (some) 18.6 would not be" in found.why) == ("possible", True)
    found = check([], check="pointer", said="Figure 6", section_has=["Figure 3"])
    assert found.verdict == "disagrees with Figure 3"
    assert check([], check="pointer", said="Figure 3", section_has=["Figure 3"]).kind == "agrees"


def test_a_statement_about_a_cell_that_is_not_there_is_our_mistake() -> None:
    with pytest.raises(UserError, match="fits 0 published cells"):
        check([], check="over", said="1", cell={"metric": "Score"})


def test_a_row_shows_its_worst_verdicts_and_why() -> None:
    place = Place("P", "Table 1")
    found = [
        Finding(place, "1", "a", "possible", "1/7"),
        Finding(place, "1", "b", "disagrees", "other", "Table 2"),
        Finding(place, "1", "c", "impossible", "no", "0 and 2"),
    ]
    (row,) = rows(found, [])
    assert row.kind == "impossible"
    assert row.verdict == "disagrees with Table 2; impossible: neighbours 0 and 2"
    assert row.why == "no; other; 1/7"
    assert row.tests == "a; b; c"


def test_rows_that_a_dataset_lacks_are_named() -> None:
    cells = [cell("1"), cell("2", method="B"), cell("1", dataset="E")]
    assert absent_rows(cells) == ["Table 1, E: no row for B"]


def test_a_method_over_several_retrievers_is_told_by_its_retriever() -> None:
    def raw(method: str, retriever: str) -> dict[str, str]:
        return {"paper": "P", "table": "8", "dataset": "D", "llm": "", "retriever": retriever,
                "method": method, "metric": "M", "category": "all", "value": " 1.0 ",
                "source": "Table 8"}  # fmt: skip

    published = Published((raw("X", "a"), raw("X", "b"), raw("Y", "a")))
    cells = read_cells(published)
    assert [c.retriever_matters for c in cells] == [True, True, False]
    assert [Place.of(c).method for c in cells] == ["X (a)", "X (b)", "Y"]
    assert cells[0].text == "1.0"


def test_rules_that_cannot_be_read_are_one_sentence() -> None:
    with pytest.raises(UserError, match=r"configs/audit/nothing\.yaml cannot be used"):
        load_rules("nothing")
