"""Errors with a meaning: whose fault, and what a person can do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MemsysError(Exception):
    """Base of all errors that this project raises on purpose."""

    exit_status = 1


class UserError(MemsysError):
    """The user's input is at fault: one sentence that says what, where and how to mend it."""

    exit_status = 2


class EndpointRefused(UserError):
    """An endpoint will answer no call at all: wrong key, no quota left, no such model."""


class ChatFailure(MemsysError):
    """One chat call could not be answered after all retries; its question becomes a failure."""


class ContextOverflow(ChatFailure):
    """The prompt is longer than the model's context window."""


class ChatRefused(ChatFailure):
    """A content filter refused the call; the refusal is recorded, never stored as an answer."""


def suggest(name: str, options: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest option, or the list of options, or nothing."""
    known = sorted(set(options))
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f" Did you mean '{near[0]}'?"
    return f" Known: {', '.join(known)}." if known else ""
