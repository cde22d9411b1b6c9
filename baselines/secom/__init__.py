"""SeCom: memories are topical segments, found by compressed keys."""

from baselines.secom.system import SeCom, SeComAsk, SeComBuild

__all__ = ["SeCom", "SeComAsk", "SeComBuild"]
