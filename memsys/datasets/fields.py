"""Reading untrusted benchmark files: every fault becomes one sentence with file and record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from memsys.errors import UserError

T = TypeVar("T")
_KIND_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a number", bool: "a flag"}


def need(record: object, field: str, kind: type[T] | tuple[type[T], ...], where: str) -> T:
    """Return `record[field]`, or raise a `UserError` that says where it is missing or wrong."""
    if not isinstance(record, dict):
        raise UserError(f"{where}: expected an object, found {type(record).__name__}.")
    if field not in record:
        raise UserError(f"{where}: the field '{field}' is missing.")
    value = record[field]
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(_KIND_NAMES.get(k, k.__name__) for k in kinds)
        raise UserError(
            f"{where}: the field '{field}' should be {wanted}, not {type(value).__name__}."
        )
    return value


def need_strings(record: object, field: str, where: str) -> list[str]:
    """Return `record[field]` as a list of strings, or raise a `UserError`."""
    values: list[Any] = need(record, field, list, where)
    for value in values:
        if not isinstance(value, str):
            raise UserError(f"{where}: the field '{field}' holds a {type(value).__name__}.")
    return values


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text, or raise a `UserError` for what is no text or no data."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: is it a compressed file?") from None
    if text.lstrip()[:1] == "<":
        raise UserError(f"{path} is a web page, not the data file: download the raw file.")
    return text


def read_json(path: Path) -> Any:
    """Return a JSON file's content, or raise a `UserError` for what is not whole JSON."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path} is not whole JSON (line {error.lineno}, column {error.colno}: {error.msg}): "
            "it may be a broken download."
        ) from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield `(line number, value)` for every non-blank line of a JSON-lines file."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number} is not JSON ({error.msg}).") from None
