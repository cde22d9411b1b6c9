"""Cells from runs: costs, categories, parts of the records, rows left out, marks, all formats."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from runmade import build, call, record, write_run

from eval.config import CONFIGS
from eval.records import key_of
from eval.runfolder import RunFolder
from eval.tables.fill import Cell, FilledTable, fill_block, measures_of
from eval.tables.measured import Measured, RunFolders, fits
from eval.tables.published import Published
from eval.tables.spec import Column, TableSpec
from eval.tables.terminal import _groups
from eval.tables.write import comma_separated, latex, markdown, show_table, write_table

SIZES = {"1": 282, "2": 321, "3": 96, "4": 841}


def spec(columns, **more) -> TableSpec:
    plain = {
        "title": "T",
        "paper": "ours",
        "protocol": "mgretrieval",
        "columns": columns,
        "rows": [{"label": "A", "method": "rag", "published": "A"}],
        "blocks": {"embedded": [{"label": "LoCoMo", "dataset": "locomo"}]},
    }
    return TableSpec.model_validate({**plain, **more})


def filled(of: TableSpec, found: dict, root: Path, published=None) -> FilledTable:
    block = of.blocks["embedded"][0]
    one = fill_block(of, block, found, root, published, RunFolders({}))
    return FilledTable("t", "embedded", of, (one,))


def lines(table: FilledTable) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(comma_separated(table))))


def wrong(conversation: str, index: int, **more):
    return record(conversation, index, answer="Oslo", **more)


COST = {"cost": "question.main.tokens", "heading": "tok.", "published": "tokens", "digits": 1}


@pytest.fixture
def paid(tmp_path) -> Path:
    tokens = [call("question", tokens=(100 * (i + 1), 10)) for i in range(4)]
    return write_run(
        tmp_path / "run",
        [record("c", i, calls=[tokens[i]]) for i in range(4)],
        builds=[build("c", 2, 3.0, call("build", tokens=(1000, 0)))],
        measures=["f1_set"],
    )


def test_a_cost_is_a_plain_number_beside_the_papers_with_the_difference_in_per_cent(paid) -> None:
    of = spec([COST, {"measure": "f1_set", "heading": "F1"}], published="x")
    published = Published(({"method": "A", "metric": "tokens", "value": "200"},))
    table = filled(of, {"A": paid}, paid.parent, published)
    cell = table.blocks[0].rows[0].cells[0]
    assert (cell.value, cell.n, cell.low, cell.high, cell.verdict) == (260.0, 4, None, None, "")
    assert cell.level == "exact"  # and yet no verdict: a cost has no interval
    text = markdown(table)
    assert "| A | 260.0 / 200.0 (+30.0 %) | 100.00 | 4 | 0 | exact |" in text
    assert "- without ±: all questions have the same value (F1)" in text
    assert "not ×100" in text
    assert "**tok.**: tokens (prompt and completion) of the main model, phase question" in text
    assert "260.0 (200.0)" in latex(table)
    row = lines(table)[0]
    assert row["measure"] == "question.main.tokens" and row["per"] == "question"
    assert row["value"] == "260.000000" and row["difference in %"] == "30.000000"
    console = Console(width=120, record=True, file=io.StringIO())
    show_table(table, console)
    assert "costs are plain numbers" in console.export_text()


def test_scale_and_divisor(paid) -> None:
    cost = {"cost": "all.all.prompt_tokens", "heading": "M", "per": "run", "scale": 1e-3}
    table = filled(spec([cost]), {"A": paid}, paid.parent)
    assert table.blocks[0].rows[0].cells[0].value == pytest.approx(2.0)
    assert "× 0.001" in markdown(table)


def test_a_model_without_a_price_leaves_the_cell_blank_and_says_so(paid) -> None:
    of = spec([{"cost": "question.all.usd", "heading": "$"}])
    table = filled(of, {"A": paid}, paid.parent)
    assert table.blocks[0].rows[0].cells[0] == Cell(None, reason="no price for m")
    assert "- $: no price for m" in markdown(table)


def test_seconds_say_whether_they_are_response_times(paid) -> None:
    table = filled(spec([{"cost": "question.seconds", "heading": "s"}]), {"A": paid}, paid.parent)
    assert "s: measured while other questions ran" in markdown(table)


def four_categories(folder: Path) -> Path:
    """As many questions as LoCoMo's four categories have, 40, 50, 30 and 60 % of them right."""
    rates = {"1": 0.40, "2": 0.50, "3": 0.30, "4": 0.60}
    records = []
    for category, size in SIZES.items():
        for i in range(size):
            make = record if i < round(rates[category] * size) else wrong
            records.append(make(f"c{i % 10}", len(records), category=category))
    return write_run(folder, records, measures=["f1_set", "bleu1"])


