"""How many texts go through a model at once: a number, or one that is found by itself."""

from __future__ import annotations

from typing import Literal

CPU_ROWS = 32  # more pads more and gains nothing: two cores are busy from a few rows on
CPU_PIECES = 4_096  # padded word pieces: less padding, and layers that stay in the cache
CUDA_PIECES = 32_768  # padded word pieces that keep a large card busy; one turn of the worker's


class Batches:
    """The size of batches, which shrinks for good where memory did not suffice."""

    def __init__(self, size: int | Literal["auto"] = "auto") -> None:
        """Take `size` rows at a time; `auto` chooses by device and length."""
        self._size = size
        self._most: int | None = None  # padded word pieces, once memory ran out

    def rows(self, width: int, device: str) -> int:
        """Return how many rows of `width` word pieces to take, at least one."""
        if self._size != "auto":
            rows = self._size
        elif device == "cuda":
            rows = CUDA_PIECES // width
        else:
            rows = min(CPU_ROWS, CPU_PIECES // width)
        return max(1, rows if self._most is None else min(rows, self._most // width))

    def halve(self, rows: int, width: int) -> bool:
        """Note that so many rows were too many; returns whether fewer can be tried."""
        if rows == 1:
            return False
        self._most = rows // 2 * width
        return True
