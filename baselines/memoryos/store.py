"""The three stores as one value that a memory can hold: STM queue, MTM segments, LPM facts."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.memoryos.pages import Page, page_of
from baselines.memoryos.scores import heat, keyword_overlap, seconds_between
from baselines.memoryos.settings import MemoryOSBuild, Overlap
from memsys.encoders.protocol import Vectors
from memsys.retrieval.ranking import descending
from memsys.retrieval.vector_index import similarities
from memsys.system import Memory


@dataclass
class Segment:
    """A topic of the mid-term store and the ids of its pages."""

    summary: str
    keywords: list[str]
    pages: list[str] = field(default_factory=list)
    visits: int = 0  # N_visit: stays 0 here, since asking never changes a memory
    interactions: int = 0  # L_interaction: pages added since the last long-term update
    accesses: int = 0  # pages ever added, for the least-accessed rule
    visited: str = ""  # ISO time of the last visit


@dataclass
class Stores:
    """All that MemoryOS remembers; `vectors` of segments and facts run in parallel to them."""

    user: str = ""
    assistant: str = ""
    made: int = 0  # pages made so far
    now: str = ""  # ISO time of the newest page: the clock
    pages: dict[str, Page] = field(default_factory=dict)
    stm: deque[str] = field(default_factory=deque)
    previous: Page | None = None  # the page evicted last
    chains: list[str] = field(default_factory=list)  # running summaries
    segments: list[Segment] = field(default_factory=list)
    profile: str = ""
    facts: dict[str, list[str]] = field(default_factory=lambda: {"user": [], "assistant": []})
    vectors: dict[str, list[NDArray[Any]]] = field(
        default_factory=lambda: {"segments": [], "user": [], "assistant": []}
    )

    @classmethod
    def of(cls, memory: Memory) -> Stores:
        """Open the stores of a memory; what is done to them does not reach it."""
        if not memory.state:
            return cls()
        state = memory.state
        return cls(
            **{name: state[name] for name in ("user", "assistant", "made", "now", "profile")},
            pages={unit.id: page_of(unit.fields) for unit in memory.units},
            stm=deque(state["stm"]),
            previous=page_of(state["previous"]) if state["previous"] else None,
            chains=list(state["chains"]),
            segments=[
                Segment(**{**s, "keywords": list(s["keywords"]), "pages": list(s["pages"])})
                for s in state["segments"]
            ],
            facts={side: list(facts) for side, facts in state["facts"].items()},
            vectors={name: list(memory.array(name)) for name in ("segments", "user", "assistant")},
        )

    def state(self) -> dict[str, Any]:
        """Return all but pages and vectors, as JSON values."""
        names = ("user", "assistant", "made", "now", "chains", "profile", "facts")
        return {
            **{name: getattr(self, name) for name in names},
            "stm": list(self.stm),
            "previous": asdict(self.previous) if self.previous else None,
            "segments": [asdict(segment) for segment in self.segments],
        }

    def arrays(self, width: int) -> dict[str, NDArray[Any]]:
        """Return the vectors of segments and facts."""
        return {name: matrix(rows, width) for name, rows in self.vectors.items()}

    def prune(self) -> None:
        """Forget pages that are in no store any more."""
        held = {*self.stm, *(page for segment in self.segments for page in segment.pages)}
        self.pages = {name: page for name, page in self.pages.items() if name in held}

    def similarity(self, vector: Vectors, keywords: list[str], overlap: Overlap) -> Vectors:
        """Return F of every segment with a text: cosine plus the keyword term, shape (n,)."""
        if not self.segments:
            return np.zeros(0, np.float32)
        rows = matrix(self.vectors["segments"], len(vector))
        common = [keyword_overlap(s.keywords, keywords, overlap) for s in self.segments]
        scores: Vectors = similarities(rows, vector[None], "cosine")[0] + np.array(common)
        return scores

    def choose(self, vector: Vectors, keywords: list[str], build: MemoryOSBuild) -> Segment | None:
        """Return the segment with the highest F if that reaches θ."""
        scores = self.similarity(vector, keywords, build.overlap)
        if not scores.size:
            return None
        best = int(descending(scores)[0])
        return self.segments[best] if scores[best] >= build.theta else None

    def put(self, segment: Segment, page: Page) -> None:
        """Add a page to a segment, once; this is a visit."""
        if page.id in segment.pages:
            return
        segment.pages.append(page.id)
        segment.interactions += 1
        segment.accesses += 1
        segment.visited = self.now

    def heats(self, build: MemoryOSBuild) -> list[float]:
        """Return the heat of every segment, now."""
        return [
            heat(s.visits, s.interactions, seconds_between(s.visited, self.now), build)
            for s in self.segments
        ]

    def make_room(self, build: MemoryOSBuild) -> int:
        """Drop segments above capacity and return how many; of equals the oldest goes."""
        dropped = 0
        while len(self.segments) > build.segments:
            by_heat = build.drop == "coldest"
            keys = self.heats(build) if by_heat else [s.accesses for s in self.segments]
            victim = min(range(len(keys)), key=keys.__getitem__)
            del self.segments[victim], self.vectors["segments"][victim]
            dropped += 1
        return dropped

    def learn(self, side: str, facts: list[str], rows: Vectors, limit: int | None) -> None:
        """Append facts to the queue of one side; the oldest leave a full queue."""
        self.facts[side] += facts
        self.vectors[side] += list(rows)
        if limit is not None:
            self.facts[side] = self.facts[side][-limit:]
            self.vectors[side] = self.vectors[side][-limit:]


def matrix(rows: list[NDArray[Any]], width: int) -> Vectors:
    """Stack vectors to (n, width), also where there is none."""
    return np.array(rows, np.float32).reshape(len(rows), width)