def test_mgretrievals_average_is_the_mean_weighted_by_282_321_96_841(tmp_path) -> None:
    names = ("multi-hop", "temporal", "open-domain", "single-hop")
    columns = [
        {"measure": measure, "heading": f"{measure} {name}", **({"category": name} if name else {})}
        for measure in ("f1_set", "bleu1")
        for name in (*names, None)
    ]
    table = filled(spec(columns), {"A": four_categories(tmp_path / "run")}, tmp_path)
    cells = table.blocks[0].rows[0].cells
    for start in (0, 5):
        single, average = cells[start : start + 4], cells[start + 4]
        assert [cell.n for cell in single] == list(SIZES.values())
        weighted = sum(SIZES[c] * cell.value for c, cell in zip(SIZES, single, strict=True)) / 1540
        assert average.value == pytest.approx(weighted, abs=1e-9)
        assert average.n == 1540
        # 113, 160 or 161, 29 and 505 right answers
        assert average.value == pytest.approx(52.38, abs=0.05)
        assert average.value != pytest.approx(sum(c.value for c in single) / 4, abs=1)
    assert [row["category"] for row in lines(table)[:5]] == [*names, ""]
    assert "category temporal alone" in markdown(table)


def test_the_protocol_asks_these_four_categories_alone() -> None:
    protocol = yaml.safe_load((CONFIGS / "protocol" / "mgretrieval.yaml").read_text("utf-8"))
    assert protocol["rules"]["categories"] == list(SIZES)
    assert protocol["rules"]["category5"] == "exclude"


def test_a_category_selects_its_own_published_cell_and_may_be_empty(tmp_path) -> None:
    cells = [
        {"method": "A", "metric": "F1", "category": c, "value": v}
        for c, v in (("average", "50"), ("temporal", "40"))
    ]
    folder = write_run(tmp_path / "run", [record("c", 0, category="2")], measures=["f1_set"])
    of = spec(
        [
            {"measure": "f1_set", "category": "temporal", "heading": "t", "published": "F1"},
            {"measure": "f1_set", "heading": "avg",
             "published": {"metric": "F1", "category": "average"}},
            {"measure": "f1_set", "category": "open-domain", "heading": "o"},
        ],
        published="x",
    )  # fmt: skip
    table = filled(of, {"A": folder}, tmp_path, Published(tuple(cells)))
    temporal, average, open_domain = table.blocks[0].rows[0].cells
    assert (temporal.published, average.published) == (40, 50)
    assert open_domain.reason == "no question of category 'open-domain'"


def test_a_row_may_score_a_part_of_the_records_anew(tmp_path) -> None:
    records = [
        record("c1", 0, rounds=2, trace={"stop": "sufficient"}, calls=[call("question")]),
        wrong("c1", 1, rounds=2, trace={"stop": "sufficient"}, calls=[call("question")] * 3),
        wrong("c2", 0, rounds=2, trace={"stop": "limit"}),
        wrong("c2", 1, rounds=1, trace={}),
    ]
    folder = write_run(
        tmp_path / "run",
        records,
        builds=[build("c1", 1, 1.0), build("c2", 5, 9.0)],
        measures=["f1_set"],
    )
    where = {"rounds": 2, "trace.stop": "sufficient"}
    of = spec(
        [
            {"measure": "f1_set", "heading": "F1"},
            {"cost": "question.main.calls", "heading": "calls"},
            {"cost": "build.units", "per": "run", "heading": "units"},
        ],
        rows=[
            {"label": "all", "method": "rag"},
            {"label": "part", "method": "rag", "where": where},
            {"label": "none", "method": "rag", "where": {"rounds": 7}},
        ],
    )
    table = filled(of, dict.fromkeys(("all", "part", "none"), folder), tmp_path)
    whole, part, none = table.blocks[0].rows
    assert [c.value for c in whole.cells] == [25.0, 1.0, 6.0] and whole.n == 4
    assert [c.value for c in part.cells] == [50.0, 2.0, 1.0] and part.n == 2
    assert none.reason == "no record has rounds = 7" and none.n == 0


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, True),
        ({"rounds": 1}, True),
        ({"rounds": "1"}, False),
        ({"rounds": True}, False),
        ({"error": None}, True),
        ({"trace.deep.key": "v"}, True),
        ({"trace.deep.other": None}, False),
        ({"answer.text": "Lima"}, False),
    ],
)
def test_where_compares_fields_by_dotted_path(where, expected) -> None:
    assert fits(record("c", 0, trace={"deep": {"key": "v"}}), where) is expected


