"""MemR3: a retrieval controller that retrieves, reflects and answers (arXiv 2512.20237)."""

from baselines.memr3.settings import MemR3Ask, MemR3Build
from baselines.memr3.system import MemR3

__all__ = ["MemR3", "MemR3Ask", "MemR3Build"]
