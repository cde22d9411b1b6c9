"""How a table is described: keys, faults in one sentence, tables of a paper in their order."""

from __future__ import annotations

import re

import pytest
import yaml

from eval.config import ROOT
from eval.tables import spec as module
from eval.tables.longform import FIELDS
from eval.tables.spec import Column, category_code, described, find_tables, load_table, natural
from memsys.errors import UserError

PLAIN = {
    "title": "A table",
    "paper": "ours",
    "protocol": "memgas",
    "columns": [{"measure": "f1_set", "heading": "F1"}],
    "rows": [{"label": "A", "method": "rag"}, {"label": "B", "method": "bm25"}],
    "blocks": {"embedded": [{"label": "LoCoMo", "dataset": "locomo"}]},
}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A function that writes a table into a folder of its own."""
    monkeypatch.setattr(module, "TABLES", tmp_path / "configs" / "table")
    monkeypatch.setattr(module, "CONFIGS", tmp_path / "configs")
    module.TABLES.mkdir(parents=True)

    def write(name="t", **changes):
        path = module.TABLES / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**PLAIN, **changes}), encoding="utf-8")
        return name

    return write


def column(**keys):
    return {"columns": [{"heading": "H", **keys}]}


def block(**keys):
    return {"blocks": {"embedded": [{"label": "L", "dataset": "locomo", **keys}]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colums": []}, "there is no key colums. Did you mean 'columns'"),
        (column(mesure="f1_set"), "there is no key columns.0.mesure. Did you mean 'measure'"),
        (column(measure="f1_sett"), "Did you mean 'f1_set'"),
        (column(), "column 'H' needs exactly one of measure and cost"),
        (column(measure="f1_set", cost="all.all.usd"), "exactly one of measure and cost"),
        (column(cost="all.all.usb"), "Did you mean 'usd'"),
        (column(cost="all.all.usd", per="day"), "columns.0.per: input should be 'question'"),
        (column(cost="all.all.usd", scale=0), "columns.0.scale: input should be greater than 0"),
        (column(cost="all.all.usd", category="temporal"), "a cost has no category"),
        (column(measure="f1_set", per="run"), "per and scale belong to a cost"),
        (column(measure="f1_set", scale=2), "per and scale belong to a cost"),
        (column(measure="f1_set", category="multihop"), "Did you mean 'multi-hop'"),
        (column(measure="f1_set", category="multi-session"), "is not known"),  # LongMemEval's
        ({"rows": [{"label": "A", "method": "rag"}] * 2}, "two rows have the same label"),
        (block(without=["a"]), "without: there is no row 'a'"),
        (block(stage="time"), "blocks.embedded.0.stage: input should be"),
        ({"reference": "A"}, "reference and primary belong together"),
        ({"reference": "C", "primary": "f1_set"}, "reference: there is no row 'C'"),
        ({"reference": "A", "primary": "bleu_corpus"}, "no value for a single question"),
        ({"ratios": [{"row": "A", "against": "B", "measure": "bleu1", "value": 1, "source": "s"}]},
         "no column shows bleu1"),
        ({"ratios": [{"row": "A", "against": "X", "measure": "f1_set", "value": 1, "source": "s"}]},
         "ratios: there is no row 'X'"),
    ],
)  # fmt: skip
def test_a_faulty_table_is_one_sentence_with_its_file(tables, changes, message) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_table(tables(**changes))
    assert str(caught.value).startswith("configs/table/t.yaml: ")
    assert "\n" not in str(caught.value)


def test_without_is_a_list_or_gives_reasons(tables) -> None:
    listed = load_table(tables("a", **block(without=["B"])))
    assert listed.blocks["embedded"][0].without == {"B": "not in the paper"}
    told = load_table(tables("b", **block(without={"B": "no evidence"})))
    assert told.blocks["embedded"][0].without == {"B": "no evidence"}


def test_a_column_selects_the_papers_cell() -> None:
    def selector(**keys):
        return Column(heading="H", measure="f1_set", **keys).selector

    assert selector() is None
    assert selector(published="F1") == {"metric": "F1"}
    assert selector(published="F1", category="temporal") == {"metric": "F1", "category": "temporal"}
    assert selector(published={"metric": "F1", "category": "x"}, category="temporal") == {
        "metric": "F1", "category": "x",
    }  # fmt: skip


def test_columns_have_names_and_definitions_of_their_own() -> None:
    cost = Column(heading="H", cost="build.main.tokens", per="run", scale=1e-6)
    assert cost.name == "build.main.tokens/run"
    assert cost.definition == (
        "tokens (prompt and completion) of the main model, phase build, the whole run, × 1e-06"
    )
    assert Column(heading="H", measure="f1_set", category="temporal").name == "f1_set[temporal]"


@pytest.mark.parametrize(
    ("word", "code"),
    [("1", "1"), ("multi-hop", "1"), ("Multi hop", "1"), ("open_domain", "3"), ("6", None)],
)
def test_a_category_goes_by_code_or_name(word, code) -> None:
    assert category_code({"1": "multi-hop", "3": "open-domain"}, word) == code


def test_a_papers_tables_come_by_number_and_one_number_may_have_several(tables) -> None:
    for name, number in (
        ("t-10", "10"),
        ("t-2-m", "2"),
        ("t-2-s", "2"),
        ("b", "1"),
        ("t-9a", "9a"),
    ):
        tables(name, paper="memgas", number=number)
    tables("sweep-x")
    assert find_tables("memgas", None) == ["b", "t-2-m", "t-2-s", "t-9a", "t-10"]
    assert find_tables("memgas", "2") == ["t-2-m", "t-2-s"]
    assert find_tables("ours", None) == ["sweep-x"]
    with pytest.raises(UserError, match="no TABLE=3 here. Known: 1, 2, 9a, 10."):
        find_tables("memgas", "3")


def test_numbers_sort_naturally_and_none_stands_last() -> None:
    assert sorted(["10", None, "9", "9b", "1", "A"], key=natural) == [
        "1",
        "9",
        "9b",
        "10",
        "A",
        None,
    ]


def test_a_paper_goes_on_without_the_tables_that_a_profile_does_not_fill(tables) -> None:
    tables("a")
    tables("b", blocks={"paper": [{"label": "L", "dataset": "locomo"}]})
    assert described(["a", "b"], "embedded") == (["a"], ["b"])
    with pytest.raises(UserError, match="not described for profile=local"):
        described(["a", "b"], "local")


def test_the_documented_table_is_a_table_and_the_documented_csv_is_ours(tables) -> None:
    text = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    load_table(tables("example", **yaml.safe_load(example.group(1))))
    documented = re.findall(r"`([^`]+)`", text.partition("## The CSV")[2])
    assert set(FIELDS) <= set(documented)
    keys = {*Column.model_fields, *module.Row.model_fields, *module.Block.model_fields}
    assert {key for key in keys if key not in text} == set()
