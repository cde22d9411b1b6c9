"""A case end to end: the question found, runs read or made, memories shown with their text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cases.case import find_question
from eval.cases.collect import Wanted, collect
from eval.progress import Board
from eval.resources import Resources
from memsys.datasets.base import Rules
from memsys.datasets.configured import configured
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
RULES = Rules()
SAMPLE = ["dataset.sample=always", "stage=retrieve", "progress=off"]


@pytest.fixture
def sample():
    return configured("locomo").model_copy(update={"sample": "always"})


def wanted(tmp_path: Path, *names: str, **more) -> Wanted:
    given = {
        "names": names, "settings": SAMPLE, "question": None, "conversation": None,
        "evidence": None, "dataset": "locomo", "protocol": "mgretrieval", "profile": "embedded",
        "results": tmp_path, "run": True,
    }  # fmt: skip
    return Wanted(**{**given, **more})


def first(sample):
    of = next(sample.load(RULES))
    question = next(q for q in of.questions if len(q.evidence_turns) == 1)
    return question, of.conversation


def test_a_question_by_id_or_by_its_evidence(sample) -> None:
    question, conversation = first(sample)
    assert find_question(
        sample, RULES, question=question.id, conversation=None, evidence=None
    ) == (question, conversation)  # fmt: skip
    with pytest.raises(UserError, match="no conversation 'sample-9'"):
        find_question(sample, RULES, question=None, conversation="sample-9", evidence="D1:1")
    with pytest.raises(UserError, match="There is no question 'nope'"):
        find_question(sample, RULES, question="nope", conversation=None, evidence=None)
    with pytest.raises(UserError, match="rests on D99:1"):
        find_question(sample, RULES, question=None, conversation=None, evidence="D99:1")


def test_several_questions_are_listed(sample) -> None:
    of = next(sample.load(RULES))
    counts: dict[str, int] = {}
    for question in of.questions:
        for turn in question.evidence_turns:
            counts[turn] = counts.get(turn, 0) + 1
    turn = max(counts, key=lambda t: counts[t])
    if counts[turn] == 1:
        pytest.fail("the sample needs a turn that two questions rest on")
    with pytest.raises(UserError, match=rf"{counts[turn]} questions fit(.|\n)*--question "):
        find_question(
            sample, RULES, question=None, conversation=of.conversation.id, evidence=turn
        )  # fmt: skip


async def test_systems_are_run_on_that_question_alone(sample, tmp_path) -> None:
    question, _ = first(sample)
    case = await collect(
        wanted(tmp_path, "bm25", question=question.id), Resources(), Board("off")
    )  # fmt: skip
    assert case.question == question
    [(place, text)] = case.evidence
    assert place.startswith(question.evidence_turns[0])
    assert text
    [one] = case.told
    assert (one.reason, one.name) == ("", "bm25")
    assert one.recalled[0].text, "the memory store gives the text of each unit"
    [records] = (tmp_path / "runs" / "locomo" / "bm25").glob("*/records.jsonl")
    assert len(records.read_text().splitlines()) == 1
    manifest = json.loads((records.parent / "manifest.json").read_text())
    cut = f"conversation {question.conversation}, question {question.id}"
    assert manifest["dataset_info"]["cut"] == cut
    gold = {r.rank for r in one.recalled if r.hit}
    assert gold, "the small sample's gold session is among the first"


async def test_a_run_of_the_whole_is_read_instead(sample, tmp_path) -> None:
    question, _ = first(sample)
    settings = [*SAMPLE, "protocol=mgretrieval", "method=bm25", f"paths.results={tmp_path}"]
    from eval.tables.reproduce import Runs

    runs = Runs(Resources(), Board("off"), parallel=1, ask=True)
    whole = await runs.folder(["profile=embedded", "dataset=locomo", *settings])
    case = await collect(wanted(tmp_path, "bm25", question=question.id, run=False), Resources(),
                         Board("off"))  # fmt: skip
    assert case.told[0].recalled
    assert len(list(whole.parent.iterdir())) == 1, "no run of the one question was made"
    by_name = await collect(
        wanted(tmp_path, "locomo/bm25", question=question.id, dataset=None, protocol=None),
        Resources(), Board("off"),
    )  # fmt: skip
    assert by_name.told[0].recalled == case.told[0].recalled
    assert by_name.told[0].name == "bm25"


async def test_what_cannot_be_shown_says_why(sample, tmp_path) -> None:
    question, _ = first(sample)
    case = await collect(
        wanted(tmp_path, "bm25", question=question.id, run=False), Resources(), Board("off")
    )  # fmt: skip
    assert case.told[0].reason == "not run yet in this setting"
    with pytest.raises(UserError, match="Did you mean 'bm25'"):
        await collect(wanted(tmp_path, "bm52", question=question.id), Resources(), Board("off"))
    with pytest.raises(UserError, match="Name at least one"):
        await collect(wanted(tmp_path, question=question.id), Resources(), Board("off"))


def test_the_command(tmp_path, sample) -> None:
    question, _ = first(sample)
    done = subprocess.run(
        [sys.executable, "scripts/case.py", "bm25", "--question", question.id, *SAMPLE,
         "--results", str(tmp_path), "--svg", str(tmp_path / "case.svg")],
        capture_output=True, text=True, cwd=ROOT, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "recalled" in done.stdout
    assert (tmp_path / "case.svg").read_text().startswith("<svg")
    none = subprocess.run(
        [sys.executable, "scripts/case.py", "bm25"],
        capture_output=True, text=True, cwd=ROOT, timeout=100,
    )  # fmt: skip
    assert none.returncode == 2
    assert "Say which question" in none.stderr
