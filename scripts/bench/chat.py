"""The in-process chat model: batched against one call at a time, and in which number format.

    python scripts/bench/chat.py [--full] [--json FILE]

Prints load time, tokens a second (prompt reading and writing, alone and in batches), the ratio to
transformers' own `generate` called prompt by prompt under the same grammar, and the share of
replies that are valid for their schema.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jsonschema
import torch
from rows import Row, finish, row

from memsys.llm import loading, weights
from memsys.llm.chat import Message, Reply, Request
from memsys.llm.decoding import Decoder, Task
from memsys.llm.inprocess import TransformersModel
from memsys.llm.schemas import tighten

PEOPLE = ["Ben", "Ruth", "Omar", "Lea", "Kim", "Ivan", "Sue", "Max"]
DEEDS = [
    "went hiking by the lake and saw two eagles",
    "finished the pottery class with a blue vase",
    "trained six months for the marathon on Sunday",
    "wrote a thesis in the library on a broken laptop",
    "learned the dumpling recipe from grandma",
    "booked flights to Osaka for the cherry blossoms",
]
KEYWORDS = {
    "type": "object",
    "properties": {"keywords": {"type": "array", "items": {"type": "string"}}},
    "required": ["keywords"],
}
ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}


def lines(count: int, dice: random.Random) -> str:
    """Invented chat lines."""
    said = (f"{dice.choice(PEOPLE)}: I {dice.choice(DEEDS)}." for _ in range(count))
    return "\n".join(said)


def short(seed: int) -> Request:
    """A keyword call: shared examples, one turn, a short list."""
    messages = (
        Message("system", "Extract the keywords of a chat turn. Reply with one JSON object."),
        Message("user", "Anna: I adopted a grey kitten named Milo last weekend!"),
        Message("assistant", '{"keywords": ["Anna", "kitten", "Milo", "adoption"]}'),
        Message("user", "Tom: My sister Lucy is moving to Lisbon for a job at a bakery."),
        Message("assistant", '{"keywords": ["Tom", "Lucy", "Lisbon", "bakery", "job"]}'),
        Message("user", lines(1, random.Random(seed))),
    )
    return Request(messages, 64, schema=KEYWORDS)


def long(seed: int) -> Request:
    """An answering call: about 1,200 tokens of memories of its own, then the question."""
    dice = random.Random(seed)
    context = lines(72, dice)
    messages = (
        Message("system", "Answer the question from the memories. Reply with one JSON object."),
        Message("user", f"{context}\n\nQuestion: What did {dice.choice(PEOPLE)} do?"),
    )
    return Request(messages, 48, schema=ANSWER)


def full(seed: int) -> Request:
    """An answering call over one history that all questions share."""
    context = lines(72, random.Random(0))
    messages = (
        Message("system", "Answer the question from the history. Reply with one JSON object."),
        Message(
            "user", f"{context}\n\nQuestion: What did {PEOPLE[seed % 8]} {DEEDS[seed % 6][:9]}?"
        ),
    )
    return Request(messages, 48, schema=ANSWER)


def speeds(dtype: str, threads: int) -> Iterator[tuple[str, float, str]]:
    """Load time and tokens a second of one number format."""
    source = weights.find(weights.SMOLLM2, None)
    tokenizer = loading.load_tokenizer(source)
    began = time.perf_counter()
    loaded = loading.load_model(source, tokenizer, "cpu", dtype, threads)  # type: ignore[arg-type]
    yield "seconds to load", time.perf_counter() - began, "s"
    ids = tokenizer(lines(900, random.Random(1))).input_ids
    for count, length in ((1, 512), (8, 512), (16, 512), (1, 2048)):
        decoder = Decoder(loaded.model, None, (), 16, loaded.room)
        decoder._prefixes.least = 10**9
        began = time.perf_counter()
        for i in range(count):
            decoder.admit(Task(ids[7 * i : 7 * i + length], 24))
        reading = time.perf_counter() - began
        began, written = time.perf_counter(), 0
        while decoder.active:
            written += decoder.active
            decoder.step()
        writing = time.perf_counter() - began
        size = f"{count} prompts of {length} tokens"
        yield f"{size}, read", count * length / reading, "tokens/s"
        yield f"{size}, written", written / writing, "tokens/s"


def generate(chat: TransformersModel, request: Request) -> str:
    """The reference: one prompt through transformers' own `generate`, with xgrammar."""
    import xgrammar

    assert chat._decoder is not None
    model, compiler = REFERENCE["model"], chat._grammars._compiler
    ids = torch.tensor([chat._prompt(request.messages)])
    schema = json.dumps(tighten(request.schema or {}, request.max_tokens))
    grammar = compiler.compile_json_schema(schema, any_whitespace=False)
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=request.max_tokens,
        do_sample=False,
        logits_processor=[xgrammar.contrib.hf.LogitsProcessor(grammar)],
    )
    text: str = chat._tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    return text


