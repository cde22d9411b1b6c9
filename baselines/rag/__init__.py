"""RAG: top-20 dense retrieval over raw memories, the baseline of the MGRetrieval paper."""

from baselines.rag.system import RAG, RAGAsk, RAGBuild

__all__ = ["RAG", "RAGAsk", "RAGBuild"]