def test_a_row_that_a_block_does_not_have_is_blank_with_the_reason(paid) -> None:
    of = spec(
        [{"measure": "f1_set", "heading": "F1"}],
        rows=[{"label": label, "method": "rag"} for label in "ABC"],
    )
    found = {"A": paid, "B": "not in the paper", "C": "not in the paper"}
    table = filled(of, found, paid.parent)
    assert [row.n for row in table.blocks[0].rows] == [4, 0, 0]
    assert "- B, C: not in the paper" in markdown(table)


def test_measures_that_another_table_did_not_score_are_scored_from_the_records(tmp_path) -> None:
    records = [record("c", 0), wrong("c", 1), record("c", 2, error="x", answer=None)]
    folder = write_run(tmp_path / "run", records, measures=["f1_set"])
    one = Measured(RunFolder(folder), ("f1_set", "rouge1", "recall_all@3", "judge_memgas"), {})
    fresh = Measured(RunFolder(write_run(tmp_path / "b", records)), one.measures, {})
    assert one.scores["mean"] == fresh.scores["mean"]
    assert "judge_memgas" not in one.scores["mean"]  # nobody judged
    assert one.values("rouge1") == {("c", 0): 1.0, ("c", 1): 0.0}
    assert one.scores["counts"]["rouge1"] == {"n": 2, "n_failed": 1, "n_excluded": 0}


def test_scores_older_than_the_records_or_of_an_older_definition_are_not_believed(tmp_path) -> None:
    records = [record("c", 0), wrong("c", 1)]
    folder = write_run(tmp_path / "run", records[:1], measures=["f1_set"])
    newer = write_run(tmp_path / "newer", records)
    (newer / "scores.json").write_bytes((folder / "scores.json").read_bytes())
    one = Measured(RunFolder(newer), ("f1_set", "rouge1"), {})
    assert one.scores["counts"]["f1_set"]["n"] == 2
    assert set(Measured(RunFolder(newer), ("f1_set",), {}).values("f1_set")) == {
        key_of(r) for r in records
    }
    old = (folder / "scores.json").read_text().replace('"f1_set": 1.0', '"f1_set": 0.5')
    old = old.replace('"versions": {"f1_set": 1', '"versions": {"f1_set": 0')
    (folder / "scores.json").write_text(old)
    assert Measured(RunFolder(folder), ("f1_set",), {}).scores["mean"]["f1_set"] == 1.0


def marked(tmp_path, conversations: int) -> FilledTable:
    """B is wrong where A is right, in one question of two."""
    keys = [(f"c{c}", i) for c in range(conversations) for i in range(4)]
    a = write_run(tmp_path / "a", [record(*key) for key in keys], measures=["f1_set"])
    b = write_run(
        tmp_path / "b",
        [(wrong if key[1] % 2 else record)(*key) for key in keys],
        measures=["f1_set"],
    )
    of = spec(
        [{"measure": "f1_set", "heading": "F1"}, {"measure": "rouge1", "heading": "R"}],
        rows=[
            {"label": "A", "method": "rag"},
            {"label": "B", "method": "bm25"},
            {"label": "C", "method": "full"},
        ],
        reference="A",
        primary="f1_set",
    )
    return filled(of, {"A": a, "B": b, "C": "not run yet"}, tmp_path)


