"""MemR3's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from memsys.mgretrieval.rewriting import RewriteStyle
from memsys.settings import Settings


class MemR3Build(Settings):
    """Settings that change the memory."""

    chunk_size: int = 256  # word pieces of the encoder; authors' LoCoMo script. -1: one chunk

    @field_validator("chunk_size")
    @classmethod
    def _some_or_all(cls, size: int) -> int:
        if size != -1 and size < 1:
            raise ValueError("chunk_size is a number of word pieces, or -1 for one chunk")
        return size


class MemR3Ask(Settings):
    """Settings of the loop and of answering."""

    top_k: int = Field(5, ge=1)  # n_chk, chunks shown per retrieval; paper §4.3
    n_max: int = Field(5, ge=1)  # iteration budget; paper §4.3
    n_cap: int = Field(1, ge=1)  # reflections in a row before a retrieval is forced; authors' code
    candidate_k: int = Field(20, ge=1)  # chunks that the cross-encoder rescores; authors' code
    rerank: bool = True  # part of the authors' RAG back end; off: cosine alone
    # paper: a retrieval without new snippets forces a reflection; ignore: the authors' RAG back
    # end, where that rule compares two counters that never move
    empty_retrieval: Literal["reflect", "ignore"] = "reflect"
    answer_style: Literal["harness", "official"] = "harness"  # harness: the shared answer prompt
    rewrite: bool = False  # ours: control row of MGRetrieval's answer rewriting
    rewrite_style: RewriteStyle = "locomo"
    retries: int = Field(1, ge=0)  # of a malformed reply; the authors' code tries 5 more times
    max_tokens: int = 1000  # per call; the authors set no limit
    temperature: float = 0.0  # authors' code
