"""MemoryBank: exchanges by date, daily and global summaries, a portrait (AAAI 2024)."""

from baselines.memorybank.system import MemoryBank, MemoryBankAsk, MemoryBankBuild

__all__ = ["MemoryBank", "MemoryBankAsk", "MemoryBankBuild"]
