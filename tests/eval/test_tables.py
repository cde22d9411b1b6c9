"""Tables: cells beside the published ones, levels, differences, formats, missing rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from eval.tables.fill import FilledBlock, FilledTable, fill_row, missing_row
from eval.tables.level import differences, level, same_model, verdict
from eval.tables.published import Published
from eval.tables.spec import Block, TableSpec, find_tables, load_table, table_names
from eval.tables.write import comma_separated, latex, markdown, show_table
from memsys.errors import UserError

SPEC = TableSpec.model_validate(
    {
        "title": "A table",
        "paper": "memgas",
        "number": "8",
        "protocol": "memgas",
        "columns": [
            {"measure": "recall_all@3", "heading": "R@3", "published": "Recall@3"},
            {"measure": "meteor", "heading": "METEOR"},
        ],
        "rows": [
            {"label": "Dense_1", "method": "dense", "published": "MiniLM"},
            {"label": "Mine", "method": "bm25", "ours": True},
        ],
        "blocks": {"embedded": [{"label": "LoCoMo & co", "dataset": "locomo"}]},
        "ratios": [
            {"row": "Dense_1", "against": "Mine", "measure": "recall_all@3", "value": 10.0,
             "source": "text"}
        ],
    }
)  # fmt: skip
BLOCK = Block(label="LoCoMo & co", dataset="locomo", published={"dataset": "LoCoMo-10"})
PUBLISHED = Published(
    (
        {"table": "8", "dataset": "LoCoMo-10", "method": "MiniLM", "metric": "Recall@3",
         "value": "42.55"},
        {"table": "7", "dataset": "LoCoMo-10", "method": "MiniLM", "metric": "Recall@3",
         "value": "1.00"},
    )
)  # fmt: skip


def manifest(**changes):
    info = {"is_sample": False, "release": "official", "cut": None, "metadata": "llm"}
    info |= {k: v for k, v in changes.items() if k in info}
    return {
        "dataset_info": info,
        "identity": {
            "models": {"encoder": {"model": changes.get("encoder", "facebook/contriever")}}
            | ({"main": {"model": "m"}} if "prompts" in changes else {}),
            "prompts": changes.get("prompts", {}),
            "dataset": {"settings": {"labels": changes.get("labels")}},
        },
        "configuration": {"prompts": {"dir": changes.get("dir")}},
        "judging": None,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "exact"),
        ({"prompts": {"a": "1"}}, "own prompts"),
        ({"prompts": {"a": "1"}, "dir": "/mine"}, "exact"),
        ({"encoder": "all-MiniLM-L6-v2"}, "other model"),
        ({"metadata": "dataset"}, "other model"),
        ({"cut": "first 1 conversations"}, "cut"),
        ({"is_sample": True, "cut": "x"}, "sample"),
        ({"release": "custom"}, "other model"),
        ({"labels": "audited"}, "other model"),
    ],
)
def test_levels(changes, expected) -> None:
    found = level(manifest(**changes), {"encoder": "contriever"})
    assert found == expected


def test_prompts_that_no_model_read_make_no_difference() -> None:
    unread = manifest()
    unread["identity"]["prompts"] = {"a": "1"}
    assert differences(unread, {}) == []
    assert level(unread, {"encoder": "contriever"}) == "exact"


def test_differences_name_ours_and_the_papers() -> None:
    found = differences(
        manifest(encoder="x/all-minilm", cut="3 sessions"), {"encoder": "contriever"}
    )
    assert found == ["data: cut to 3 sessions", "encoder: x/all-minilm (paper: contriever)"]


@pytest.mark.parametrize(
    ("ours", "paper", "same"),
    [
        ("Qwen/Qwen3-14B", "Qwen3-14B", True),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini", True),
        ("gpt-4o-mini", "gpt-4o", False),
        ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", False),
    ],
)
def test_a_snapshot_is_its_model_but_not_the_other_way_round(ours, paper, same) -> None:
    assert same_model(ours, paper) is same


def test_only_reproductions_get_a_verdict() -> None:
    assert verdict(50, 48, 52, 51, "exact") == "agrees"
    assert verdict(50, 48, 52, 55, "own prompts") == "below"
    assert verdict(50, 48, 52, 45, "exact") == "above"
    assert verdict(50, 48, 52, 51, "cut") == verdict(50, 48, 52, 51, "sample") == ""


def run_folder(folder: Path, value: float) -> Path:
    folder.mkdir(parents=True)
    name = "recall_all@3"
    scores = {
        "mean": {name: value, "meteor": None},
        "intervals": {name: {"low": value - 0.02, "high": value + 0.02}},
        "counts": {name: {"n": 1986, "n_failed": 2, "n_excluded": 0}},
        "measures": {name: "Recall@3 (all; k/1986)"},
        "unavailable": {"meteor": "needs WordNet: apt-get install wordnet-base"},
        "costs": {},
    }
    (folder / "scores.json").write_text(json.dumps(scores))
    (folder / "manifest.json").write_text(json.dumps(manifest(encoder="x/all-minilm")))
    return folder


@pytest.fixture
def table(tmp_path) -> FilledTable:
    block = BLOCK.model_copy(update={"setting": {"encoder": "contriever"}})
    folder = run_folder(tmp_path / "run", 0.4436)
    rows = (
        fill_row(SPEC, block, SPEC.rows[0], folder, tmp_path, PUBLISHED),
        missing_row(SPEC, block, SPEC.rows[1], "not implemented | yet", PUBLISHED),
    )
    titles = {"recall_all@3": "Recall@3 (all; k/1986)", "meteor": "METEOR"}
    return FilledTable("t", "embedded", SPEC, (FilledBlock(block, rows, titles),))


def test_markdown_shows_ours_published_difference_failures_and_reasons(table) -> None:
    text = markdown(table)
    assert "| Dense_1 | 44.36 ± 2.00 / 42.55 (+1.81) | – | 1986 | 2 | other model |" in text
    assert "| Mine † | – | – | – | – | – |" in text
    assert "Mine: not implemented | yet" in text
    assert "METEOR: needs WordNet: apt-get install wordnet-base" in text
    assert "encoder: x/all-minilm (paper: contriever)" in text
    assert "**R@3**: Recall@3 (all; k/1986)" in text
    assert "R@3, Dense_1 against Mine: – (the paper states +10.00 %, text)" in text


def test_csv_is_long_form_and_reads_back(table) -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert len(rows) == 4
    assert rows[0]["value"] == "44.360000"
    assert rows[0]["published"] == "42.55"
    assert rows[0]["level"] == "other model"
    assert rows[0]["verdict"] == ""
    assert rows[2]["value"] == "" and rows[2]["reason"] == "not implemented | yet"


def test_latex_escapes_what_tex_would_read(table) -> None:
    text = latex(table)
    assert "LoCoMo \\& co" in text
    assert "Dense\\_1 & 44.36\\,$\\pm$\\,2.00 (42.55)" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1


def test_the_terminal_shows_the_same(table) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    show_table(table, console)
    shown = console.export_text()
    for part in ("44.36", "±2.00", "(42.55)", "every row: n = 1986, 2 failed; level: other model"):
        assert part in shown
    assert "differs from the paper in every row: encoder: x/all-minilm" in shown


@pytest.mark.parametrize("name", table_names())
def test_published_rows_and_columns_exist_in_the_papers_file(name: str) -> None:
    spec = load_table(name)
    if spec.published != "memgas":
        return
    published = Published.read(spec.published)
    methods = {cell["method"] for cell in published.cells}
    metrics = {cell["metric"] for cell in published.cells}
    assert {row.published for row in spec.rows if row.published} <= methods
    assert {column.published for column in spec.columns if column.published} <= metrics


def test_unknown_tables_and_papers_are_one_sentence() -> None:
    with pytest.raises(UserError, match="Did you mean 'memgas-1'"):
        load_table("memgas1")
    with pytest.raises(UserError, match="Did you mean 'memgas'"):
        find_tables("memgaz", None)
    with pytest.raises(UserError, match="no TABLE=12 here. Known: 1, 2"):
        find_tables("memgas", "12")


def test_the_blank_form_has_no_values_and_the_stated_file_has() -> None:
    assert Published.read("mgretrieval").cells == ()
    stated = Published.read("mgretrieval-stated")
    assert stated.value(method="MGRetrieval", metric="main LLM tokens per response") == 5799