def test_marks_stand_at_the_primary_measure_in_every_format(tmp_path) -> None:
    table = marked(tmp_path, 10)
    first, second, third = table.blocks[0].rows
    assert (first.mark, second.mark, third.mark) == ("", "▼", "")
    assert second.compared.difference == pytest.approx(-50)
    text = markdown(table)
    assert "| B | 50.00 ▼ | 50.00 |" in text
    assert "- ▲ ▼: above, below A in F1" in text and "a single comparison" in text
    assert "50.00$\\downarrow$ & 50.00 &" in latex(table)
    rows = lines(table)
    assert [row["mark"] for row in rows] == ["", "", "▼", "", "", ""]
    assert rows[2]["difference to reference"] == "-50.000000"
    assert float(rows[2]["p (Holm)"]) == pytest.approx(2 / 1024, abs=1e-6)
    assert rows[3]["p (Holm)"] == ""
    console = Console(width=120, record=True, file=io.StringIO())
    show_table(table, console)
    assert "50.00▼" in console.export_text()


def test_a_cell_without_spread_has_no_interval_and_the_reason_stands_below(tmp_path) -> None:
    table = marked(tmp_path, 10)
    first, second, _ = table.blocks[0].rows
    for cell in (*first.cells, *second.cells):
        assert (cell.low, cell.high, cell.verdict) == (None, None, "")
    same, even = "all questions have the same value", "all conversations have the same mean"
    text = markdown(table)
    assert f"- without ±: {same} (F1, R)" in text and f"- without ±: {even} (F1, R)" in text
    assert [row["no interval"] for row in lines(table)] == [same, same, even, even, "", ""]
    console = Console(width=120, record=True, file=io.StringIO())
    show_table(table, console)
    shown = console.export_text()
    assert f"without ±: {same} (F1, R)" in shown and "±0.00" not in shown


def test_a_mark_without_its_column_stands_at_the_label(tmp_path) -> None:
    table = marked(tmp_path, 10)
    other = table.spec.model_copy(
        update={"columns": (Column(measure="rouge1", heading="R"),), "primary": "f1_set"}
    )
    assert measures_of(other) == ("rouge1", "f1_set")
    block = table.blocks[0]
    rows = tuple(replace(row, cells=row.cells[1:]) for row in block.rows)
    shown = markdown(replace(table, spec=other, blocks=(replace(block, rows=rows),)))
    assert "| B ▼ | 50.00 |" in shown


def test_one_conversation_gets_no_mark(tmp_path) -> None:
    table = marked(tmp_path, 1)
    assert not any(row.mark for row in table.blocks[0].rows)
    assert "no row is marked against A: the questions are of one conversation" in markdown(table)


def test_ratios_may_be_of_costs(paid) -> None:
    ratio = {"row": "A", "against": "B", "measure": "question.main.tokens", "value": -10.0,
             "source": "text"}  # fmt: skip
    of = spec(
        [COST],
        rows=[{"label": "A", "method": "rag"}, {"label": "B", "method": "full"}],
        ratios=[ratio],
    )
    text = markdown(filled(of, {"A": paid, "B": paid}, paid.parent))
    assert "tok., A against B: +0.00 % (level: exact) (the paper states -10.00 %, text)" in text


def test_each_file_is_read_once_however_many_rows_share_the_run(paid, monkeypatch) -> None:
    read: list[str] = []
    plain = RunFolder._all
    monkeypatch.setattr(
        RunFolder, "_all", lambda self, stem: read.append(stem) or plain(self, stem)
    )
    rows = [{"label": str(i), "method": "rag", "where": {"rounds": 1}} for i in range(5)]
    of = spec([COST, {"measure": "f1_set", "heading": "F1"}], rows=rows)
    filled(of, {str(i): paid for i in range(5)}, paid.parent)
    assert sorted(read) == ["builds", "records"]


def test_files_are_written_in_three_formats(paid, tmp_path) -> None:
    table = filled(spec([COST]), {"A": paid}, paid.parent)
    written = write_table(table, tmp_path / "tables")
    assert [path.name for path in written] == ["t-embedded.md", "t-embedded.csv", "t-embedded.tex"]
    assert all(path.read_text(encoding="utf-8") for path in written)


def test_wide_tables_go_on_below_rather_than_lose_their_names() -> None:
    columns = [Column(measure="f1_set", heading=f"column {i}") for i in range(6)]
    rows = [["12.34\n±1.00"] * 6]
    groups = list(_groups(columns, ["MGRetrieval"], rows, 40))
    assert groups == [[0, 1, 2], [3, 4, 5]]
    assert list(_groups(columns, ["MGRetrieval"], rows, 200)) == [[0, 1, 2, 3, 4, 5]]
    assert list(_groups(columns, ["x" * 60], rows, 10)) == [[i] for i in range(6)]
