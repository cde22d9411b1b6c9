"""JSON for files that outlive a run: fast, and safe for whatever a model may have written."""

from __future__ import annotations

from typing import Any

import orjson

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def dumps(value: Any) -> bytes:
    """Return `value` as one line of JSON; lone surrogates, which no file may hold, become `?`.

    A dataclass is written as its fields.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return orjson.dumps(_clean(value), option=_OPTIONS)


def encodable(text: str) -> str:
    """Return `text` as files and servers take it: lone surrogates become `?`."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
