"""Every system of the answering tables answers the synthetic samples: no row is missing.

The chat model replies with noise, so that every system also has to live with replies that it
cannot read; the encoder knows the first words of a text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBackend
from tableruns import TableRow, all_rows, values_of

from eval.config import RunConfig
from eval.judging import Judging
from eval.prices import PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished, run
from eval.spec import RunSpec

FAKE = {"_target_": "fakes.FakeBackend"}
TABLES = ("memgas-1", "mgretrieval-1", "mgretrieval-2", "memgas-9")
CUT = ["dataset.sample=always", "dataset.max_conversations=1", "dataset.limit=2"]


def rows() -> list[TableRow]:
    return [row for row in all_rows() if row.table in TABLES and row.profile == "embedded"]


async def answered(row: TableRow, folder: Path) -> Finished:
    values = values_of([*row.overrides, *CUT])
    values |= {
        "llm": dict.fromkeys(("main", "auxiliary", "judge"), FAKE),
        "encoder": {"_target_": "shortsighted.ShortSighted", "limit": 165},
        "judge": {"_target_": None},
        "progress": "off",
        "stage": "answer",  # a timing row too: its seconds would mean nothing here
    }
    values["paths"] = {"results": str(folder), "stores": str(folder / "stores")}
    if "clustering" in values["method"]["build"]:
        values["method"]["build"]["clustering"]["reducer"] = "pca"  # UMAP takes its time to load
    choices = {"dataset": row.block.dataset, "method": row.row.method}
    spec = RunSpec.of(RunConfig(values, choices), Resources(), folder)
    return await run(spec, PriceList({}), Board("off"), Judging.of(spec))


@pytest.mark.parametrize(
    ("table", "block"), sorted({(row.table, row.block.label) for row in rows()})
)
async def test_no_row_is_missing(table: str, block: str, tmp_path: Path) -> None:
    FakeBackend.requests.clear()
    FakeBackend.failing.clear()
    counts: dict[str, int] = {}
    for row in rows():
        if (row.table, row.block.label) == (table, block):
            finished = await answered(row, tmp_path)
            failed: list[Any] = [record["error"] for record in finished.records if record["error"]]
            assert failed == [], row.label
            assert all(isinstance(record["answer"], str) for record in finished.records), row.label
            counts[row.row.label] = len(finished.records)
    asked = {label: n for label, n in counts.items() if label != "Oracle evidence"}
    assert len(set(asked.values())) == 1 and min(counts.values()) > 0, (
        "all answer the same questions"
    )
