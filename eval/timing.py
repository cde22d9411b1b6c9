"""Response time as its own stage: one question after another, stores off, builds left out.

A time measured while other questions run, or with stored replies, is no response time. The first
question of a run warms the models up and is not counted.
"""

from __future__ import annotations

import time
from dataclasses import replace

import orjson

from eval.config import RunConfig
from eval.controls import asked_of, query_for
from eval.prices import PriceList
from eval.progress import Board
from eval.records import Record
from eval.run import Finished, run
from eval.spec import RunSpec
from memsys.datasets.base import Sample
from memsys.dialogue import Question
from memsys.errors import ChatFailure
from memsys.llm import ledger


async def measure_times(spec: RunSpec, prices: PriceList, board: Board) -> Finished:
    """Time a stated number of questions and write `timing.jsonl`.

    Memories are built (or taken from the store) by an ordinary run of the same settings first,
    so that the stage measures asking alone.
    """
    wanted = int(spec.config.values["timing"]["questions"])
    asking = with_stage(spec, "answer")
    finished = await run(asking, prices, board)
    loaded = asking.dataset.load(asking.protocol.rules)
    samples = [asked_of(asking.system, sample) for sample in loaded]
    chosen = _spread(samples, wanted)
    records: list[Record] = []
    warm = False
    for sample, questions in chosen:
        found = spec.stores.memories.get(asking.memory_key(sample.conversation))
        assert found is not None  # the run above has just built it
        memory, _ = found
        for question in questions:
            if not warm:
                warm = True
                await _timed(spec, memory, question)
            records.append(await _timed(spec, memory, question))
    path = asking.folder / "timing.jsonl"
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return replace(finished, spec=asking)


async def _timed(spec: RunSpec, memory: object, question: Question) -> Record:
    start = time.perf_counter()
    error = None
    with ledger.scope("question") as account:
        try:
            query = query_for(spec.system, question)
            await spec.system.answer(memory, query)  # type: ignore[arg-type]
        except ChatFailure as failure:
            error = str(failure)
    return {
        "conversation": question.conversation,
        "index": question.index,
        "seconds": time.perf_counter() - start,
        "calls": [call.plain() for call in account.calls],
        "error": error,
    }


def _spread(samples: list[Sample], wanted: int) -> list[tuple[Sample, list[Question]]]:
    """Choose questions in turn from each conversation, in order, until `wanted` are chosen."""
    share = {id(sample): 0 for sample in samples}
    left = wanted
    while left:
        before = left
        for sample in samples:
            if left and share[id(sample)] < len(sample.questions):
                share[id(sample)] += 1
                left -= 1
        if left == before:
            break
    return [(s, list(s.questions[: share[id(s)]])) for s in samples if share[id(s)]]


def with_stage(spec: RunSpec, stage: str) -> RunSpec:
    """Return the same run at another stage."""
    values = {**spec.config.values, "stage": stage}
    return RunSpec.of(RunConfig(values, spec.config.choices), spec.resources, spec.root)
