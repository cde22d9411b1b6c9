"""Traces become blocks by their shape; figures are whole, escaped and self-contained."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from eval.cases.blocks import Bars, Chips, Facts, Step, Steps, Text, plain, trace_blocks
from eval.cases.case import Case, Recalled, Told
from eval.cases.svg import columns_of, draw, wrapped
from eval.cases.terminal import show
from memsys.dialogue import Question

EVIL = '<script>alert("x")</script> & [bold]no[/bold]'


def never(unit: str) -> bool:
    return False


def blocks(trace):
    return trace_blocks(trace, lambda unit: unit == "u2")


def test_shapes() -> None:
    found = blocks(
        {
            "stop": "sufficient",
            "weights": {"session": 0.25, "turn": 0.75},
            "rounds": [{"round": 1, "answer": "a" * 60, "sufficient": False, "new": ["u1", "u2"]}],
            "seeds": ["u1", "u2"],
            "filtered": "b" * 60,
            "facts": {"user": 6, "note": "x"},
            "candidates": [["ann", "keeps", "bees"]],
            "evidence": ["c" * 60],
            "rewritten": True,
            "gaps": [],
        }
    )
    assert found == [
        Facts("settings and counts", {"stop": "sufficient", "rewritten": "yes", "gaps": "–"}),
        Bars("weights", {"session": 0.25, "turn": 0.75}),
        Steps(
            "rounds",
            (Step(("round 1", "sufficient no", "new u1, u2"), (("answer", "a" * 60),)),),
        ),
        Chips("seeds", ("u1", "u2"), frozenset({"u2"})),
        Text("filtered", "b" * 60),
        Steps("facts", (Step(("user 6", "note x"), ()),)),
        Steps("candidates", (Step(("ann, keeps, bees",), ()),)),
        Steps("evidence", (Step(("c" * 60,), ()),)),
    ]


def test_an_empty_trace_has_no_blocks() -> None:
    assert blocks({}) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), ("", "–"), ([], "–"), (True, "yes"), (0, "0"), (0.12345, "0.1235"),
     ({"a_b": [1, None]}, "a b 1, –"), (3, "3")],
)  # fmt: skip
def test_values_as_people_write_them(value, text) -> None:
    assert plain(value) == text


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def a_case(trace, text="memory") -> Case:
    question = Question(
        "c", 0, "q0", f"What? {text}", "1", datetime(2023, 5, 1), reference=text,
        evidence_turns=("1",),
    )  # fmt: skip
    recalled = [Recalled(1, "u1", 0.5, text, False), Recalled(2, "u2", 0.25, text, True)]
    told = Told(text, recalled, 3, trace_blocks(trace, never), text, {"f1": 0.5}, ["2 rounds"])
    return Case(question, [("1, 1 May 2023", text)], [told, Told("other", reason=text)])


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=8), json, max_size=5))
def test_any_trace_can_be_drawn_and_shown(trace) -> None:
    case = a_case(trace, "plain")
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    show(case, console)
    ET.fromstring(draw(case))


def test_bars_of_any_numbers_have_lengths() -> None:
    assert Bars("b", {"a": 1.0, "b": -4.0, "c": 0.0}).lengths() == [0.25, 1.0, 0.0]
    assert Bars("b", {"a": 7e306, "b": float("inf"), "c": 0.0}).lengths() == [1.0, 1.0, 0.0]
    assert Bars("b", {"a": float("-inf")}).lengths() == [1.0]


def test_texts_are_data_and_the_file_is_whole() -> None:
    case = a_case({"note": EVIL * 2, "list": [EVIL], "steps": [{"query": EVIL}]}, EVIL)
    drawn = draw(case)
    root = ET.fromstring(drawn)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "text"}
    shown = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert '<script>alert("x")</script>' in shown
    for outside in ("http://", "https://", "@import", "url("):
        assert outside not in drawn.replace('xmlns="http://www.w3.org/2000/svg"', "")
    console = Console(width=100, record=True)
    show(case, console)
    text = console.export_text()
    assert "[bold]no[/bold]" in text
    assert "✓  2. u2" in text
    assert "… 3 more" in text


def test_control_characters_reach_neither_file_nor_terminal() -> None:
    case = a_case({"a": "bell\x07 and \x00 null, \x1b[31mred" * 4}, "\x1b]0;title\x07")
    ET.fromstring(draw(case))
    console = Console(width=100, record=True, force_terminal=False)
    show(case, console)
    assert not {"\x1b", "\x07", "\x00"} & set(console.export_text())


def test_nothing_leaves_its_column() -> None:
    long = "word " * 60 + "unbroken" * 30
    root = ET.fromstring(draw(a_case({"a": long, "b": [long], "c": ["x" * 40] * 9}, long)))
    width = float(root.get("width"))
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(rect.get("x")) + float(rect.get("width")) <= width + 1
        assert float(rect.get("y")) + float(rect.get("height")) <= float(root.get("height")) + 1


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 7, ["one two", "three"]), ("", 5, []), ("a\nb", 5, ["a", "b"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]), ("记忆系统", 4, ["记忆", "系统"]),
    ],
)  # fmt: skip
def test_lines(text, columns, lines) -> None:
    assert list(wrapped(text, columns)) == lines


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet="ab 记\n", max_size=60), st.integers(2, 9))
def test_wrapping_loses_nothing(text, columns) -> None:
    lines = list(wrapped(text, columns))
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(columns_of(line) <= columns for line in lines)
