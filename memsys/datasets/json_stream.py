"""Reading a huge JSON list one record at a time, with memory bounded by the largest record.

Looking at every character in Python would be slow. Records of one file begin with the same key, and
`{ "key"` cannot stand inside a JSON string, where quotes are escaped: so the file is cut where the
first record's first key recurs, at the speed of a substring search, and each piece is parsed. (No
inner object may begin with that key; LongMemEval's `question_id` is none.)
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from memsys.errors import UserError

BLOCK = 4 * 2**20
"""Bytes read at a time."""

_FIRST_KEY = re.compile(rb'\s*\[\s*\{\s*("(?:[^"\\]|\\.)*")\s*:')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector out while one record is made: nothing in it is garbage (+20 %)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def stream_records(path: Path) -> Iterator[Any]:
    """Yield the records of the JSON list of objects in `path`, one at a time.

    Raises `UserError` with file and record for a web page, another shape, or a broken download.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for piece, is_last in _pieces(stream, path):
                for record in _parsed(piece, is_last, path, number):
                    number += 1
                    yield record
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None


def _pieces(stream: BinaryIO, path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes between one record's opening brace and the next, and whether it is the last.

    A record that begins with another key shares a piece with the one before.
    """
    buffer = stream.read(BLOCK).removeprefix(b"\xef\xbb\xbf")
    if re.fullmatch(rb"\s*\[\s*\]\s*", buffer):
        return
    head = _FIRST_KEY.match(buffer)
    if head is None:
        what = "a web page" if buffer.lstrip()[:1] == b"<" else "not a JSON list of records"
        raise UserError(f"{path} is {what}: download the raw data file.")
    opening = re.compile(rb"\{\s*" + re.escape(head[1]))
    start = buffer.index(b"{")
    scanned = head.end()
    while True:
        # the key is searched first, as a plain substring: a hundred times faster than a pattern
        place = buffer.find(head[1], scanned)
        if place >= 0:
            scanned = place + len(head[1])
            brace = buffer.rfind(b"{", start + 1, place)
            if brace > start and opening.match(buffer, brace, scanned):
                yield buffer[start:brace], False
                start = brace
            continue
        # a key or its brace may be cut in two by the block's end
        scanned = max(scanned, len(buffer) - len(head[1]) + 1)
        block = stream.read(BLOCK)
        if not block:
            yield buffer[start:], True
            return
        buffer, scanned, start = buffer[start:] + block, scanned - start, 0


def _parsed(piece: bytes, is_last: bool, path: Path, done: int) -> Iterator[Any]:
    """Parse the one or more records of a piece; `done` counts the records before it."""
    try:
        text = piece.decode("utf-8")
        position = 0
        while text.startswith("{", position):
            with no_collection():
                record, position = _DECODER.raw_decode(text, position)
            done += 1
            yield record
            position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        end = text[position:].strip()
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        if is_last:
            raise UserError(
                f"{path} breaks off in record {done + 1}: the download is not complete."
            ) from None
        raise UserError(f"{path}, record {done + 1} is not valid JSON ({error}).") from None
    if end != ("]" if is_last else ""):
        raise UserError(f"{path} is not a JSON list that ends after record {done}.")
