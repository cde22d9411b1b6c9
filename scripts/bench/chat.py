"""The in-process chat model: batched against one call at a time, and in which number format.

    python scripts/bench/chat.py [--full] [--json FILE]

Prints load time, tokens a second (prompt reading and writing, alone and in batches), the ratio to
transformers' own `generate` called prompt by prompt under the same grammar, and the share of
replies that are valid for their schema. The answering prompts are the harness's own templates with
invented memories, in the three ways in which calls of one conversation resemble each other: FULL
asks every question of the same history, RAG shows each question other memories behind the same
examples, MGRetrieval's rounds have longer examples and fewer new memories. Prompts with nothing in
common are read at the speed of this machine's matrix products, whoever reads them: a row says what
would be left if these alone took time.
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

from memsys.llm import gguf, loading, weights
from memsys.llm.chat import Message, Request
from memsys.llm.decoding import Decoder, Task
from memsys.llm.inprocess import TransformersModel
from memsys.llm.prompts import Prompts
from memsys.llm.schemas import tighten
from memsys.mgretrieval.rounds import Draft

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
CAP = 56  # tokens of a reply, as `configs/llm/smollm2.yaml` has it


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


def alone(seed: int) -> Request:
    """About 1,200 tokens of memories, then the question: nothing in common with another call."""
    dice = random.Random(seed)
    context = lines(72, dice)
    messages = (
        Message("user", f"{context}\n\nFrom these memories: what did {dice.choice(PEOPLE)} do?"),
    )
    return Request(messages, CAP)


def full(seed: int) -> Request:
    """FULL's answering call: one history of about 1,200 tokens, another question each time."""
    return answering(lines(72, random.Random(0)), seed)


def retrieved(seed: int) -> Request:
    """RAG's answering call: about 670 tokens of memories retrieved for this question."""
    return answering(lines(40, random.Random(seed)), seed)


def answering(context: str, seed: int) -> Request:
    """The harness's own answering prompt, whose worked examples every call shares."""
    question = f"What did {PEOPLE[seed % 8]} say about {DEEDS[seed % 6].split()[-1]}?"
    prompt = Prompts().get("eval.answering", "short")
    return Request(prompt.render(context=context, question_date="", question=question), CAP)


def reflective(seed: int) -> Request:
    """MGRetrieval's call of one round: shared examples, then about 170 tokens of new memories."""
    dice = random.Random(seed)
    prompt = Prompts().get("memsys.mgretrieval", "round")
    messages = prompt.render(
        memories=lines(10, dice),
        critical="(none)",
        previous="(none)",
        question=f"What did {dice.choice(PEOPLE)} do?",
    )
    return Request(messages, CAP, schema=Draft.model_json_schema())


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
    least = products(loaded.model, 512)
    operations = 2 * 512 * sum(p.numel() for p in loaded.model.model.layers.parameters())
    yield "matrix products alone, 512 tokens", operations / least / 1e9, "GFLOP/s"
    yield "512 tokens, read, if only these took time", 512 / least, "tokens/s"


def generate(chat: TransformersModel, request: Request) -> str:
    """The reference: one prompt through transformers' own `generate`, with xgrammar."""
    import xgrammar

    assert chat._decoder is not None
    model, compiler = REFERENCE["model"], chat._grammars._compiler
    ids = torch.tensor([chat._prompt(request.messages)])
    processors = []
    if request.schema is not None:
        schema = json.dumps(tighten(request.schema, request.max_tokens))
        grammar = compiler.compile_json_schema(schema, any_whitespace=False)
        processors = [xgrammar.contrib.hf.LogitsProcessor(grammar)]
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=request.max_tokens,
        do_sample=False,
        eos_token_id=sorted(chat._decoder._stops),
        logits_processor=processors,
    )
    text: str = chat._tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    return text


REFERENCE: dict[str, Any] = {}
CASES: dict[str, tuple[str, Callable[[int], Request], float]] = {
    "short": ("short replies", short, 4),
    "full": ("answering, one history for all questions (FULL)", full, 2),
    "retrieved": ("answering, memories of each question's own (RAG)", retrieved, 2),
    "reflective": ("answering, one round of reflection (MGRetrieval)", reflective, 2),
    "alone": ("long prompts that share nothing, 1,200 tokens", alone, 2),
}


