"""MGRetrieval: keywords, a pyramid of keyword groups, reflective rounds, rewriting."""

from memsys.mgretrieval.settings import MGRetrievalAsk, MGRetrievalBuild
from memsys.mgretrieval.system import MGRetrieval

__all__ = ["MGRetrieval", "MGRetrievalAsk", "MGRetrievalBuild"]
