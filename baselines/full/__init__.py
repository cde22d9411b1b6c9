"""Full History (MemGAS) and FULL (MGRetrieval): the conversation itself as context."""

from baselines.full.system import FullHistory, FullHistoryAsk, FullHistoryBuild, Reserve

__all__ = ["FullHistory", "FullHistoryAsk", "FullHistoryBuild", "Reserve"]
