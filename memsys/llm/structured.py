"""Structured replies: ask for JSON of a known shape, read what comes back leniently.

A reply is read in this order: as JSON; as the last JSON object inside prose, a fence or a
truncated text (through `json-repair`); else it is malformed. A malformed reply is asked again
`retries` times as a new attempt; after that the caller applies its specification's fallback.
Everything but a clean first reply is counted on the ledger under the caller's event name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from memsys.llm import ledger
from memsys.llm.chat import ChatModel, Messages, Role

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Structured(Generic[Shape]):
    """A reply read as `value`, or `None` if no attempt could be read; `text` is the last reply."""

    value: Shape | None
    text: str


async def ask_json(
    chat: ChatModel,
    messages: Messages,
    shape: type[Shape],
    *,
    role: Role,
    max_tokens: int,
    event: str,
    temperature: float = 0.0,
    retries: int = 1,
) -> Structured[Shape]:
    """Ask `role` for a reply of the given shape.

    Counts `event:repaired`, `event:retried` and `event:fallback` on the ledger. Raises
    `ChatFailure` if the call itself fails.
    """
    schema = shape.model_json_schema()
    text = ""
    for attempt in range(retries + 1):
        if attempt:
            ledger.count(f"{event}:retried")
        reply = await chat.reply(
            messages,
            role=role,
            max_tokens=max_tokens,
            temperature=temperature,
            schema=schema,
            attempt=attempt,
        )
        text = reply.text
        value, clean = read_json(text, shape)
        if value is not None:
            if not clean:
                ledger.count(f"{event}:repaired")
            return Structured(value, text)
    ledger.count(f"{event}:fallback")
    return Structured(None, text)


def read_json(text: str, shape: type[Shape]) -> tuple[Shape | None, bool]:
    """Read a reply as `shape`; the flag says whether it was valid as it stood."""
    try:
        return shape.model_validate_json(text), True
    except ValidationError:
        pass
    for candidate in reversed(_objects(text)):
        try:
            return shape.model_validate(candidate), False
        except ValidationError:
            continue
    return None, False


def _objects(text: str) -> list[Any]:
    """Return the outermost JSON objects of a text, the last one repaired if it is cut off."""
    found: list[Any] = []
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            repaired = json_repair.loads(text[at:])
            return [*found, repaired] if isinstance(repaired, dict) else found
        found.append(value)
        at = text.find("{", end)
    return found
