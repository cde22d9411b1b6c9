"""MemoryOS's settings: the paper's values; the authors' LoCoMo code (`eval/`) as a preset."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from memsys.settings import Settings

Positive = Annotated[int, Field(ge=1)]
Overlap = Literal["jaccard", "containment"]


class MemoryOSBuild(Settings):
    """Settings that change the memory."""

    # safe: nothing is lost | official: mimics eval/, which overwrites and drops utterances
    pairing: Literal["safe", "official"] = "safe"
    stm_length: Positive = 7  # pages in the short-term queue; paper (eval 1)
    evict: Literal["overflow", "full"] = "overflow"  # overflow: when one more arrives, paper
    segments: Positive = 200  # capacity of the mid-term store; paper (eval 2000)
    drop: Literal["coldest", "least_accessed"] = "coldest"  # above capacity; paper (eval: LFU)
    theta: float = 0.6  # F at which pages join a segment; paper
    overlap: Overlap = "jaccard"  # keyword term of F; paper (eval: mean of both containments)
    themes_from: Literal["both", "user"] = "both"  # ours: questions are about both (eval: user)
    keyword_calls: bool = False  # eval asks for a new segment's and its pages' keywords
    alpha: float = 1.0  # weight of N_visit in heat; paper (eval 0.8)
    beta: float = 1.0  # weight of L_interaction; paper (eval 0.8)
    gamma: float = 1.0  # weight of R_recency; paper (eval 0.0001)
    mu: float = Field(1e7, gt=0)  # recency constant in seconds; paper (eval 3600)
    recency: Literal["clock", "visit"] = "clock"  # visit: Δt is always 0, as in eval
    tau: float = 5.0  # heat that feeds the long-term store; paper
    tau_reached: bool = False  # True: at tau (eval); False: above it, paper
    facts: Positive | None = 100  # length of either fact queue; paper (eval unbounded)
    retries: int = Field(1, ge=0)  # of a malformed JSON reply, before the fallback
    max_tokens: int = 2000  # of most calls; eval
    chain_tokens: int = 100  # of a chain summary; eval
    temperature: float = 0.0  # MGRetrieval: 0 throughout (eval 0.7)


class MemoryOSAsk(Settings):
    """Settings of recall and answering."""

    top_m: Positive = 5  # segments; paper
    top_k: Positive = 10  # pages; paper: 10 for LoCoMo, 5 for GVD
    user_facts: Positive | None = 10  # paper
    assistant_facts: Positive | None = 10  # paper (eval: all)
    threshold: float | None = None  # least similarity of segments, pages and facts (eval 0.1)
    overlap: Overlap = "jaccard"  # keyword term of F; paper (eval: mean of both containments)
    query_keywords: bool = False  # eval asks for the question's keywords; without, F is cosine
    deduplicate: bool = True  # a page of two segments is shown once (eval: twice)
    answer_prompt: Literal["common", "official"] = "common"  # common: as for every system
    max_tokens: int = 2000  # of the keyword call and the official answer; eval
    temperature: float = 0.0  # MGRetrieval: 0 throughout (eval 0.7)
