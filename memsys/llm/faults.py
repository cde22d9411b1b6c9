"""What went wrong with a call to an endpoint, and what follows from it."""

from __future__ import annotations

import email.utils
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memsys.llm.chat import Usage

Kind = Literal["again", "limited", "refused", "overflow", "filtered", "hopeless"]
"""Ask again; ask again and press less; ask this endpoint nothing more; the prompt is too long; a
content filter objects; this one call can never succeed."""

PATIENCE = 600.0
"""Seconds; a server that asks for a longer pause has closed for the day."""

_MENDS = {
    401: "check the key in {key}",
    402: "the account has no credit left: top it up, or use another endpoint",
    403: "the key in {key} may not use this model",
    404: "check the model's name and base_url",
    429: "the quota is used up: raise it, wait for it, or use another endpoint",
}
_HINTS = (
    (r"max_completion_tokens", "set limit_field to max_completion_tokens for this model"),
    (
        r"response_format|json_schema|guided",
        "set json_schema to json_object or none for this model",
    ),
    (r"max_tokens|completion tokens", "set max_completion_tokens to what this model allows"),
)
"""What a server's words about a field of the request point to, in the order of trying."""
_RETRIED = {408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529}
_OVERFLOW = re.compile(
    r"context[ _]length|context window|maximum context|context size|max_model_len|"
    r"prompt is too long|too many tokens|exceeds? the (?:model|available) .*(?:length|context)|"
    r"longer than the maximum model length",
    re.IGNORECASE,
)
_FILTER = re.compile(r"content[ _]?(?:filter|policy|management)|safety system", re.IGNORECASE)
_QUOTA = re.compile(
    r"insufficient[ _](?:quota|balance|funds|credits)|exceeded your current quota|billing",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed call: its kind, the server's words, and the seconds that it asks us to wait.

    `billed`: the server worked on it and may charge for it, for `usage` if it told so much.
    """

    kind: Kind
    text: str
    wait: float = 0.0
    status: int | None = None
    unreachable: bool = False
    billed: bool = False
    usage: Usage | None = None

    def mend(self, key_name: str) -> str:
        """What the user can do about a refusal; `key_name` is the variable that holds the key."""
        if self.wait > PATIENCE:
            return f"it asks for a pause of {self.wait:.0f} s; run the same command then"
        advice = _MENDS.get(self.status or 0, "correct the request or the endpoint")
        if self.status in (400, 422):
            hints = (hint for words, hint in _HINTS if re.search(words, self.text, re.IGNORECASE))
            advice = next(hints, advice)
        return advice.format(key=key_name)


def of_status(status: int, body: Any, headers: Mapping[str, str]) -> Fault:
    """Judge an HTTP error by its status, its JSON body and its headers."""
    code, text = _words(body)
    words = f"{code} {text}"
    if status == 429:
        if _QUOTA.search(words):
            return Fault("refused", text, status=status)
        if _TOO_LARGE.search(words):
            return Fault("hopeless", text, status=status)
        return Fault("limited", text, retry_after(headers), status)
    if status in (400, 413, 422) and (status == 413 or _OVERFLOW.search(words)):
        return Fault("overflow", text, status=status)
    if status in (400, 403) and _FILTER.search(words):
        return Fault("filtered", text, status=status)
    # llama.cpp and transformers answer a prompt that is too long with a 500
    if status == 500 and _OVERFLOW.search(words):
        return Fault("overflow", text, status=status)
    if status in _RETRIED or status >= 500:
        return Fault("again", text, retry_after(headers), status)
    return Fault("refused", text, status=status)


def broken(error: BaseException, timeout: float) -> Fault:
    """Judge a connection that failed: nobody there, half an answer, or none within `timeout` s.

    The client's own classes do not tell: its transport calls a refused connection a time-out.
    """
    import aiohttp

    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if any(isinstance(cause, aiohttp.ClientPayloadError) for cause in causes):
        return Fault("again", "the connection broke within the answer", billed=True)
    late = any(isinstance(cause, TimeoutError) for cause in causes)
    if late and not any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        return Fault("again", f"no complete answer within {timeout:g} s", billed=True)
    return Fault("again", f"the connection broke ({type(causes[-1]).__name__})", unreachable=True)


def _words(body: Any) -> tuple[str, str]:
    """Return the code and the message of an error body, whatever its shape."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return "", str(error or "")
    code = " ".join(str(error[k]) for k in ("code", "type") if error.get(k))
    return code, str(error.get("message") or error.get("detail") or "")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float:
    """Return the seconds that `Retry-After` (or its millisecond form) asks for; 0 if nothing."""
    try:
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        pass
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    parsed = email.utils.parsedate_tz(value)
    if parsed is None:
        return 0.0
    return max(0.0, email.utils.mktime_tz(parsed) - (time.time() if now is None else now))


class Backoff:
    """Waiting times that double with each attempt, spread by chance so that callers disperse."""

    def __init__(self, first: float, most: float, seed: int | None = None) -> None:
        """Wait about `first` seconds before the first retry, never more than `most`."""
        self._first, self._most = first, most
        self._random = random.Random(seed)

    def seconds(self, attempt: int, wanted: float = 0.0) -> float:
        """Return the wait before retry `attempt` (from 0), at least what the server wants."""
        wait = min(self._most, self._first * 2.0**attempt)
        return wanted + wait * self._random.uniform(0.5, 1.0)


_SNAPSHOT = re.compile(r"[-@:](?:\d{4}-\d{2}-\d{2}|\d{3,8}|[0-9a-f]{7,40}|main|latest)")


def same_model(asked: str, answered: str) -> bool:
    """Whether a reply's model is the one asked for, or a dated snapshot of it.

    A provider's prefix (`openai/`) may differ; a server that names no model is believed.
    """
    asked, answered = (name.lower().rsplit("/", 1)[-1] for name in (asked, answered))
    if not answered or asked == answered:
        return True
    rest = answered.removeprefix(asked)
    return rest != answered and _SNAPSHOT.fullmatch(rest) is not None
