from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from shapes import Keywords, Matches, Verdict

from memsys.llm.schemas import CHARS_PER_TOKEN, smallest, strict, tighten


class Odd(BaseModel):
    title: str = Field(description="a property named like an annotation")
    default: int | None = None
    colour: str = Field(pattern="^[a-z]+$")
    pair: list[str] = Field(min_length=2, max_length=2)


SHAPES = [Keywords, Matches, Verdict, Odd]


def test_a_list_gets_the_characters_that_are_left():
    narrow = tighten(Keywords.model_json_schema(), 60)
    words = narrow["properties"]["keywords"]
    # 180 characters, of which 6 + len("keywords") + 2 are keys and punctuation
    assert words["maxItems"] == 6
    assert words["items"]["maxLength"] == 3 * 26 - 2
    assert narrow["additionalProperties"] is False


def test_more_tokens_allow_more():
    sizes = []
    for tokens in (20, 60, 200, 600):
        narrow = tighten(Verdict.model_json_schema(), tokens)
        parts = narrow["properties"]
        sizes.append((parts["answer"]["maxLength"], parts["critical_memories"]["maxItems"]))
    assert sizes == sorted(sizes) and len(set(sizes)) == 4


def test_references_are_resolved_and_annotations_dropped_but_not_properties_of_their_name():
    narrow = tighten(Matches.model_json_schema(), 60)
    assert "$" not in json.dumps(narrow) and "title" not in json.dumps(narrow)
    odd = tighten(Odd.model_json_schema(), 60)
    assert list(odd["properties"]) == ["title", "default", "colour", "pair"]


def test_a_schema_that_holds_itself_is_refused():
    class Tree(BaseModel):
        children: list[Tree]

    with pytest.raises(ValueError, match="Tree"):
        tighten(Tree.model_json_schema(), 60)


def test_limits_of_the_schema_itself_stand():
    odd = tighten(Odd.model_json_schema(), 1000)["properties"]
    assert (odd["pair"]["minItems"], odd["pair"]["maxItems"]) == (2, 2)
    assert odd["colour"] == {"pattern": "^[a-z]+$", "type": "string"}
    small = tighten({"type": "string", "minLength": 50}, 2)
    assert small["maxLength"] == 50


@pytest.mark.parametrize("shape", SHAPES)
@given(tokens=st.integers(1, 2000))
def test_tightening_never_widens_and_is_idempotent_in_its_names(shape, tokens):
    schema = shape.model_json_schema()
    narrow = tighten(schema, tokens)
    value = smallest(narrow)
    if shape is not Odd:  # its pattern is beyond `smallest`
        jsonschema.validate(value, narrow)
    else:
        value["colour"] = "red"
    jsonschema.validate(value, schema)
    assert list(narrow["properties"]) == list(schema["properties"])
    jsonschema.Draft202012Validator.check_schema(narrow)


@pytest.mark.parametrize("shape", [Keywords, Matches])
@given(tokens=st.integers(40, 1000))
def test_lists_of_usual_items_fill_but_do_not_pass_the_size(shape, tokens):
    narrow = tighten(shape.model_json_schema(), tokens)
    (name,) = narrow["properties"]
    items = narrow["properties"][name]["maxItems"]
    one = {"keyword": "x" * 22, "canonical": "x" * 22} if shape is Matches else "x" * 22
    size = len(json.dumps({name: [one] * items}))
    assert size <= tokens * CHARS_PER_TOKEN
    assert size >= tokens * CHARS_PER_TOKEN / 2


def test_strict_mode_names_and_requires_every_property_at_every_depth():
    made = strict(Matches.model_json_schema())
    assert made["additionalProperties"] is False and made["required"] == ["matches"]
    item = made["properties"]["matches"]["items"]
    assert item["additionalProperties"] is False
    assert item["required"] == ["keyword", "canonical"]
    assert "$defs" not in made
    assert strict(Odd.model_json_schema())["required"] == ["title", "default", "colour", "pair"]
