"""MemGAS: multi-granularity association, entropy router, Personalized PageRank, filtering."""

from memsys.memgas.settings import MemGASAsk, MemGASBuild
from memsys.memgas.system import MemGAS

__all__ = ["MemGAS", "MemGASAsk", "MemGASBuild"]