REFERENCE: dict[str, Any] = {}
CASES: dict[str, tuple[str, Callable[[int], Request], int]] = {
    "short": ("short replies", short, 4),
    "long": ("long prompts", long, 2),
    "shared": ("shared history", full, 2),
}


async def compare(
    chat: TransformersModel, make: Callable[[int], Request], count: int, repeats: int
) -> tuple[list[float], list[Reply]]:
    """Time `count` calls batched and one by one; returns both medians and all replies."""
    batched, single, replies = [], [], []
    for k in range(repeats):
        wanted = [make(1000 * k + i) for i in range(count)]
        began = time.perf_counter()
        replies += await asyncio.gather(*(chat.complete(request) for request in wanted))
        batched.append(time.perf_counter() - began)
        began = time.perf_counter()
        with torch.inference_mode():
            for request in wanted:
                generate(chat, request)
        single.append(time.perf_counter() - began)
    return [statistics.median(batched), statistics.median(single)], replies


async def ratios(cases: Sequence[str], replies: int, repeats: int) -> list[Row]:
    """Return a row a case, and one for how many replies were valid."""
    chat = TransformersModel(device="cpu")
    await chat.check()
    assert chat._decoder is not None
    REFERENCE["model"] = _plain(chat)
    rows, valid, total = [], 0, 0
    for case in cases:
        name, make, bar = CASES[case]
        (ours, theirs), given = await compare(chat, make, replies, repeats)
        rows.append(row(f"{name}, {replies} calls, beside one at a time", ours, theirs, "s", bar,
                        more=False))  # fmt: skip
        total += len(given)
        valid += sum(_valid(reply.text, make(0).schema) for reply in given)
    rows.append(
        row(f"share of {total} replies valid for their schema", valid / total, None, "", 0.99)
    )
    await chat.close()
    return rows


def formats(dtypes: Sequence[str]) -> list[Row]:
    """Return how fast each number format reads and writes; the fastest is the default."""
    rows = []
    for dtype in dtypes:
        for name, value, unit in speeds(dtype, 0):
            rows.append(row(f"{dtype}: {name}", value, None, unit, None))
    return rows


def run(full: bool = False) -> list[Row]:
    """Return the rows of all cases."""
    rows = formats(("float32", "bfloat16") if full else ("float32",))
    return rows + asyncio.run(ratios(list(CASES), 16, 3 if full else 1))


def main() -> None:
    """Measure and print."""
    finish(run, argparse.ArgumentParser(description=__doc__.split("\n")[0]))


def _plain(chat: TransformersModel) -> Any:
    """The same weights with transformers' own attention."""
    from transformers import LlamaForCausalLM

    assert chat._decoder is not None
    model = chat._decoder._model
    config = type(model.config).from_dict(model.config.to_dict())
    made = LlamaForCausalLM.from_pretrained(
        None, config=config, state_dict=model.state_dict(), dtype=model.dtype,
        attn_implementation="sdpa",
    )  # fmt: skip
    return made.eval()


def _valid(text: str, schema: Any) -> bool:
    try:
        return jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError:
        return False


if __name__ == "__main__":
    main()
