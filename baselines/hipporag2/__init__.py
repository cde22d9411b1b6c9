"""HippoRAG 2: an open knowledge graph of sessions, searched by Personalized PageRank."""

from baselines.hipporag2.system import HippoRag2, HippoRag2Ask, HippoRag2Build

__all__ = ["HippoRag2", "HippoRag2Ask", "HippoRag2Build"]
