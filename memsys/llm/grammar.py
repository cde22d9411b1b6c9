"""Schema-constrained decoding: replies that are valid JSON, within their token cap.

Three steps. `schemas.tighten` narrows a schema so that a reply of the wanted size is the natural
thing to write. xgrammar masks every token that would leave the grammar. `Guide` watches the
tokens that are left and, just before the shortest way to close the reply would no longer fit,
takes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memsys.llm.schemas import smallest, tighten

_BITS = [1 << i for i in range(31)] + [-(1 << 31)]  # of a signed 32-bit word


class Grammars:
    """Compiles schemas for one tokenizer and keeps what it compiled."""

    def __init__(self, tokenizer: Any, vocabulary: int, stops: Sequence[int]) -> None:
        """`vocabulary` is the width of the model's logits, `stops` its end-of-turn tokens."""
        import xgrammar

        self._xgrammar = xgrammar
        self._encode: Callable[[str], list[int]] = lambda text: list(
            tokenizer(text, add_special_tokens=False).input_ids
        )
        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=list(stops)
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self._known: dict[str, tuple[Any, int]] = {}
        self.vocabulary = vocabulary
        pieces = info.decoded_vocab
        special = set(info.special_token_ids) | set(stops)
        self._ids = {bytes(p): i for i, p in enumerate(pieces) if p and i not in special}
        self._longest = max(map(len, self._ids))
        # xgrammar lets raw control characters into strings of bounded length; JSON does not
        self._printable = self.bitmask(1)
        for token, piece in enumerate(pieces):
            if any(byte < 32 for byte in piece):
                self._printable[0, token // 32] ^= _BITS[token % 32]

    def guide(self, schema: Mapping[str, Any], tokens: int) -> Guide:
        """Return a guide for one reply of at most `tokens` tokens.

        Raises `ValueError` for a schema that the engine cannot compile.
        """
        narrow = tighten(schema, tokens)
        key = json.dumps(narrow, sort_keys=False)
        if key not in self._known:
            try:
                compiled = self._compiler.compile_json_schema(key, any_whitespace=False)
            except RuntimeError as error:
                raise ValueError(f"This schema cannot be enforced: {error}") from error
            shortest = len(self._encode(json.dumps(smallest(narrow))))
            self._known[key] = compiled, shortest
        compiled, shortest = self._known[key]
        matcher = self._xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
        return Guide(self, matcher, 2 * shortest + 16)

    def bitmask(self, rows: int) -> Any:
        """Return a mask for `rows` replies that allows every token."""
        return self._xgrammar.allocate_token_bitmask(rows, self.vocabulary).fill_(-1)

    def fill(self, matcher: Any, bitmask: Any, row: int) -> None:
        """Write the tokens that a matcher allows next into one row of a bitmask."""
        matcher.fill_next_token_bitmask(bitmask, row)
        bitmask[row] &= self._printable[0]

    def apply(self, logits: Any, bitmask: Any) -> None:
        """Set the logits (rows, vocabulary) of forbidden tokens to minus infinity, in place."""
        self._xgrammar.apply_token_bitmask_inplace(logits, bitmask.to(logits.device))

    def encode(self, text: str) -> list[int]:
        """Tokenise text as the model would write it."""
        return self._encode(text)

    def pieces(self, text: bytes) -> list[int]:
        """Spell bytes with the longest tokens from the left."""
        ids, at = [], 0
        while at < len(text):
            for end in range(min(len(text), at + self._longest), at, -1):
                found = self._ids.get(text[at:end])
                if found is not None:
                    ids.append(found)
                    at = end
                    break
            else:
                raise ValueError(f"The vocabulary cannot spell {text[at : at + 1]!r}.")
        return ids

    def id_of(self, text: str) -> int | None:
        """Return the token that spells `text`, if there is one."""
        return self._ids.get(text.encode())


class Guide:
    """Where one reply stands in its grammar."""

    def __init__(self, grammars: Grammars, matcher: Any, watch: int) -> None:
        """`watch` is the number of remaining tokens from which closing is considered."""
        self._grammars, self._matcher, self._watch = grammars, matcher, watch
        names = ('"', "]", "}", ",", "0", "false")
        self._closers = [i for i in map(grammars.id_of, names) if i is not None]
        self._quote, self._letter = grammars.id_of('"'), grammars.id_of("q")
        self._row = grammars.bitmask(1)

    @property
    def done(self) -> bool:
        """Whether the reply is complete."""
        return bool(self._matcher.is_terminated())

    def opening(self, limit: int) -> list[int]:
        """Accept and return the tokens that every reply begins with, if `limit` has room."""
        # the last token is left to the model: it may merge with what follows (`[` with `["`)
        forced = self._grammars.encode(self._matcher.find_jump_forward_string())[:-1]
        if len(forced) >= limit:
            return []
        return forced if all(self._matcher.accept_token(token) for token in forced) else []

    def mask(self, bitmask: Any, row: int) -> None:
        """Write the tokens allowed next into one row of a bitmask."""
        self._grammars.fill(self._matcher, bitmask, row)

    def accept(self, token: int, left: int) -> list[int]:
        """Accept the model's token, or what must be written instead to close in time.

        `left` counts the tokens that may still be written, this one included. Returns one token,
        or the whole rest of the reply once it has to be closed.
        """
        if left > self._watch:
            self._matcher.accept_token(token)
            return [token]
        trial = self._matcher.fork()
        trial.accept_token(token)
        rest = self._closing(trial, left - 1)
        if rest is None:
            ending = self._closing(self._matcher, left)
            if ending is not None:
                for forced in ending:
                    self._matcher.accept_token(forced)
                return ending
        self._matcher.accept_token(token)
        return [token]

    def _closing(self, matcher: Any, limit: int) -> list[int] | None:
        """Return a short way to complete the reply in at most `limit` tokens, if there is one."""
        state, path = matcher.fork(), list[int]()
        while not state.is_terminated():
            forced = state.find_jump_forward_string()
            step = self._grammars.pieces(forced.encode()) if forced else [self._closer(state)]
            path += step
            if len(path) > limit or not all(state.accept_token(token) for token in step):
                return None
        return path

    def _closer(self, state: Any) -> int:
        """Return the token that leads out of `state` fastest."""
        self._grammars.fill(state, self._row, 0)
        words = self._row[0].tolist()

        def allowed(token: int | None) -> bool:
            return token is not None and bool(words[token // 32] >> (token % 32) & 1)

        inside_text = allowed(self._letter) and allowed(self._quote)
        if inside_text and self._quote is not None:
            return self._quote
        order = self._closers[1:] + self._closers[:1]
        for token in order:
            if allowed(token):
                return token
        return next(i for i in range(self._grammars.vocabulary) if allowed(i))
