"""Tries of a chat call that brought no reply and may have cost money nonetheless.

A back end tells of each one, and asks for leave before the next; whoever keeps a budget listens.
The two find each other by a context variable, since a reply store stands between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from memsys.llm.chat import Usage


class Listener(Protocol):
    """Keeps count of what a call's tries cost."""

    def lost(self, usage: Usage | None) -> None:
        """A try was billed and brought no reply; `None`: nobody knows for how many tokens."""

    async def again(self) -> None:
        """Give leave for another try, or raise."""


_listener: ContextVar[Listener | None] = ContextVar("memsys_tries", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let `listener` hear of the tries inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def lost(usage: Usage | None) -> None:
    """Tell that a try was billed and brought no reply; `None`: for unknown tokens."""
    listener = _listener.get()
    if listener is not None:
        listener.lost(usage)


async def again() -> None:
    """Wait for leave to try once more after a billed try."""
    listener = _listener.get()
    if listener is not None:
        await listener.again()
