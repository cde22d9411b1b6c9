"""From a table's description to its runs: who runs, how often, and who is left out."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from runmade import record, write_run

from eval.config import RunConfig
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished
from eval.tables import reproduce as module
from eval.tables.reproduce import Runs, filled_table, overrides_of
from eval.tables.spec import TableSpec
from memsys.errors import EndpointRefused, UserError

SPEC = {
    "title": "T",
    "paper": "ours",
    "protocol": "mgretrieval",
    "columns": [{"measure": "f1_set", "heading": "F1"}],
    "rows": [
        {"label": "A", "method": "rag"},
        {"label": "A again", "method": "rag"},
        {"label": "B", "method": "bm25"},
        {"label": "C", "method": "full"},
    ],
    "blocks": {"embedded": [{"label": "LoCoMo", "dataset": "locomo", "without": {"C": "why not"}}]},
}


def spec(**changes) -> TableSpec:
    return TableSpec.model_validate({**SPEC, **changes})


@dataclass
class FakeSpec:
    """As much of a `RunSpec` as the runs of a table look at."""

    config: RunConfig
    stage: str
    folder: object


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Runs that write a fixture instead of running; `made` lists them as (method, stage)."""
    made: list[tuple[str, str]] = []
    failing: dict[str, Exception] = {}

    def spec_of(config, resources=None, root=None):
        values = config.values
        folder = tmp_path / values["method"]
        return FakeSpec(config, values["stage"], folder)

    def compose(overrides):
        given = dict(part.split("=", 1) for part in overrides)
        values = {"method": given["method"], "stage": given["stage"], "resume": True,
                  "judge": {"_target_": "j"} if "judge" in given else None,
                  "measures": given["measures"], "timing": {"questions": 2}}  # fmt: skip
        return RunConfig(values, {})

    async def carry_out(one, board):
        method = one.config.values["method"]
        made.append((method, one.stage))
        if method in failing:
            raise failing[method]
        records = [record("c", i) for i in range(3)]
        if not one.folder.exists():
            write_run(one.folder, records, measures=["f1_set"])
        if one.stage == "timing":
            timed = [{"conversation": "c", "index": i, "seconds": 0.5, "calls": [], "error": None}
                     for i in range(2)]  # fmt: skip
            text = "".join(json.dumps(line) + "\n" for line in timed)
            (one.folder / "timing.jsonl").write_text(text)
        return Finished(one, records, [], [], 3, 1, 0, 0, 0.1)

    monkeypatch.setattr(module, "compose", compose)
    monkeypatch.setattr(module.RunSpec, "of", spec_of)
    monkeypatch.setattr(module, "carry_out", carry_out)
    monkeypatch.setattr(
        module,
        "with_stage",
        lambda one, stage: spec_of(RunConfig({**one.config.values, "stage": stage}, {})),
    )

    async def fill(of: TableSpec, *, ask: bool = True, extra=(), first_block=False):
        monkeypatch.setattr(module, "load_table", lambda name: of)
        runs = Runs(Resources(), Board("off"), parallel=4, ask=ask)
        return await filled_table("t", "embedded", extra, runs, first_block=first_block), runs

    fill.made, fill.failing = made, failing
    return fill


async def test_equal_rows_run_once_and_a_row_left_out_not_at_all(bench) -> None:
    table, runs = await bench(spec())
    assert sorted(bench.made) == [("bm25", "answer"), ("rag", "answer")]
    rows = table.blocks[0].rows
    assert [row.cells[0].value for row in rows] == [100.0, 100.0, 100.0, None]
    assert rows[3].reason == "why not"
    assert (runs.totals.runs, runs.totals.missing) == (2, 0)


async def test_a_row_that_cannot_run_is_missing_and_the_others_stand(bench) -> None:
    bench.failing["bm25"] = UserError("no encoder\nhere")
    table, runs = await bench(spec())
    assert table.blocks[0].rows[2].reason == "no encoder here"
    assert table.blocks[0].rows[0].cells[0].value == 100.0
    assert runs.totals.missing == 1


async def test_a_refusing_endpoint_ends_the_command(bench) -> None:
    bench.failing["bm25"] = EndpointRefused("wrong key")
    with pytest.raises(BaseExceptionGroup) as caught:
        await bench(spec())
    assert caught.group_contains(EndpointRefused)


async def test_the_first_block_alone_says_what_it_leaves_out(bench) -> None:
    blocks = {
        "embedded": [
            {"label": "L", "dataset": "locomo"},
            {"label": "S", "dataset": "longmemeval_s"},
        ]
    }
    table, _ = await bench(spec(rows=SPEC["rows"][:1], blocks=blocks), first_block=True)
    assert [block.block.label for block in table.blocks] == ["L"]
    assert table.spec.notes[-1] == "left out by --first-block: S"
    whole, _ = await bench(spec(rows=SPEC["rows"][:1], blocks=blocks))
    assert [block.block.label for block in whole.blocks] == ["L", "S"]


async def test_a_method_without_a_config_is_a_missing_row(bench) -> None:
    rows = [{"label": "C", "method": "nobody"}, *SPEC["rows"][:1]]
    blocks = {"embedded": [{"label": "L", "dataset": "locomo"}]}
    table, _ = await bench(spec(rows=rows, blocks=blocks))
    assert table.blocks[0].rows[0].reason == "there is no configs/method/nobody.yaml yet"


async def test_without_running_only_finished_runs_are_read(bench, tmp_path) -> None:
    write_run(tmp_path / "rag", [record("c", 0)], measures=["f1_set"])
    table, _ = await bench(spec(), ask=False)
    assert bench.made == []
    assert table.blocks[0].rows[0].cells[0].value == 100.0
    assert table.blocks[0].rows[2].reason == "not run yet in this setting"


TIMED = {
    "columns": [{"cost": "question.seconds", "heading": "s"}],
    "rows": SPEC["rows"][:1],
    "stage": "timing",
    "blocks": {"embedded": [{"label": "L", "dataset": "locomo"}]},
}


async def test_times_are_measured_after_all_questions_were_answered_and_then_kept(bench) -> None:
    table, runs = await bench(spec(**TIMED))
    assert bench.made == [("rag", "answer"), ("rag", "timing")]
    cell = table.blocks[0].rows[0].cells[0]
    assert cell.value == 0.5 and "one question at a time" in cell.remark
    assert runs.totals.runs == 1
    await bench(spec(**TIMED))
    assert bench.made[2:] == [("rag", "answer")]  # resumed, and not timed again


async def test_after_timing_a_judged_run_gets_its_own_manifest_back(bench) -> None:
    await bench(spec(**TIMED), extra=["judge=memgas"])
    assert bench.made == [("rag", "answer"), ("rag", "timing"), ("rag", "answer")]


def test_a_run_is_scored_by_its_columns_and_the_primary_measure() -> None:
    of = spec(
        columns=[
            {"measure": "f1_set", "heading": "a", "category": "temporal"},
            {"measure": "f1_set", "heading": "b"},
            {"cost": "all.all.calls", "heading": "c"},
        ],
        reference="A",
        primary="rouge1",
    )
    block = of.blocks["embedded"][0]
    overrides = overrides_of(of, block, of.rows[0], "embedded", ["x=1"])
    assert "measures=['f1_set','rouge1']" in overrides
    assert overrides[-1] == "x=1"
    timed = block.model_copy(update={"stage": "timing"})
    assert "stage=timing" in overrides_of(of, timed, of.rows[0], "embedded", [])
