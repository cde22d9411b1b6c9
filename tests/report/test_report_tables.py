"""The tables' CSV files as the report reads them."""

from __future__ import annotations

import json
import os

from eval.report.tables import read_tables

FIELDS = (
    "table,profile,block,system,measure,definition,value,low,high,n,failed,published,difference,"
    "level,verdict,settings that differ,run,reason,mark,remark,no interval,new"
)


def test_tables_are_read_by_block_with_what_later_versions_add(tmp_path) -> None:
    rows = [
        FIELDS,
        "t1,paper,B,MemGAS,f1,F1 (ours; n=3),12.5,10,15,3,1,11,1.5,exact,agrees,a: b; c,x/runs/ab,"
        ",▲,,,later",
        't1,paper,B,RAG,f1,F1 (ours; n=3),,,,0,0,9,,,,,,not run yet,,,,',
        't1,paper,C,MemGAS,f1,F1 (ours; n=9),1,,,9,0,,,cut,,,,,,,a single question,',
    ]  # fmt: skip
    (tmp_path / "t1-paper.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "statistics.csv").write_text("dataset,sessions\nLoCoMo,272\n")
    configs = tmp_path / "configs"
    configs.mkdir()
    columns = [{"measure": "f1", "heading": "F1!"}]
    (configs / "t1.yaml").write_text(
        json.dumps({"title": "T", "paper": "memgas", "number": "1", "columns": columns})
    )
    (table,) = read_tables(tmp_path, configs)
    assert (table["title"], table["paper"], table["number"]) == ("T", "memgas", "1")
    first, second = table["blocks"]
    assert first["columns"][0]["heading"] == "F1!"
    row = first["rows"][0]
    assert (row["run"], row["differ"]) == ("ab", ["a: b", "c"])
    cell = row["cells"][0]
    assert (cell["value"], cell["low"], cell["published"], cell["difference"]) == (
        12.5,
        10,
        11,
        1.5,
    )
    assert (cell["verdict"], cell["level"], cell["failed"]) == ("agrees", "exact", 1)
    assert cell["mark"] == "▲"
    assert cell["more"] == {"new": "later"}
    assert first["rows"][1]["cells"][0]["value"] is None
    assert first["rows"][1]["cells"][0]["reason"] == "not run yet"
    assert len(second["rows"]) == 1


def test_columns_of_one_measure_are_told_apart_by_category(tmp_path) -> None:
    rows = ["table,block,system,measure,category,value",
            "t,B,S,f1,multi-hop,1", "t,B,S,f1,temporal,2"]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    (table,) = read_tables(tmp_path, tmp_path)
    assert [cell["value"] for cell in table["blocks"][0]["rows"][0]["cells"]] == [1, 2]


def test_our_own_table_files_are_read(monkeypatch, tmp_path) -> None:
    """Whatever the table writer's CSV holds today is what the report reads."""
    from eval.config import CONFIGS
    from eval.tables.fill import Cell, FilledBlock, FilledRow, FilledTable
    from eval.tables.spec import load_table
    from eval.tables.write import comma_separated

    spec = load_table("memgas-1")
    profile = next(iter(spec.blocks))
    block = spec.blocks[profile][0]
    cells = tuple(Cell(40.0 + i, 30.0, 50.0, 10, 0, 41.0, "exact", "agrees")
                  for i in range(len(spec.columns)))  # fmt: skip
    rows = (FilledRow(spec.rows[0], cells, ("main: x (paper: y)",), folder="results/runs/r/f1"),)
    titles = {column.measure: f"{column.heading} (definition)" for column in spec.columns}
    table = FilledTable("memgas-1", profile, spec, (FilledBlock(block, rows, titles),))
    (tmp_path / "memgas-1.csv").write_text(comma_separated(table), encoding="utf-8")
    (found,) = read_tables(tmp_path, CONFIGS / "table")
    assert found["title"] == spec.title
    (read,) = found["blocks"]
    assert [c["heading"] for c in read["columns"]] == [c.heading for c in spec.columns]
    assert [c["value"] for c in read["rows"][0]["cells"]] == [c.value for c in cells]
    assert read["rows"][0]["run"] == "f1"
    assert os.sep not in read["rows"][0]["run"]
