"""Texts longer than the encoder's window are counted in builds and told beside the scores."""

from __future__ import annotations

import io

from rich.console import Console

from eval.judging import Judging
from eval.summary import cut_share, score_run, show
from eval.tables.fill import Cell, FilledBlock, FilledRow, FilledTable
from eval.tables.remarks import remarks
from eval.tables.spec import load_table

SHORT = {"_target_": "shortsighted.ShortSighted", "limit": 165}


async def test_the_share_of_cut_texts_reaches_builds_scores_and_the_last_lines(bench) -> None:
    asked = ("protocol=memgas", "stage=retrieve", "judge=none")
    finished = await bench.run(*asked, method=_session(), encoder=SHORT)
    texts = sum(build["counts"]["encoder.texts"] for build in finished.builds)
    cut = sum(build["counts"].get("encoder.texts_cut", 0) for build in finished.builds)
    sessions = [s for sample in _samples(finished) for s in sample.conversation.sessions]
    assert texts == len(sessions) > cut > 0
    score_run(finished, Judging.of(finished.spec))
    console = Console(width=200, record=True, file=io.StringIO())
    show(finished, console)
    said = f"texts cut at the encoder's window: {100 * cut / texts:.1f} % of {texts}"
    assert said in console.export_text()


async def test_a_memory_from_the_store_tells_the_same_share(bench) -> None:
    asked = ("protocol=memgas", "stage=retrieve", "judge=none")
    first = await bench.run(*asked, method=_session(), encoder=SHORT)
    again = await bench.run(*asked, "resume=false", method=_session(), encoder=SHORT)
    assert again.built == 0
    assert [b["counts"] for b in again.builds] == [b["counts"] for b in first.builds]


def test_nothing_is_said_of_a_run_without_an_encoder() -> None:
    assert cut_share({}) is None
    assert cut_share({"encoder.texts": 8}) == "0.0 % of 8"


def test_a_table_tells_the_share_of_each_row_below_it() -> None:
    spec = load_table("retrieval")
    block = spec.blocks["embedded"][0]
    counts = [{"encoder.texts": 8, "encoder.texts_cut": 6}, {"encoder.texts": 4}, {}]
    cells = tuple(Cell(1.0) for _ in spec.columns)
    rows = tuple(
        FilledRow(row, cells, costs={"counts": of})
        for row, of in zip(spec.rows, [*counts, counts[0]], strict=False)
    )
    filled = FilledBlock(block, rows, {})
    said = remarks(FilledTable("retrieval", "embedded", spec, (filled,)), filled)
    first, second, _, fourth = (row.label for row in spec.rows[:4])
    assert (
        f"texts cut at the encoder's window: 75.0 % of 8 ({first}, {fourth}); 0.0 % of 4 ({second})"
    ) in said


def _session() -> dict[str, object]:
    return {
        "_target_": "baselines.granularities.Granularity",
        "build": {"granularity": "session"},
        "ask": {},
    }


def _samples(finished):
    return finished.spec.dataset.load(finished.spec.protocol.rules)
