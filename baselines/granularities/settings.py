"""The settings of the single-granularity rows (MemGAS Tables 3, 6, 7)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memsys.memgas.metadata import Part
from memsys.memgas.settings import Filter, MetadataSource
from memsys.retrieval.vector_index import Similarity
from memsys.settings import Settings

Kind = Literal["session", "turn", "summary", "keyword", "combination"]
Shown = Literal["session", "pair", "summary", "keyword", "all"]

PARTS: dict[Kind, frozenset[Part]] = {
    "session": frozenset(),
    "turn": frozenset(),
    "summary": frozenset({"summary"}),
    "keyword": frozenset({"keywords"}),
    "combination": frozenset({"summary", "keywords"}),
}
"""Which metadata each row needs."""

SHOWN: dict[Kind, Shown] = {
    "session": "session",
    "turn": "session",
    "summary": "summary",
    "keyword": "keyword",
    "combination": "session",
}
"""What each row shows to the answering model by default (the J columns of Tables 3 and 6)."""


class GranularityBuild(Settings):
    """What changes the memory."""

    granularity: Kind = "session"  # Table 3: one row each
    metadata: MetadataSource = "llm"  # dataset: the benchmark's own notes, never a paper's column
    metadata_calls: Literal[1, 2] = 2  # as in MemGAS, whose metadata these rows share
    metadata_max_tokens: int = Field(default=500, ge=1)  # official code
    roles: Literal["all", "user"] = "all"  # official code; user: LongMemEval's own Contriever row
    # official code; chunks: ours, windows that cover the whole text, pooled by their mean or max
    long_text: Literal["truncate", "chunk_mean", "chunk_max"] = "truncate"
    chunk_tokens: int = Field(default=510, ge=1)  # a 512-piece window without its special tokens


class TurnAsk(Settings):
    """How turn pairs count for their session."""

    score: Literal["mean", "max"] = "mean"  # official code; max: commented out there
    unit: Literal["session", "pair"] = "session"  # official code; pair: commented out there


class GranularityAsk(Settings):
    """What changes recall and answers only."""

    top_k: int = Field(default=3, ge=1)  # §3.1
    similarity: Similarity = "dot"  # official code; the paper says cosine
    turn: TurnAsk = TurnAsk()
    show: Shown | None = None  # null: as the row's own table (full sessions, or the metadata alone)
    filter: Filter = Filter(enabled=False)  # no filter call in these rows; True: our control
