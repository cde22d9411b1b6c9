"""Dry replies: of the schema, of the examples' length, the same every time, about the prompt."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from baselines.amem.replies import Evolution
from baselines.memoryos.replies import Themes
from baselines.memr3.controller import Step
from eval.config import CONFIGS
from eval.plan.replies import LEANS, Manners, Writer
from memsys.llm.chat import Message, Request
from memsys.mgretrieval.keywords import Keywords
from memsys.mgretrieval.rounds import Draft

MANNERS = Manners.read(CONFIGS)
TEXT = "Ruth: I planted beans behind the greenhouse with Oskar. When did Ruth plant the beans?"


def request(schema=None, examples=(), text=TEXT, most=500) -> Request:
    shown = [m for e in examples for m in (Message("user", "?"), Message("assistant", e))]
    return Request((*shown, Message("user", text)), most, schema=schema)


@pytest.mark.parametrize("shape", [Evolution, Themes, Step, Keywords, Draft])
@pytest.mark.parametrize("lean", LEANS)
def test_a_reply_with_a_schema_is_valid_and_read_by_its_system(shape, lean) -> None:
    schema = shape.model_json_schema()
    text = Writer(MANNERS, lean).reply(request(schema), "any/prompt")
    assert Draft202012Validator(schema).is_valid(json.loads(text))
    shape.model_validate_json(text)
    assert text == Writer(MANNERS, lean).reply(request(schema), "any/prompt")


def test_leans_decide_yes_no_and_choices() -> None:
    drafts = {
        lean: json.loads(Writer(MANNERS, lean).reply(request(Draft.model_json_schema()), "x/y"))
        for lean in LEANS
    }
    assert drafts["yes"]["sufficient"] is True
    assert drafts["no"]["sufficient"] is False
    schema = Step.model_json_schema()
    steps = {lean: Writer(MANNERS, lean).reply(request(schema), "x/y") for lean in LEANS}
    assert json.loads(steps["yes"])["decision"] == "answer"
    assert json.loads(steps["no"])["decision"] == "retrieve"
    assert len(steps["yes"]) < len(steps["no"])


def test_chances_are_kept_over_many_requests() -> None:
    writer, schema = Writer(MANNERS, "even"), Draft.model_json_schema()
    told = [json.loads(writer.reply(request(schema, text=f"{TEXT} {i}"), "x/y"))["sufficient"]
            for i in range(1000)]  # fmt: skip
    assert sum(told) / len(told) == pytest.approx(MANNERS.chances["sufficient"], abs=0.04)


def test_lists_and_texts_are_as_long_as_in_the_worked_examples() -> None:
    examples = [json.dumps({"keywords": [f"k{i}" for i in range(n)]}) for n in (3, 5)]
    schema = Keywords.model_json_schema()
    sizes = {
        lean: len(json.loads(Writer(MANNERS, lean).reply(request(schema, examples), "x/y"))[
            "keywords"]) for lean in LEANS
    }  # fmt: skip
    assert sizes == {"yes": 3, "even": 4, "no": 6}, "the schema allows six"
    plain = request(examples=["one two three four", "one two three four five six"])
    words = {lean: len(Writer(MANNERS, lean).reply(plain, "x/y").split()) for lean in LEANS}
    assert words == {"yes": 4, "even": 5, "no": 12}
    flags = request(examples=["true", "false"])
    assert Writer(MANNERS, "even").reply(flags, "x/y") in ("true", "false")


def test_words_come_from_the_prompt_and_stay_below_the_cap() -> None:
    for lean in LEANS:
        text = Writer(MANNERS, lean).reply(request(most=8), "x/y")
        assert set(text.split()) <= set(TEXT.replace(":", "").replace("?", "").split(" ")) | {
            w.strip(".?:") for w in TEXT.split()
        }
        assert len(text.split()) <= 8


def test_a_judge_is_answered_as_it_reads() -> None:
    from eval.judge.memgas import read_label

    assert read_label(Writer(MANNERS, "even").reply(request(), "judge/memgas")) == 1.0
