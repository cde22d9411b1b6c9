"""No memory: the control row that answers without having read anything."""

from baselines.no_memory.system import NoMemory, NoMemoryAsk, NoMemoryBuild

__all__ = ["NoMemory", "NoMemoryAsk", "NoMemoryBuild"]
