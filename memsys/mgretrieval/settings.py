"""Every switch of MGRetrieval (§3, §4.1, §A.4); sections are the paper's."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memsys.mgretrieval.items import MemoryUnit
from memsys.mgretrieval.pyramid import GroupOrder
from memsys.mgretrieval.rewriting import RewriteStyle
from memsys.settings import Settings


class MGRetrievalBuild(Settings):
    """What changes the memory."""

    memory_unit: MemoryUnit = "exchange"  # inferred from the paper's costs and case study
    aux_pipeline: Literal["extract_match", "extract_only"] = "extract_match"  # §A.4: both jobs
    vocab_prompt_tokens: int = Field(
        default=500, ge=0
    )  # inferred from 786 tokens a question (§4.2)


class MGRetrievalAsk(Settings):
    """What changes recall and answers only."""

    depth: int = Field(default=4, ge=1, le=12)  # pyramid depth l = most query keywords (§4.1, §A.4)
    max_rounds: int = Field(default=4, ge=1)  # r_max (§4.1, §A.4)
    group_order: GroupOrder = "rank_lexicographic"  # our choice: the paper is silent
    skip_empty: bool = True  # our choice: a group without new memories costs no round
    rmr: bool = True  # redundant memory removal (§3.2; off in Table 5)
    critical_update: Literal["replace", "union"] = "replace"  # our choice
    max_round_tokens: int | None = Field(default=None, ge=1)  # ours; None: context - 2,000
    rewrite: bool = True  # answer rewriting R (§3.2; off in Table 5)
    rewrite_style: RewriteStyle = "locomo"  # §4.1; conversational for GVD is our choice
