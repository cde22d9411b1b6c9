"""Python's cycle collector, kept from looking through what a run does not change."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_USUAL = gc.get_threshold()
_RARELY = 50_000, 20, 100  # new objects, and collections of younger ones, between collections


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Leave what exists now out of all collections, and collect the rest less often.

    A full collection looks at every object of the libraries and the data: for 0.1 to 0.2 s no
    answer is taken, and afterwards all that have come meanwhile are taken in one burst.
    """
    gc.freeze()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*_USUAL)
        gc.unfreeze()
