"""One dry run: the real system on the real data, answered by planning models.

On a large benchmark some conversations are run and scaled up: those whose id has the smallest
hash, always the same ones; their builds by the length of the conversations, their questions by
number.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from eval.controls import asked_of, query_for
from eval.judging import Judging
from eval.plan.models import (
    PlanningBackend,
    PlanningChat,
    PlanningEncoder,
    PlanningReplies,
    PlanningReranker,
)
from eval.plan.replies import Lean, Manners, Writer
from eval.records import Record, key_of, read_records
from eval.resources import Resources
from eval.spec import RunSpec
from memsys.datasets.base import Sample
from memsys.dialogue import Question
from memsys.encoders.protocol import Reranker
from memsys.encoders.service import BatchingEncoder
from memsys.errors import ChatFailure, UserError
from memsys.llm import ledger
from memsys.llm.chat import Backend
from memsys.llm.roles import RoleChat
from memsys.stores.vectors import VectorStore
from memsys.system import Memory

Place = tuple[str, str]
"""Phase and role."""


@dataclass(frozen=True, slots=True)
class Weight:
    """How many calls one dry call stands for, and how many tokens one of its tokens."""

    calls: float
    tokens: float

    @classmethod
    def same(cls, weight: float) -> Weight:
        """Weigh calls and tokens alike."""
        return cls(weight, weight)


@dataclass
class Sum:
    """Calls and tokens of one phase and role; `fresh_` are those not stored yet."""

    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    fresh_calls: float = 0.0
    fresh_in: float = 0.0
    fresh_out: float = 0.0
    model: str = ""

    def add(self, call: Mapping[str, Any], weight: Weight) -> None:
        """Add a ledger call, standing for `weight` of them."""
        tokens = call["prompt_tokens"], call["completion_tokens"]
        self.calls += weight.calls
        self.tokens_in += weight.tokens * tokens[0]
        self.tokens_out += weight.tokens * tokens[1]
        if not call["cached"]:
            self.fresh_calls += weight.calls
            self.fresh_in += weight.tokens * tokens[0]
            self.fresh_out += weight.tokens * tokens[1]


@dataclass
class Embedded:
    """Texts and word pieces to embed, and texts whose vectors are stored."""

    texts: float = 0.0
    tokens: float = 0.0
    stored: float = 0.0


@dataclass
class Outcome:
    """What one dry run found, scaled to the whole run."""

    places: dict[Place, Sum] = field(default_factory=dict)
    embedded: Embedded = field(default_factory=Embedded)

    def enter(self, calls: Iterable[Mapping[str, Any]], weight: Weight) -> None:
        """Add some calls, each standing for `weight`."""
        for call in calls:
            place = self.places.setdefault((call["phase"], call["role"]), Sum())
            place.add(call, weight)
            place.model = call["model"]


class PlanningResources(Resources):
    """The models and stores of dry runs that lean one way, shared by all runs of a plan."""

    def __init__(self, real: Resources, manners: Manners, lean: Lean, notes: set[str]) -> None:
        """Stand for `real`, whose stores are read."""
        super().__init__()
        self.real = real
        self.writer = Writer(manners, lean)
        self.notes = notes
        self.own_vectors = False  # of the encoder itself, for the run that is planned now
        self._backends: dict[int, PlanningBackend] = {}
        self._encoders: dict[tuple[int, Path | None, bool], PlanningEncoder] = {}
        self._replies: dict[Path, PlanningReplies] = {}

    def backend(self, config: Mapping[str, Any], where: str) -> Backend:
        """Return the planning model that stands for a config's."""
        model = self.real.backend(config, where)
        return self._backends.setdefault(id(model), PlanningBackend(model, self.writer, self.notes))

    def encoder(self, config: Mapping[str, Any], vectors: Path | None) -> BatchingEncoder:
        """Return the planning encoder that stands for a config's."""
        model = self.real.embedding_model(config)
        key = id(model), vectors, self.own_vectors
        if key not in self._encoders:
            store = None if vectors is None else VectorStore(vectors)
            made = PlanningEncoder(model, store, self.notes, own=self.own_vectors)
            self._encoders[key] = made
        return cast(BatchingEncoder, self._encoders[key])

    def reranker(self, config: Mapping[str, Any]) -> Reranker | None:
        """Return a planning reranker where a config has one."""
        return None if config.get("_target_") is None else PlanningReranker()

    def replies(self, spec: RunSpec) -> PlanningReplies:
        """Return the planning store over a run's reply store."""
        stores = spec.stores
        return self._replies.setdefault(stores.vectors, PlanningReplies(stores.replies))

    def embedding(self) -> Embedded:
        """Return what has been embedded so far."""
        every = self._encoders.values()
        return Embedded(
            sum(e.texts for e in every), sum(e.tokens for e in every), sum(e.stored for e in every)
        )


