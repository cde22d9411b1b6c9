from __future__ import annotations

import asyncio
import random

import pytest
import torch
from tiny_model import save
from transformers import AutoModelForCausalLM, AutoTokenizer

from memsys.llm import kv
from memsys.llm.batching import Batcher
from memsys.llm.decoding import Decoder, Task, _behind
from memsys.llm.grammar import Grammars

ROOM = 1 << 26


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return save(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(tiny):
    return AutoModelForCausalLM.from_pretrained(tiny, attn_implementation=kv.ATTENTION).eval()


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return AutoTokenizer.from_pretrained(tiny)


@pytest.fixture(scope="module")
def grammars(tokenizer):
    return Grammars(tokenizer, len(tokenizer), [tokenizer.eos_token_id])


def decoder(model, rows=8, room=ROOM, stops=(), grammars=None) -> Decoder:
    return Decoder(model, grammars, stops, rows, room)


def prompts(count: int, seed: int = 0, shared: int = 0) -> list[list[int]]:
    dice = random.Random(seed)
    start = [dice.randrange(256) for _ in range(shared)]
    return [start + [dice.randrange(256) for _ in range(dice.randint(1, 60))] for _ in range(count)]


def run(made: Decoder, tasks: list[Task], joins: random.Random | None = None) -> list[list[int]]:
    waiting = list(tasks)
    while waiting or made.active:
        while waiting and made.fits(waiting[0]) and (joins is None or joins.random() < 0.6):
            made.admit(waiting.pop(0))
        if made.active:
            made.step()
    return [task.written for task in tasks]


def alone(model, prompt: list[int], limit: int) -> list[int]:
    """transformers' own generation, with its own attention."""
    plain = AutoModelForCausalLM.from_pretrained(model.name_or_path).eval()
    ids = torch.tensor([prompt])
    out = plain.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return out[0, len(prompt) :].tolist()


def test_replies_equal_transformers_own_generation(model):
    some = prompts(6)
    written = run(decoder(model), [Task(p, 20) for p in some])
    assert written == [alone(model, p, 20) for p in some]


@pytest.mark.parametrize("seed", range(4))
def test_a_reply_is_the_same_alone_and_in_any_company(model, seed):
    some = prompts(20, seed, shared=40)
    limits = [random.Random(i).randint(1, 30) for i in range(20)]
    single = [
        run(decoder(model, rows=1), [Task(p, n)])[0] for p, n in zip(some, limits, strict=True)
    ]
    tasks = [Task(p, n) for p, n in zip(some, limits, strict=True)]
    together = run(decoder(model, rows=6), tasks, joins=random.Random(seed))
    assert together == single
    assert [len(w) for w in together] == limits
    assert all(task.finish == "length" for task in tasks)


def test_shared_beginnings_are_read_once_and_change_nothing(model):
    some = prompts(12, seed=5, shared=100)
    made = decoder(model)
    with_reuse = run(made, [Task(p, 10) for p in some])
    assert made.reused >= 11 * 99
    assert with_reuse == [run(decoder(model), [Task(p, 10)])[0] for p in some]


@pytest.mark.parametrize("shared", [30, 60, 150])
def test_a_known_beginning_changes_nothing_whatever_its_share(model, shared):
    """Little known is computed again behind the causal kernel, much is masked explicitly."""
    dice = random.Random(shared)
    start = [dice.randrange(256) for _ in range(shared)]
    some = [start + [dice.randrange(256) for _ in range(120)] for _ in range(4)]
    assert (_behind(shared, shared + 120) is None) == (shared < 80)
    made = decoder(model)
    assert run(made, [Task(p, 8) for p in some]) == [alone(model, p, 8) for p in some]
    assert made.reused == 3 * shared


def test_attention_without_a_mask_is_causal_for_the_last_tokens():
    query, key, value = torch.randn(3, 1, 4, 50, 16).unbind(0)
    key, value = key[:, :2], value[:, :2]
    for count in (50, 20, 2):
        masked, _ = kv.attention(None, query[:, :, -count:], key, value, _mask(50 - count, 50))
        causal, _ = kv.attention(None, query[:, :, -count:], key, value, None)
        torch.testing.assert_close(causal, masked, atol=1e-6, rtol=0)


def _mask(start: int, end: int) -> torch.Tensor:
    return torch.ones(end - start, end, dtype=torch.bool).tril(start)[None, None]


def test_near_ties_are_decided_alone(model, monkeypatch):
    monkeypatch.setattr("memsys.llm.decoding.NEAR", 1e9)  # every choice is a tie
    some = prompts(4)
    made = decoder(model)
    written = run(made, [Task(p, 8) for p in some])
    assert made.recomputed == 4 * 8
    assert written == [alone(model, p, 8) for p in some]


def test_a_stop_token_ends_a_reply_and_is_not_part_of_it(model):
    prompt = prompts(1)[0]
    full = run(decoder(model), [Task(prompt, 20)])[0]
    stop = full[5]
    task = Task(prompt, 20)
    run(decoder(model, stops=[stop]), [task])
    assert task.finish == "stop"
    assert task.written == full[: full.index(stop)]


def test_room_bounds_the_company(model):
    made = decoder(model, rows=8)
    token = made._slab.token_bytes
    tight = decoder(model, rows=8, room=3 * 100 * token)
    tasks = [Task([1] * 90, 10) for _ in range(5)]
    for task in tasks[:3]:
        assert tight.fits(task)
        tight.admit(task)
    assert not tight.fits(tasks[3])
    assert tight.fits(Task([1], 1)) is False  # rows are as long as the longest
    written = run(decoder(model, rows=8, room=3 * 100 * token), [Task([1] * 90, 10)] * 1)
    assert len(written[0]) == 10
    assert decoder(model, room=1).fits(tasks[0])  # one always fits


def test_after_running_out_of_memory_replies_go_on_where_they_were(model):
    some = prompts(6)
    wanted = [run(decoder(model), [Task(p, 12)])[0] for p in some]
    made = decoder(model, rows=6)
    tasks = [Task(p, 12) for p in some]
    for task in tasks:
        made.admit(task)
    for _ in range(4):
        made.step()
    back = made.retreat()
    assert back == tasks and made.active == 0
    assert run(made, back) == wanted


def test_memory_that_ends_amid_a_step_leaves_every_reply_before_it(model, monkeypatch):
    some = prompts(4)
    wanted = [run(decoder(model), [Task(p, 6)])[0] for p in some]
    made = decoder(model)
    tasks = [Task(p, 6) for p in some]
    for task in tasks:
        made.admit(task)
    before = [list(task.written) for task in tasks]
    alone, calls = made._alone, []

    def short_of_memory(task: Task) -> torch.Tensor:
        calls.append(task)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("full")
        return alone(task)

    monkeypatch.setattr("memsys.llm.decoding.NEAR", 1e9)  # every choice is a tie
    monkeypatch.setattr(made, "_alone", short_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        made.step()
    assert [task.written for task in tasks] == before
    assert run(made, made.retreat()) == wanted


def test_sampling_is_reproducible_and_follows_the_temperature(model):
    prompt = prompts(1)[0]
    cold = run(decoder(model), [Task(prompt, 1)])[0][0]

    def draws(temperature: float) -> list[int]:
        tasks = [Task(prompt, 1, temperature=temperature, seed=i) for i in range(200)]
        return [w[0] for w in run(decoder(model), tasks)]

    assert draws(1.0) == draws(1.0)
    assert len(set(draws(3.0))) > len(set(draws(1.0))) > 1
    assert set(draws(1e-4)) == {cold}
    with torch.inference_mode():
        logits = model(torch.tensor([prompt])).logits[0, -1]
    share = float(torch.softmax(logits, -1)[cold])
    assert abs(draws(1.0).count(cold) / 200 - share) < 0.12


def test_a_random_model_under_a_grammar_writes_valid_json_at_any_limit(model, grammars, tokenizer):
    import json

    import jsonschema

    schema = {
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            "items": {"type": "array", "items": {"type": "string"}},
            "count": {"type": "integer"},
            "sure": {"type": "boolean"},
            "kind": {"enum": ["good", "bad"]},
        },
        "required": ["answer", "items", "count", "sure", "kind"],
    }
    tasks = []
    for i, prompt in enumerate(prompts(24, seed=9)):
        limit = 90 + 7 * i  # a byte is a token here: the shortest reply takes 72
        guide = grammars.guide(schema, limit)
        tasks.append(Task(prompt, limit, guide, temperature=2.0 * (i % 2), seed=i))
        tasks[-1].written = guide.opening(limit)
    run(decoder(model, grammars=grammars, stops=[tokenizer.eos_token_id]), tasks)
    for task in tasks:
        assert task.finish == "stop" and len(task.written) <= task.limit
        jsonschema.validate(json.loads(tokenizer.decode(task.written)), schema)


def test_grammar_replies_are_the_same_alone_and_together(model, grammars):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    some = prompts(8, seed=3)

    def tasks() -> list[Task]:
        return [Task(p, 40, grammars.guide(schema, 40)) for p in some]

    together = run(decoder(model, grammars=grammars), tasks())
    single = [run(decoder(model, grammars=grammars), [task])[0] for task in tasks()]
    assert together == single


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_replies_equal_those_of_the_cpu(tiny, model):
    moved = AutoModelForCausalLM.from_pretrained(tiny, attn_implementation=kv.ATTENTION)
    some = prompts(16, shared=50)
    on_gpu = run(decoder(moved.eval().to("cuda")), [Task(p, 20) for p in some])
    assert on_gpu == run(decoder(model), [Task(p, 20) for p in some])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
async def test_on_cuda_a_batch_that_does_not_fit_is_halved_until_it_does(tiny, model):
    moved = AutoModelForCausalLM.from_pretrained(tiny, attn_implementation=kv.ATTENTION)
    greedy = Decoder(moved.eval().to("cuda"), None, (), rows=1 << 24, room=1 << 60)  # a TiB
    batcher = Batcher(greedy)
    tasks = [Task(p, 20) for p in prompts(4)]
    await asyncio.gather(*(batcher.write(task) for task in tasks))
    await asyncio.to_thread(batcher.close)
    assert 4 <= greedy.rows < 1 << 24
    assert [t.written for t in tasks] == run(decoder(model), [Task(t.prompt, 20) for t in tasks])


def test_new_room_in_the_cache_holds_no_leftovers(model):
    slab = decoder(model)._slab
    slab.fit(3, 64, keep=0)
    assert torch.count_nonzero(slab._store) == 0  # a leftover NaN would spoil masked positions
