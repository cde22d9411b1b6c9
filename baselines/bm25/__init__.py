"""BM25 over session texts: the lexical control row."""

from baselines.bm25.system import Bm25, Bm25Ask, Bm25Build

__all__ = ["Bm25", "Bm25Ask", "Bm25Build"]