class PlannedSpec(RunSpec):
    """A run with planning models."""

    @cached_property
    def chat(self) -> RoleChat:
        """The chat model of the dry run."""
        resources = cast(PlanningResources, self.resources)
        return PlanningChat(self.backends, cast(Any, resources.replies(self)))

    @property
    def own_vectors(self) -> bool:
        """Whether the dry run embedded with the encoder itself, and never had to do without."""
        return cast(PlanningEncoder, self.system.tools.encoder).own


@dataclass
class Extent:
    """How much a run has to do, and which part of it is dry-run."""

    conversations: int = 0
    to_build: int = 0
    built: int = 0
    questions: int = 0
    done: int = 0
    build_turns: int = 0
    build_size: int = 0
    chosen: list[Sample] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every conversation with something left to do is dry-run."""
        return len(self.chosen) == self.conversations


def extent(spec: RunSpec, most: int) -> Extent:
    """Look a run's data and stores through; choose at most `most` conversations to dry-run."""
    found = Extent()
    finished = finished_records(spec)
    best: list[tuple[int, int, int, Sample]] = []
    for number, loaded in enumerate(spec.dataset.load(spec.protocol.rules)):
        sample = asked_of(spec.system, loaded)
        pending = [q for q in sample.questions if q.key not in finished]
        found.questions += len(pending)
        found.done += len(sample.questions) - len(pending)
        if not pending:
            continue
        found.conversations += 1
        stored = memory_of(spec, sample) is not None
        if stored:
            found.built += 1
        else:
            found.to_build += 1
            found.build_turns += turns_of(sample)
            found.build_size += size_of(sample)
        digest = hashlib.sha256(sample.conversation.id.encode()).digest()
        # conversations still to be built first: theirs is the larger part, and cannot be looked up
        rank = -int.from_bytes(bytes([stored]) + digest[:8])
        heapq.heappush(best, (rank, number, len(pending), sample))
        if len(best) > most:
            heapq.heappop(best)
    found.chosen = [entry[3] for entry in sorted(best, key=lambda entry: entry[1])]
    return found


def size_of(sample: Sample) -> int:
    """Return a conversation's length in characters."""
    return sum(len(turn.text) for s in sample.conversation.sessions for turn in s.turns)


def turns_of(sample: Sample) -> int:
    """Return a conversation's number of turns."""
    return sum(len(session.turns) for session in sample.conversation.sessions)


def memory_of(spec: RunSpec, sample: Sample) -> tuple[Memory, Any] | None:
    """Return a conversation's stored memory and build, if they are there."""
    try:
        return spec.stores.memories.get(spec.memory_key(sample.conversation))
    except UserError:  # a model's files are not here: nothing made with it is stored
        return None


def finished_records(spec: RunSpec) -> dict[Any, Record]:
    """Return the answered records that the same command would not ask again."""
    if not spec.config.values["resume"]:
        return {}
    try:
        folder = spec.folder
    except UserError:
        return {}
    found: dict[Any, Record] = {}
    for path in folder.glob("records*.jsonl"):
        found |= {key_of(r): r for r in read_records(path) if not r["error"]}
    return found


