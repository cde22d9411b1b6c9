"""Every figure that is described can be made from its table, in every profile; the command."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.config import compose
from eval.figures import bars, lines, make
from eval.figures.data import RunData, blocks_of, gather
from eval.figures.make import category_names
from eval.figures.matrix import CASES
from eval.figures.spec import (
    Bars,
    Lines,
    Matrix,
    figure_names,
    find_figures,
    load_figure,
    parse_figure,
    table_of,
)
from eval.measures.registry import parse
from eval.tables.reproduce import overrides_of
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", figure_names())
def test_every_figure_has_a_frame_in_every_profile_of_its_table(name: str) -> None:
    spec = load_figure(name)
    table = table_of(spec)
    for profile in table.blocks:
        data = [
            RunData(block, row, reason="not run")
            for block in blocks_of(spec, table, profile)
            for row in table.rows
        ]
        points = make.frame_of(spec, data)
        assert points and all(point.reason for point in points)
    if spec.highlight is not None:
        assert any(spec.highlight in row.label for row in table.rows) or isinstance(spec, Lines)


@pytest.mark.parametrize("name", [n for n in figure_names() if isinstance(load_figure(n), Lines)])
def test_every_row_of_a_sweep_is_a_point_and_the_chosen_one_is_marked(name: str) -> None:
    spec = load_figure(name)
    assert isinstance(spec, Lines)
    table = table_of(spec)
    block = blocks_of(spec, table, "embedded")[0]
    data = [RunData(block, row, reason="not run") for row in table.rows]
    points = lines.frame(spec, data, table, category_names)
    assert {p.system for p in points} == {row.label for row in table.rows}
    if spec.x.chosen is not None:
        assert any(p.chosen for p in points)
    for point in points:  # a label that names the paper's value is the chosen one
        if "(paper)" in point.system and spec.x.chosen is not None:
            assert point.chosen


@pytest.mark.parametrize("name", figure_names())
def test_rows_of_a_figures_own_compose(name: str) -> None:
    spec = load_figure(name)
    table = table_of(spec)
    for row in spec.extra_rows:
        compose(overrides_of(table, blocks_of(spec, table, "embedded")[0], row, "embedded", []))


def test_measures_outcomes_and_best_rows_exist() -> None:
    for name in figure_names():
        spec = load_figure(name)
        labels = {row.label for row in table_of(spec).rows}
        for measure in getattr(spec, "measures", ()):
            parse(measure)
        if isinstance(spec, Bars):
            assert set(spec.best_of) <= labels
        if isinstance(spec, Matrix):
            parse(spec.judge)
            assert {s.outcome for s in spec.stated} <= set(CASES)
            assert {s.row for s in spec.stated} <= labels


def test_both_papers_are_whole() -> None:
    """Every figure of the papers that shows data; the others are drawings, prompts and cases."""
    numbers = {
        paper: {load_figure(n).number for n in find_figures(paper, None)}
        for paper in ("memgas", "mgretrieval")
    }
    assert numbers == {
        "memgas": {"1a", "3", "4", "5", "6", "7"}, "mgretrieval": {"3", "4", "6", "7"}
    }  # fmt: skip


def test_figures_are_found_by_paper_and_number() -> None:
    assert find_figures("memgas", "5") == ["memgas-5-alpha", "memgas-5-lambda"]
    assert find_figures("memgas", "1") == ["memgas-1a", "memgas-1a-answers"]
    with pytest.raises(UserError, match="has no FIGURE=2 here; there are 3, 4, 6, 7"):
        find_figures("mgretrieval", "2")
    with pytest.raises(UserError, match="Did you mean 'memgas'"):
        find_figures("memgaz", None)
    with pytest.raises(UserError, match="Did you mean 'sweep-cap'"):
        load_figure("sweep-cup")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind: radar", "kind: pie"), "kind"),
        (("measures: [f1_squad]", "measures: []"), "measures"),
        (("title: T", "titel: T"), "titel"),
    ],
)
def test_a_wrong_description_names_its_file_and_key(change, message) -> None:
    text = "kind: radar\ntitle: T\npaper: ours\ntable: memgas-1\nmeasures: [f1_squad]\n"
    with pytest.raises(UserError, match=rf"(?s)figure/x\.yaml is not a figure.*{message}"):
        parse_figure(text.replace(*change), "configs/figure/x.yaml")


def test_scores_and_costs_never_share_a_panel() -> None:
    text = (
        "kind: lines\ntitle: T\npaper: ours\ntable: sweep-depth\nx: {label: l}\n"
        "panels: [{label: both, columns: [F1], costs: {question.rounds: rounds}}]\n"
    )
    with pytest.raises(UserError, match="needs columns or costs, and never both"):
        parse_figure(text, "x")


def test_rows_and_blocks_that_a_table_lacks_are_named() -> None:
    text = "kind: radar\ntitle: T\npaper: ours\ntable: memgas-1\nmeasures: [f1_squad]\n"
    with pytest.raises(UserError, match=r"memgas-1 has no row 'MemGaz'.*'MemGAS'"):
        table_of(parse_figure(text + "rows: [MemGaz]\n", "x"))
    spec = parse_figure(text + "datasets: [gvd]\n", "x")
    with pytest.raises(UserError, match="has no block of gvd in profile=embedded"):
        blocks_of(spec, table_of(spec), "embedded")


class FakeRuns:
    """Finds every run in one folder, but for one method."""

    def __init__(self, folder: Path, refused: str) -> None:
        self.folder_, self.refused = folder, refused
        self.asked: list[list[str]] = []

    async def folder(self, overrides) -> Path:
        self.asked.append(list(overrides))
        if f"method={self.refused}" in overrides:
            raise UserError("not run yet\nin this setting")
        return self.folder_


def test_runs_are_those_of_the_table_and_missing_ones_keep_their_reason(bench, question) -> None:
    runs = FakeRuns(bench.folder([question(0)], None), refused="keyword")
    spec = load_figure("memgas-1a")
    data = asyncio.run(gather(spec, "embedded", ["dataset.limit=1"], runs, bench.root))
    table = table_of(spec)
    block = blocks_of(spec, table, "embedded")[0]
    assert runs.asked == [
        overrides_of(table, block, row, "embedded", ["dataset.limit=1"]) for row in table.rows
    ]
    assert [d.row.label for d in data if d.reason] == ["Keyword-level"]
    assert data[3].reason == "not run yet in this setting"
    best = next(b for b in bars.frame(spec, data) if b.role == "best")
    assert best.reason == "Keyword-level: not run yet in this setting"


def test_make_figure_writes_into_the_folder(bench, question, tmp_path) -> None:
    runs = FakeRuns(bench.folder([question(0), question(1, "c2")], None), refused="")
    made = asyncio.run(make.make_figure("memgas-1a", "embedded", [], runs, tmp_path / "out"))
    assert [p.name for p in made.written] == [
        f"memgas-1a-embedded.{kind}" for kind in ("csv", "svg", "png")
    ]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/figure.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_command_lists_figures_and_ends_bad_input_in_one_sentence() -> None:
    listed = command("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == figure_names()
    wrong = command("memgas-55", "--no-run", "dataset.limit=1")  # settings may come last
    assert wrong.returncode == 2
    assert re.fullmatch(r"error: There is no figure 'memgas-55'\..*\n", wrong.stderr)
