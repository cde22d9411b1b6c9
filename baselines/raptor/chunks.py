"""RAPTOR's leaves: a text cut into chunks of at most 100 tokens between sentences (§3).

Sentences end at `.`, `!`, `?` or a line break; a longer one is cut at `,`, `;` or `:`. As in the
authors' code the separators themselves are lost. Unlike there, sentences keep their order and no
chunk is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memsys.llm import ledger

_SENTENCE_END = re.compile(r"[.!?\n]")
_CLAUSE_END = re.compile(r"[,;:]")

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text with its source; a date line has no turn."""

    text: str
    session: str
    turn: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A leaf's text, and the turns and sessions it came from, in time order."""

    text: str
    turns: tuple[str, ...]
    sessions: tuple[str, ...]


def split(piece: Piece, at: re.Pattern[str]) -> list[Piece]:
    """Cut a piece at a pattern, without the separators and without empty parts."""
    parts = (part.strip() for part in at.split(piece.text))
    return [Piece(part, piece.session, piece.turn) for part in parts if part]


def join(pieces: Sequence[Piece]) -> Chunk:
    """Join pieces into a chunk."""
    turns = dict.fromkeys(p.turn for p in pieces if p.turn is not None)
    sessions = dict.fromkeys(p.session for p in pieces)
    return Chunk(" ".join(p.text for p in pieces), tuple(turns), tuple(sessions))


def chunks(lines: Iterable[Piece], limit: int, count: Count) -> list[Chunk]:
    """Cut lines into chunks of at most `limit` tokens.

    A clause that is longer than that stays whole and is counted as `raptor.long_clause`.
    """
    packed: list[list[Piece]] = []
    run: list[Piece] = []  # short sentences in a row, which may share a chunk
    for sentence in (s for line in lines for s in split(line, _SENTENCE_END)):
        if count(sentence.text) <= limit:
            run.append(sentence)
            continue
        packed += _pack(run, limit, count)
        packed += _pack(split(sentence, _CLAUSE_END), limit, count)
        run = []
    packed += _pack(run, limit, count)
    return [join(pieces) for pieces in packed]


def _pack(pieces: Sequence[Piece], limit: int, count: Count) -> list[list[Piece]]:
    """Fill chunks with consecutive pieces while the sum of their tokens stays within `limit`."""
    packed: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        tokens = count(piece.text)
        ledger.count("raptor.long_clause", int(tokens > limit))
        if packed and tokens <= room:
            packed[-1].append(piece)
            room -= tokens
        else:
            packed.append([piece])
            room = limit - tokens
    return packed
