"""MemoryOS: short-term pages, mid-term segments by heat, a long-term persona (EMNLP 2025)."""

from baselines.memoryos.settings import MemoryOSAsk, MemoryOSBuild
from baselines.memoryos.system import MemoryOS

__all__ = ["MemoryOS", "MemoryOSAsk", "MemoryOSBuild"]
