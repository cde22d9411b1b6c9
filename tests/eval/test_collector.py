"""The collector during a run: what was there before is left out, and all is as before after it."""

from __future__ import annotations

import gc
import weakref

import pytest

from eval.collector import collecting_rarely


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.self = self


def test_a_run_collects_rarely_and_leaves_the_usual_behind() -> None:
    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(KeyError), collecting_rarely():
        assert gc.get_threshold() > usual
        assert gc.get_freeze_count() > frozen
        raise KeyError
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() == 0


def test_what_a_run_leaves_in_knots_is_freed_while_it_goes_on() -> None:
    with collecting_rarely():
        first = weakref.ref(Knot())
        assert first() is not None
        for _ in range(60_000):
            Knot()
        assert first() is None


def test_knots_from_before_a_run_are_freed_after_it() -> None:
    before = weakref.ref(Knot())
    with collecting_rarely():
        gc.collect()
        assert before() is not None
    gc.collect()
    assert before() is None