async def dry_run(spec: PlannedSpec, light: PlannedSpec, part: Extent, questions: int) -> Outcome:
    """Build, ask and judge the chosen conversations; at most `questions` questions of each.

    `light` is the same run under settings that need no model; stores are looked up under `spec`.
    """
    resources = cast(PlanningResources, spec.resources)
    judging = Judging.of(spec)
    outcome = Outcome()
    finished = finished_records(spec)
    before = resources.embedding()
    todo = {id(s): [q for q in s.questions if q.key not in finished] for s in part.chosen}
    taken = {key: _spread(open_, questions) for key, open_ in todo.items()}
    fresh = [s for s in part.chosen if memory_of(spec, s) is None]
    build_weight = Weight(
        part.build_turns / max(1, sum(map(turns_of, fresh))),
        part.build_size / max(1, sum(map(size_of, fresh))),
    )
    asked = sum(len(q) for q in taken.values())
    question_weight = Weight.same(part.questions / max(1, asked))
    again = _asked_again(spec, part) / max(1, asked)
    build_embedded = Embedded()
    for sample in part.chosen:
        stored = memory_of(spec, sample)
        if stored is None:
            with ledger.scope("build") as account:
                memory = await light.system.remember(None, sample.conversation.sessions)
            outcome.enter(map(_plain, account.calls), build_weight)
        else:
            memory, build = stored
            calls = [{**call, "cached": True} for call in build.calls]
            share = part.built / max(1, len(part.chosen) - len(fresh))
            outcome.enter(calls, Weight.same(share))
        now = resources.embedding()
        build_embedded = _plus(build_embedded, _minus(now, before), 1.0)
        for question in taken[id(sample)]:
            record = await _ask(light, memory, question, outcome, question_weight, again)
            if judging is not None and record is not None:
                judged = await judging.judge(light.chat, question, sample.conversation, record)
                outcome.enter(judged["calls"], question_weight)
        later = resources.embedding()
        outcome.embedded = _plus(outcome.embedded, _minus(later, now), question_weight.calls)
        before = later
    scale = build_weight.calls if fresh else 1.0
    outcome.embedded = _plus(outcome.embedded, build_embedded, scale)
    return outcome


async def _ask(
    spec: PlannedSpec,
    memory: Memory,
    question: Question,
    outcome: Outcome,
    weight: Weight,
    again: float,
) -> Record | None:
    system = spec.system
    with ledger.scope("question") as account:
        try:
            query = query_for(system, question)
            if spec.stage == "retrieve":
                await system.recall(memory, query)
                answer = None
            else:
                answer = await system.answer(memory, query)
        except ChatFailure:
            answer = None
    calls = [call.plain() for call in account.calls]
    outcome.enter(calls, weight)
    if again:
        outcome.enter([{**call, "cached": False} for call in calls], Weight.same(again))
    if answer is None:
        return None
    return {
        "conversation": question.conversation,
        "index": question.index,
        "id": question.id,
        "answer": answer.text,
        "context": answer.recall.context,
        "trace": {**answer.recall.trace, **answer.trace},
        "error": None,
    }


def _asked_again(spec: RunSpec, part: Extent) -> int:
    """Return how many questions `stage=timing` asks once more, without the reply store."""
    if spec.stage != "timing":
        return 0
    wanted = int(spec.config.values["timing"]["questions"])
    return min(wanted, part.questions + part.done) + 1  # the first one twice, to warm up


def _plain(call: ledger.Call) -> Mapping[str, Any]:
    return call.plain()


def _spread(questions: Sequence[Question], most: int) -> Sequence[Question]:
    """Choose at most `most` questions, evenly over a conversation's."""
    if len(questions) <= most:
        return questions
    return [questions[i * len(questions) // most] for i in range(most)]


def _minus(a: Embedded, b: Embedded) -> Embedded:
    return Embedded(a.texts - b.texts, a.tokens - b.tokens, a.stored - b.stored)


def _plus(a: Embedded, b: Embedded, weight: float) -> Embedded:
    return Embedded(
        a.texts + weight * b.texts, a.tokens + weight * b.tokens, a.stored + weight * b.stored
    )
