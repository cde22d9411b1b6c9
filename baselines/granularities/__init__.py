"""Single granularities, their combination, and dense retrieval: one text stands for a session."""

from baselines.granularities.settings import GranularityAsk, GranularityBuild
from baselines.granularities.system import Granularity

__all__ = ["Granularity", "GranularityAsk", "GranularityBuild"]
