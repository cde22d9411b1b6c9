"""LLM-Rsum: recursive summarising of sessions into one textual memory."""

from baselines.llm_rsum.system import LlmRsum, LlmRsumAsk, LlmRsumBuild

__all__ = ["LlmRsum", "LlmRsumAsk", "LlmRsumBuild"]
