"""The usage ledger: which call belongs to which phase, conversation and question.

A call is attributed by context variables, so that no system has to pass bookkeeping along.
`scope` opens an account; every chat call and every counted event inside it, in whatever task or
thread it happens, lands on that account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["build", "question", "judge"]


@dataclass(frozen=True, slots=True)
class Call:
    """One chat call, as records keep it."""

    role: str
    phase: str
    model: str
    prompt: str
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    cached: bool
    seconds: float
    schema: bool = False
    valid: bool | None = None  # does the reply parse against its schema? None without a schema
    reply: str = ""  # its key in the reply store, empty where the store is off

    def plain(self) -> dict[str, Any]:
        """Return the call as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass
class Account:
    """The calls and counted events of one build, one question or one judgement."""

    phase: Phase
    calls: list[Call] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


_account: ContextVar[Account | None] = ContextVar("memsys_account", default=None)


@contextmanager
def scope(phase: Phase) -> Iterator[Account]:
    """Open an account; all calls and counts inside the block land on it."""
    account = Account(phase)
    token = _account.set(account)
    try:
        yield account
    finally:
        _account.reset(token)


def current() -> Account | None:
    """Return the open account, if there is one."""
    return _account.get()


def count(event: str, by: int = 1) -> None:
    """Count an event worth showing beside the score: a fallback, a cut, a retry."""
    account = _account.get()
    if account is not None and by:
        account.counts[event] += by
