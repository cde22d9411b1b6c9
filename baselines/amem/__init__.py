"""A-Mem: linked notes, one a turn, that rewrite one another (arXiv 2502.12110)."""

from baselines.amem.system import AMem, AMemAsk, AMemBuild

__all__ = ["AMem", "AMemAsk", "AMemBuild"]