QUICK = ("short", "retrieved", "reflective")
"""The cases of the quick bench, which has to end within minutes."""


async def compare(
    chat: TransformersModel, make: Callable[[int], Request], count: int, repeats: int
) -> tuple[list[float], list[tuple[str, str]]]:
    """Time `count` calls batched and one by one; returns both medians and all pairs of replies."""
    batched, single, replies = [], [], []
    for k in range(repeats):
        wanted = [make(1000 * k + i) for i in range(count)]
        began = time.perf_counter()
        ours = await asyncio.gather(*(chat.complete(request) for request in wanted))
        batched.append(time.perf_counter() - began)
        began = time.perf_counter()
        with torch.inference_mode():
            theirs = [generate(chat, request) for request in wanted]
        single.append(time.perf_counter() - began)
        replies += [(a.text, b.strip()) for a, b in zip(ours, theirs, strict=True)]
    return [statistics.median(batched), statistics.median(single)], replies


async def ratios(cases: Sequence[str], long: int, repeats: int) -> list[Row]:
    """Return a row a case, and how many replies were valid and how many the reference's own.

    `long` is the number of long prompts; of the short ones there are always 16.
    """
    chat = TransformersModel(device="cpu")
    await chat.check()
    assert chat._decoder is not None
    REFERENCE["model"] = _plain()
    rows = list[Row]()
    valid, free = list[bool](), list[bool]()
    for case in cases:
        name, make, bar = CASES[case]
        replies = 16 if case == "short" else long
        (ours, theirs), given = await compare(chat, make, replies, repeats)
        rows.append(row(f"{name}, {replies} calls, beside one at a time", ours, theirs, "s", bar,
                        more=False))  # fmt: skip
        schema = make(0).schema
        if schema is None:
            free += [a == b for a, b in given]
        else:
            valid += [_valid(a, schema) for a, _ in given]
        if case == "alone":
            length = len(chat._prompt(make(0).messages))
            least = replies * products(chat._decoder._model, length)
            rows.append(row("the same, if only its matrix products took time", least, theirs, "s",
                            None, more=False))  # fmt: skip
    name = f"share of {len(valid)} replies valid for their schema"
    rows.append(row(name, statistics.mean(valid), None, "", 0.99))
    name = f"share of {len(free)} replies without a schema equal to the reference's"
    rows.append(row(name, statistics.mean(free), None, "", 0.95))
    await chat.close()
    return rows


def products(model: Any, tokens: int, repeats: int = 5) -> float:
    """Return the seconds that the layers' matrix products of one prompt take, and nothing else.

    Attention's own products are left out, so that this is less than any reading can take.
    """
    seconds = 0.0
    with torch.inference_mode():
        for linear in (m for m in model.model.layers[0].modules() if hasattr(m, "in_features")):
            given = torch.randn(tokens, linear.in_features, dtype=model.dtype)
            times = []
            for _ in range(repeats):
                began = time.perf_counter()
                linear(given)
                times.append(time.perf_counter() - began)
            seconds += statistics.median(times)
    return seconds * len(model.model.layers)


def formats(dtypes: Sequence[str]) -> list[Row]:
    """Return how fast each number format reads and writes; the fastest is the default."""
    rows = []
    for dtype in dtypes:
        for name, value, unit in speeds(dtype, 0):
            rows.append(row(f"{dtype}: {name}", value, None, unit, None))
    return rows


def run(full: bool = False) -> list[Row]:
    """Return the rows of all cases."""
    if not full:
        return asyncio.run(ratios(QUICK, 8, 1))
    return formats(("float32", "bfloat16")) + asyncio.run(ratios(list(CASES), 8, 3))


def main() -> None:
    """Measure and print."""
    finish(run, argparse.ArgumentParser(description=__doc__.split("\n")[0]))


def _plain() -> Any:
    """The same weights as transformers has them, with its own attention."""
    from transformers import LlamaForCausalLM

    path = weights.find(weights.SMOLLM2, None).gguf
    assert path is not None
    file = gguf.read(path)
    state = {name: torch.tensor(array) for name, array in gguf.llama_weights(file).items()}
    made = LlamaForCausalLM.from_pretrained(
        None, config=gguf.llama_config(file), state_dict=state, dtype=torch.float32,
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
