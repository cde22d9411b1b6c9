"""RAPTOR: a tree of recursive summaries over soft clusters."""

from baselines.raptor.system import Raptor, RaptorAsk, RaptorBuild

__all__ = ["Raptor", "RaptorAsk", "RaptorBuild"]
