"""What a memory system is: settings and an algorithm over plain-data memories, no hidden state.

A system *remembers* sessions into a `Memory`, *recalls* from it for a query, and *answers*. Asking
never changes a memory, so the order of questions cannot matter.
"""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from memsys.dialogue import Query, Session
from memsys.encoders.protocol import Encoder, Reranker
from memsys.llm.chat import ChatModel
from memsys.llm.prompts import Prompts
from memsys.settings import Settings

Json = Any
Need = Literal["main", "auxiliary", "encoder", "reranker"]
Stage = Literal["remember", "recall", "answer"]


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing that a system remembers, and the turns and sessions it came from."""

    id: str
    text: str
    turns: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a system remembers of one conversation: plain data that can be saved and shown.

    `sessions` are the ids of all remembered sessions, in time order. `arrays` hold numbers
    (vectors, edges); `state` holds whatever else the system needs, as JSON values.
    """

    units: tuple[Unit, ...] = ()
    sessions: tuple[str, ...] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    state: Mapping[str, Json] = field(default_factory=dict)

    def array(self, name: str, width: int = 0) -> NDArray[np.float32]:
        """Return a stored array, or an empty one of shape (0, width)."""
        found = self.arrays.get(name)
        return np.zeros((0, width), np.float32) if found is None else found


@dataclass(frozen=True, slots=True)
class Ranked:
    """A recalled unit and its score (higher is better), in the ranking's order."""

    unit: str
    score: float


@dataclass(frozen=True, slots=True)
class Recall:
    """What a system found for a query.

    `ranking` is best first; `context` is the text that the answering model will read;
    `sessions` ranks session ids, best first, or is `None` for a system that cannot rank them.
    `trace` says how the system got there, as JSON values.
    """

    ranking: tuple[Ranked, ...]
    context: str
    sessions: tuple[str, ...] | None = None
    trace: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A system's answer, with what it recalled and how it went about it."""

    text: str
    recall: Recall
    trace: Mapping[str, Json] = field(default_factory=dict)
    rounds: int = 1


class Answerer(Protocol):
    """The protocol's shared answer prompt: one for every system in a table."""

    async def answer(self, context: str, query: Query, *, keep: str = "start") -> str:
        """Answer `query` from `context` with one call of the main model.

        A context longer than the model's window is cut (keeping its `start` or `end`) and the
        tokens cut are counted. An empty reply is an empty answer.
        """

    def budget(self, query: Query) -> int:
        """Return how many tokens of context fit beside the fixed prompt and the completion."""


@dataclass(frozen=True)
class Tools:
    """What a run lends to a system."""

    chat: ChatModel
    encoder: Encoder
    prompts: Prompts
    answerer: Answerer
    reranker: Reranker | None = None


B = TypeVar("B", bound=Settings)
A = TypeVar("A", bound=Settings)


class MemorySystem(ABC, Generic[B, A]):
    """A memory system under test.

    Subclasses annotate `build` and `ask` in `__init__` with their own `Settings`; configs are
    validated against that signature. Raise `version` whenever the system's numbers may change.
    """

    version: ClassVar[int] = 1
    shared_prompts: ClassVar[tuple[str, ...]] = ()  # packages, beside its own, that lend templates
    session_ranking: ClassVar[str | None] = None  # how sessions are ranked; None: they are not

    def __init__(self, build: B, ask: A, tools: Tools) -> None:
        """Keep the settings of both phases and the tools of the run."""
        self.build = build
        self.ask = ask
        self.tools = tools

    @classmethod
    def prompt_packages(cls) -> tuple[str, ...]:
        """Return the packages whose templates this system may use: its own, and those it shares.

        Their hashes are part of every fingerprint, so that a changed prompt never reuses a result.
        """
        spec = sys.modules[cls.__module__].__spec__  # None for a class made in a notebook
        own = [spec.parent or spec.name] if spec is not None else []
        return tuple(dict.fromkeys([*own, *cls.shared_prompts]))

    @abstractmethod
    def needs(self, stage: Stage) -> frozenset[Need]:
        """Return what `stage` uses under these settings; preflight checks just that."""

    def check(self) -> None:  # most systems need nothing beyond models
        """Preflight: raise `UserError` if a package that these settings need is missing."""

    @abstractmethod
    async def remember(self, memory: Memory | None, sessions: Sequence[Session]) -> Memory:
        """Return a memory that also holds `sessions`; `None` starts a new one.

        Remembering all sessions at once and one by one gives the same memory, unless the system
        says otherwise in its docs.
        """

    @abstractmethod
    async def recall(self, memory: Memory, query: Query) -> Recall:
        """Find what bears on `query`, without changing `memory`."""

    async def recall_many(self, memory: Memory, queries: Sequence[Query]) -> Sequence[Recall]:
        """Recall for many queries; systems that can do so faster together override this."""
        return await asyncio.gather(*(self.recall(memory, query) for query in queries))

    async def answer(self, memory: Memory, query: Query) -> Answer:
        """Recall, then ask the protocol's shared answer prompt once."""
        recall = await self.recall(memory, query)
        return Answer(await self.tools.answerer.answer(recall.context, query), recall)


def sessions_by_first_hit(memory: Memory, ranking: Sequence[Ranked]) -> tuple[str, ...]:
    """Rank sessions by their first recalled unit; sessions never hit follow in time order."""
    of_unit = {unit.id: unit.sessions for unit in memory.units}
    hits = (session for ranked in ranking for session in of_unit[ranked.unit])
    return tuple(dict.fromkeys([*hits, *memory.sessions]))
