"""Word pieces: counting, cutting into windows, and splitting texts at character positions.

No state changes after loading, so that every thread may use one object at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memsys.encoders.source import Source
from memsys.errors import UserError

_NO_LIMIT = 10**6
_SURROGATE = re.compile("[\ud800-\udfff]")


class WordPieces:
    """A model's fast tokenizer, without its own truncation and padding."""

    def __init__(self, source: Source) -> None:
        """Load the tokenizer; the deep-learning libraries are not needed for it."""
        self._tokenizer = load_tokenizer(source)
        # files on the hub carry leftovers such as "truncate to 128, pad to 128"
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        probe = self._tokenizer.encode("a")
        inner = [i for i, special in enumerate(probe.special_tokens_mask) if not special]
        self.head: list[int] = list(probe.ids[: inner[0]])
        self.tail: list[int] = list(probe.ids[inner[-1] + 1 :])
        settings = source.json("tokenizer_config.json") or {}
        longest = settings.get("model_max_length") or _NO_LIMIT
        self.longest = int(min(longest, _NO_LIMIT))  # the files say 1e30 for "no limit"
        self.pad = pad_id(self._tokenizer, settings)

    @property
    def special(self) -> int:
        """How many special tokens surround a text."""
        return len(self.head) + len(self.tail)

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's word pieces, without special tokens."""
        clean = [readable(text) for text in texts]
        found = self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def windows(self, pieces: Sequence[int], limit: int) -> list[list[int]]:
        """Cut a text's pieces into windows of at most `limit`, special tokens included."""
        room = limit - self.special
        starts = range(0, len(pieces), room) if pieces else [0]
        return [[*self.head, *pieces[i : i + room], *self.tail] for i in starts]

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        """Return character spans of consecutive blocks of at most `tokens` word pieces.

        A word is cut only if it alone is longer than a block.
        """
        if tokens < 1:
            raise ValueError("a block holds at least one word piece")
        encoding = self._tokenizer.encode(readable(text), add_special_tokens=False)
        words: list[list[tuple[int, int]]] = []
        last: object = None
        for span, word in zip(encoding.offsets, encoding.word_ids, strict=True):
            if words and word is not None and word == last:
                words[-1].append(span)
            else:
                words.append([span])
            last = word
        blocks: list[list[tuple[int, int]]] = []
        for word in words:
            for i in range(0, len(word), tokens):
                part = word[i : i + tokens]
                if blocks and i == 0 and len(blocks[-1]) + len(part) <= tokens:
                    blocks[-1].extend(part)
                else:
                    blocks.append(list(part))
        spans = [(min(s for s, _ in block), max(e for _, e in block)) for block in blocks]
        return [span for span in spans if span[0] < span[1]]


def readable(text: str) -> str:
    """Put U+FFFD for halves of surrogate pairs, which tokenizers refuse; positions stay."""
    return _SURROGATE.sub("\ufffd", text)


def load_tokenizer(source: Source) -> Any:
    """Return the model's fast tokenizer, with whatever truncation and padding its file has."""
    from tokenizers import Tokenizer

    path = source.file("tokenizer.json")
    if path is not None:
        return Tokenizer.from_file(str(path))
    from transformers import AutoTokenizer

    name, arguments = source.load()
    tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, **arguments)
    if not tokenizer.is_fast:
        raise UserError(f"The model '{source.model}' has no fast tokenizer, which is needed here.")
    return Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())


def pad_id(tokenizer: Any, settings: dict[str, Any]) -> int:
    """Return the padding token's id."""
    token = settings.get("pad_token", "[PAD]")
    if isinstance(token, dict):
        token = token.get("content")
    found = tokenizer.token_to_id(token) if token else None
    return 0 if found is None else int(found)  # padding is masked, so that any id will do
