"""The settings of MemGAS: the paper's values, each with its source."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memsys.retrieval.mixture import Backend
from memsys.retrieval.vector_index import Similarity
from memsys.settings import Settings

MetadataSource = Literal["llm", "dataset"]
Formula = Literal["inverse_entropy", "one_minus_entropy", "uniform"]
Propagation = Literal["ppr", "one_hop", "seeds", "eq5"]


class Association(Settings):
    """How new nodes are linked to older ones (§2.2)."""

    enabled: bool = True  # False: ablation "w/o Memory Association" (Table 4)
    # gmm: the accept set; top1: ablation "w/o GMM"; topk:5: commented out in the official code
    edge_rule: str = Field(default="gmm", pattern=r"^(gmm|top1|topk:[1-9][0-9]*)$")
    candidate_cap: int | None = Field(
        default=30, ge=1
    )  # official README; the paper mentions no cap
    first_linked_session: int = Field(
        default=1, ge=0
    )  # paper: the second session links; official code 5
    gmm: Backend = "batched"  # torch: on CUDA where there is a card; sklearn: the reference
    seed: int = Field(default=0, ge=0)  # official code, random_state

    @property
    def neighbours(self) -> int | None:
        """How many nearest candidates a node links to; `None`: its accept set."""
        if self.edge_rule == "gmm":
            return None
        return 1 if self.edge_rule == "top1" else int(self.edge_rule.split(":")[1])


class MemGASBuild(Settings):
    """What changes the memory."""

    metadata: MetadataSource = "llm"  # dataset: the benchmark's own notes, never a paper's column
    metadata_calls: Literal[1, 2] = 2  # official code; 1: one merged call, as Eq. 1 reads
    metadata_max_tokens: int = Field(default=500, ge=1)  # official code
    similarity: Similarity = "dot"  # official code; the paper says cosine
    turn_node: Literal["mean", "max"] = "mean"  # official code; max: ours, for the query side
    association: Association = Association()


class Router(Settings):
    """How granularities are weighted (§2.3)."""

    # Eq. 4; one_minus_entropy: official code; uniform: ablation "w/o Soft Router"
    formula: Formula = "inverse_entropy"


class Filter(Settings):
    """The LLM call that keeps what bears on the question (§2.4)."""

    enabled: bool = True  # §2.4; False: ablation "w/o Filtering"
    repeat_per_session: bool = False  # True: the official code's K copies, one under each date
    max_tokens: int = Field(default=4000, ge=1)  # official code


class MemGASAsk(Settings):
    """What changes recall and answers only."""

    lambda_: float = Field(
        default=0.2, alias="lambda", gt=0
    )  # App. D; softmax temperature of Eq. 3
    alpha: int = Field(default=15, ge=1)  # App. D; seed nodes
    top_k: int = Field(default=3, ge=1)  # §3.1; sessions shown
    damping: float = Field(
        default=0.1, ge=0, lt=1
    )  # official README and code; probability of moving on
    router: Router = Router()
    # ppr: §2.4; one_hop: ablation "w/o PPR"; seeds: no graph; eq5: neither seeds nor graph (ours)
    propagation: Propagation = "ppr"
    filter: Filter = Filter()
