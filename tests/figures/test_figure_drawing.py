"""Drawings: equal bytes for equal data, text that stays text, warnings, and no stale picture."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.figures import style
from eval.figures.data import Point
from eval.figures.make import write_figure
from eval.figures.spec import parse_figure
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "configs" / "figure"
HEAD = 'title: "A title <b> & more"\npaper: ours\n'
SPECS = {
    "lines": "kind: lines\ntable: sweep-depth\nx: {label: depth, pattern: 'l = (?P<x>.+?)( |$)',"
    " chosen: 4}\npanels:\n  - {label: score, columns: [F1, BLEU-1]}\n"
    "  - {label: tokens, costs: {question.main.tokens: main}}\n",
    "lines-by": "kind: lines\ntable: sweep-depth\nby: category\nx: {label: depth,"
    " pattern: 'l = (?P<x>.+?)( |$)', scale: category}\npanels: [{label: score, columns: [F1]}]\n",
    "distribution": "kind: distribution\ntable: mgretrieval-1\nlabel: tokens\nhighlight: l = 4\n",
    "bars": "kind: bars\ntable: memgas-7\nmeasures: ['recall_all@1', 'ndcg@3']\n"
    "best_of: [l = 2, l = 3]\nbest_label: Optimal\n",
    "radar": "kind: radar\ntable: memgas-1\nmeasures: [f1_squad]\nhighlight: l = 4\n",
    "matrix": "kind: matrix\ntable: memgas-1\njudge: judge_memgas\n",
}


def spec_of(kind: str):
    return parse_figure(HEAD + SPECS[kind], kind)


def runs(bench, question, n: int = 40, **settings):
    """Three rows; `n` questions of three types in four conversations, half of them right."""
    found = []
    for row, label in enumerate(("l = 2", "l = 3", "l = 4")):
        records = [
            question(
                i, f"c{i % 4}", category=str(1 + i % 3), steps=[50 + i, 7 * row + 1],
                main=[100 + i], answer="red car" if (i + row) % 2 else "no",
                ranked_sessions=["s1", "s2"] if (i * row) % 3 else ["s2", "s1"],
            )
            for i in range(n)
        ]  # fmt: skip
        verdicts = {i: float(i % 2) for i in range(n)}
        found.append(bench.data(label, records, verdicts, **settings))
    return found


@pytest.mark.parametrize("kind", SPECS)
def test_equal_data_gives_equal_bytes_and_text_is_text(kind, bench, question, tmp_path) -> None:
    data = runs(bench, question)
    first = write_figure("f", spec_of(kind), "embedded", data, tmp_path / "a")
    again = write_figure("f", spec_of(kind), "embedded", data, tmp_path / "b")
    assert [p.suffix for p in first.written] == [".csv", ".svg", ".png"]
    for one, other in zip(first.written, again.written, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.name == f"f-embedded{one.suffix}"
    assert first.written[2].read_bytes().startswith(b"\x89PNG")
    # text stays text, and says where the numbers come from
    svg = first.written[1].read_text(encoding="utf-8")
    assert "A title &lt;b&gt; &amp; more</text>" in svg
    assert "Profile embedded; level: own prompts" in svg
    assert "prompts: ours" in svg
    assert "No reproduction" not in svg
    assert "<dc:date>" not in svg
    assert "sans-serif" in svg


@pytest.mark.parametrize("kind", SPECS)
def test_a_cut_is_visibly_no_reproduction(kind, bench, question, tmp_path) -> None:
    data = runs(bench, question, 3, cut="3 questions")
    made = write_figure("f", spec_of(kind), "embedded", data, tmp_path)
    svg = made.written[1].read_text(encoding="utf-8")
    assert "No reproduction: a cut of the data</text>" in svg


def test_the_chosen_value_is_marked_and_curves_are_named(bench, question, tmp_path) -> None:
    made = write_figure("f", spec_of("lines"), "embedded", runs(bench, question), tmp_path)
    svg = made.written[1].read_text(encoding="utf-8")
    for word in (">paper<", ">F1<", ">BLEU-1<", ">depth<", ">score<"):
        assert word in svg


def test_nothing_to_draw_removes_an_older_picture_and_says_why(bench, question, tmp_path) -> None:
    spec = spec_of("lines")
    write_figure("f", spec, "embedded", runs(bench, question), tmp_path)
    missing = [bench.missing("l = 2", "not run yet in this setting")]
    made = write_figure("f", spec, "embedded", missing, tmp_path)
    assert made.undrawn == "not run yet in this setting"
    assert sorted(p.name for p in tmp_path.glob("f-*")) == ["f-embedded.csv"]


def test_a_row_that_is_missing_is_named_in_the_footer(bench, question, tmp_path) -> None:
    data = [*runs(bench, question), bench.missing("l = 5", "no key for it")]
    made = write_figure("f", spec_of("lines"), "embedded", data, tmp_path)
    assert "Left out: l = 5: no key for it." in made.written[1].read_text(encoding="utf-8")


def test_without_drawing_the_data_are_written_alone(bench, question, tmp_path) -> None:
    made = write_figure(
        "f", spec_of("bars"), "embedded", runs(bench, question), tmp_path, draw=False
    )
    assert [p.name for p in made.written] == ["f-embedded.csv"]


def test_matplotlib_is_loaded_only_to_draw() -> None:
    code = (
        "import sys; import eval.figures.make; sys.exit(any(m.startswith('matplotlib')"
        " for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


def test_a_missing_matplotlib_is_one_clear_sentence(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r'pip install -e "\.\[plots\]"'), style.styled():
        pass


def test_a_reason_is_said_once_for_all_that_it_is_of() -> None:
    points = [Point(block="b", system=s, reason=r) for s, r in ("Ax", "Bx", "Cy", "Ax", ("D", ""))]
    assert style.reasons(points) == ["A, B: x", "C: y"]


def test_only_other_models_are_named_a_warning_too() -> None:
    point = Point(block="b", system="s", n=3, level="other model", run="r")
    assert style.caption("t", "embedded", [point]).warning == "Not the paper's models"
    real = Point(block="b", system="s", n=3, level="own prompts", run="r")
    assert style.caption("t", "paper", [point, real]).warning == ""
    ours = Point(block="b", system="s", n=3, level="sample", run="r")
    warning = style.caption("t", "embedded", [ours, point]).warning
    assert warning == "No reproduction: synthetic data of ours"


@given(st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=12), st.floats(0.01, 3.0))
def test_labels_are_apart_inside_and_in_order(wanted, gap) -> None:
    found = style.spread(wanted, gap, 0.0, 10.0)
    assert all(-1e-6 <= f <= 10 + 1e-6 for f in found)
    ordered = sorted(found)
    room = min(gap, 10.0 / max(len(wanted) - 1, 1))
    assert all(b - a >= room - 1e-6 for a, b in pairwise(ordered))
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    assert [found[i] for i in order] == ordered


def test_labels_with_room_stay_where_they_are() -> None:
    assert style.spread([1.0, 5.0, 9.0], 1.0, 0.0, 10.0) == [1.0, 5.0, 9.0]
    assert style.spread([5.0, 5.0], 1.0, 0.0, 10.0) == [4.5, 5.5]


def test_the_highlighted_system_has_a_colour_of_its_own() -> None:
    names = ["A", "B", "MemGAS", *"CDEFGH"]
    found = style.colour_of(names, "MemGAS")
    assert found["MemGAS"] == 1
    assert 1 not in [place for name, place in found.items() if name != "MemGAS"]
    assert style.colour_of(["A", "B"], None) == {"A": 0, "B": 1}


@pytest.mark.parametrize("width", [style.NARROW, 4.4, 7.0])
def test_every_title_lies_within_the_page(width) -> None:
    titles = [parse_figure(p.read_text(), p.stem).title for p in FIGURES.glob("*.yaml")]
    assert len(titles) > 10
    with style.styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        for title in titles:
            figure = style.page(style.Caption(title, "", ()), width, 2.0)
            canvas = FigureCanvasAgg(figure)
            drawn = figure.texts[0].get_window_extent(canvas.get_renderer())
            assert 0 <= drawn.x0 < drawn.x1 <= figure.bbox.width, title
