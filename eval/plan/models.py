"""The models of a dry run: they count and reply, and load nothing.

A planning model has the name, the window and the identity of the one it stands for, so that
stored replies, vectors and memories are found under their own keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from eval.plan.replies import Writer
from memsys.concurrency import compute
from memsys.encoders.local import unit
from memsys.encoders.protocol import Kind, Vectors
from memsys.encoders.service import SplittingModel
from memsys.errors import MemsysError
from memsys.llm.chat import Backend, Message, Messages, Reply, Request, Usage
from memsys.llm.replies import StoredReplies, read_reply, reply_key
from memsys.llm.roles import RoleChat
from memsys.llm.tokens import TokenCounter
from memsys.stores.vectors import VectorStore

R = TypeVar("R")

_prompt: ContextVar[str] = ContextVar("memsys_planned_prompt", default="")
_PIECES = re.compile(r"\w+|[^\w\s]")
_MODEL_MADE: WeakKeyDictionary[SplittingModel, dict[bytes, Vectors]] = WeakKeyDictionary()
_SLICE = 512  # texts embedded at a time
_OWN = 6.0  # how much of a text's vector is its own; a word of 8 letters weighs 1
_WINDOW, _DIMENSION = 8192, 384  # of models whose files are not here


class PlanningChat(RoleChat):
    """The chat model of a dry run; tells the back end which prompt is asked."""

    async def reply(self, messages: Messages, **how: Any) -> Reply:
        """Answer at once."""
        token = _prompt.set(messages.prompt.partition("@")[0])
        try:
            return await super().reply(messages, **how)
        finally:
            _prompt.reset(token)


class PlanningBackend:
    """Stands for a chat model: counts a prompt, writes a reply."""

    def __init__(self, real: Backend, writer: Writer, notes: set[str]) -> None:
        """Stand for `real`; what has to be guessed is noted in `notes`."""
        self.real = real
        self.writer = writer
        self._notes = notes
        self._estimate = TokenCounter(None)

    @property
    def name(self) -> str:
        """The model's id."""
        return self.real.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """The real model's."""
        return self.real.identity

    @cached_property
    def context_window(self) -> int:
        """Tokens of prompt and completion together."""
        return self._known(lambda: self.real.context_window, lambda: _WINDOW, "its files")

    @property
    def enforces_schema(self) -> bool:
        """Whether replies are valid by construction."""
        return self.real.enforces_schema

    @property
    def max_completion_tokens(self) -> int | None:
        """The most tokens a completion may have."""
        return self.real.max_completion_tokens

    @property
    def concurrency(self) -> int:
        """How many calls may usefully be in flight."""
        return self.real.concurrency

    async def complete(self, request: Request) -> Reply:
        """Reply at once."""
        text = self.writer.reply(request, _prompt.get())
        written = min(self.count_tokens(text), request.max_tokens)
        usage = Usage(self.message_tokens(request.messages), written, estimated=True)
        return Reply(text, usage, 0.0, model=self.name)

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return self._known(
            lambda: self.real.count_tokens(text), lambda: self._estimate.text(text), "its tokenizer"
        )

    def message_tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have as a prompt."""
        return self._known(
            lambda: self.real.message_tokens(messages),
            lambda: self._estimate.messages(messages),
            "its tokenizer",
        )

    async def check(self) -> None:
        """Nothing is contacted."""

    async def close(self) -> None:
        """Nothing is held."""

    def _known(self, real: Callable[[], R], instead: Callable[[], R], what: str) -> R:
        if f"{self.name}: {what}" not in self._missing:
            try:
                return real()
            except MemsysError:
                self._missing.add(f"{self.name}: {what}")
                self._notes.add(
                    f"{self.name}: {what} cannot be had here; tokens are estimated from characters"
                )
        return instead()

    @cached_property
    def _missing(self) -> set[str]:
        return set()


@dataclass
class PlanningReplies:
    """The reply store of a dry run: reads the real one, and writes nothing.

    A call that the dry run has made before counts as stored: the real run makes it once, too.
    """

    stored: StoredReplies
    made: dict[str, Reply] = field(default_factory=dict)

    async def complete(self, backend: Backend, request: Request) -> Reply:
        """Return the stored reply, or a dry one."""
        try:
            key = reply_key(backend, request)
            found = self.stored.store.get(key)
        except MemsysError:  # the model's files are not here, so nothing of it is stored either
            key, found = repr(request), None
        if found is not None:
            return read_reply(key, found)
        if key in self.made:
            made = self.made[key]
            return Reply(made.text, made.usage, 0.0, model=made.model, cached=True)
        self.made[key] = await backend.complete(request)
        return self.made[key]


class PlanningEncoder:
    """Stands for an encoder: a text's vector is the mean of fixed random vectors of its words.

    Texts that share words are near each other, so that retrieval, graphs and clusters have a
    likely shape. Counts different texts and their word pieces, and those that are stored.
    """

    def __init__(
        self,
        real: SplittingModel,
        store: VectorStore | None,
        notes: set[str],
        *,
        own: bool = False,
    ) -> None:
        """Stand for `real`; `own`: with its vectors, stored ones or new ones, if it can be had."""
        self.real = real
        self.own = own
        self._store = store
        self._notes = notes
        self._words: dict[str, Vectors] = {}
        self._seen: set[bytes] = set()
        self.texts = self.tokens = self.stored = 0

    @cached_property
    def files(self) -> bool:
        """Whether the real encoder's tokenizer and configuration can be had."""
        try:
            self.real.token_counts(["a"])
            _ = self.real.dimension, self.real.identity
        except (MemsysError, OSError):
            self._notes.add(
                f"{self.real.name}: its tokenizer cannot be had here; word pieces are estimated"
            )
            return False
        return True

    @cached_property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.real.dimension if self.files else _DIMENSION

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return each text's length in word pieces, special tokens included."""
        if self.files:
            return self.real.token_counts(texts)
        return [2 + round(1.15 * len(_PIECES.findall(text))) for text in texts]

    def split(self, text: str, tokens: int) -> list[tuple[int, int]]:
        """Return character spans of consecutive blocks of at most `tokens` word pieces."""
        if self.files:
            return self.real.split(text, tokens)
        spans = [m.span() for m in _PIECES.finditer(text)]
        step = max(1, round(tokens / 1.15))
        blocks = [spans[i : i + step] for i in range(0, len(spans), step)]
        return [(block[0][0], block[-1][1]) for block in blocks]

    async def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return vectors of shape (n, dimension), and count what is new."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        self._count([t for t in dict.fromkeys(texts) if self._new(t, kind)], kind)
        if self.own and self.files:
            try:
                return await compute(self._of_the_model, texts, kind)
            except (MemsysError, OSError):
                self._notes.add(f"{self.real.name} cannot be had here; its vectors are estimated")
        self.own = False  # from now on: vectors of two kinds cannot be compared
        return np.stack([self._vector(text) for text in texts])

    def _of_the_model(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Return vectors as a run would get them; nothing is written."""
        keys = {text: self._key(text, kind) for text in texts}
        missing = [text for text, key in keys.items() if key not in self._model_made]
        if missing and self._store is not None:
            shelf = self._store.shelf(self.real.identity, self.dimension)
            self._model_made.update(shelf.get([keys[text] for text in missing]))
            missing = [text for text in missing if keys[text] not in self._model_made]
        for start in range(0, len(missing), _SLICE):
            part = missing[start : start + _SLICE]
            fresh = self.real.embed(part, kind)
            self._model_made.update(zip((keys[t] for t in part), fresh, strict=True))
        found = np.stack([self._model_made[keys[text]] for text in texts])
        return unit(found) if self.real.similarity == "cosine" else found

    @cached_property
    def _model_made(self) -> dict[bytes, Vectors]:
        return _MODEL_MADE.setdefault(self.real, {})

    def stats(self) -> dict[str, Any]:
        """Return what the dry run would have embedded."""
        return {"texts": self.texts, "tokens": self.tokens, "stored": self.stored}

    def _key(self, text: str, kind: Kind) -> bytes:
        prefixes = [self.real.identity.get(f"{k}_prefix") for k in ("query", "passage")] \
            if self.files else ["", ""]  # fmt: skip
        label = kind if prefixes[0] != prefixes[1] else ""
        return hashlib.sha256(f"{label}\0{text}".encode("utf-8", "surrogatepass")).digest()

    def _new(self, text: str, kind: Kind) -> bool:
        key = self._key(text, kind)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _count(self, texts: Sequence[str], kind: Kind) -> None:
        held: set[bytes] = set()
        if self._store is not None and self.files:
            shelf = self._store.shelf(self.real.identity, self.dimension)
            held = set(shelf.lookup([self._key(text, kind) for text in texts]))
        fresh = [text for text in texts if self._key(text, kind) not in held]
        self.stored += len(texts) - len(fresh)
        self.texts += len(fresh)
        limit = self.real.limit
        self.tokens += sum(min(n, limit) for n in self.token_counts(fresh)) if fresh else 0

    def _vector(self, text: str) -> Vectors:
        words = re.findall(r"\w+", text.lower()) or [""]
        whole = np.sum([self._word(word) for word in set(words)], axis=0)
        # a part of its own, as real encoders have it: else the shortest text that shares a word
        # with a question would always win
        own = _drawn(text, self.dimension) * _OWN
        whole = whole + own
        return np.asarray(whole / np.linalg.norm(whole), np.float32)

    def _word(self, word: str) -> Vectors:
        found = self._words.get(word)
        if found is None:
            # rare (long) words tell texts apart, as an encoder would have it
            weight = (min(len(word), 8) / 8) ** 2
            found = self._words[word] = _drawn(word, self.dimension) * weight
        return found


class PlanningReranker:
    """Stands for a cross-encoder: scores by shared words."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text."""
        wanted = set(re.findall(r"\w+", query.lower()))
        return [float(len(wanted & set(re.findall(r"\w+", text.lower())))) for text in texts]


def _drawn(text: str, dimension: int) -> Vectors:
    """Return a random direction that is always the same for a text."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "ignore")).digest()[:8], "big")
    drawn = np.random.default_rng(seed).standard_normal(dimension)
    return np.asarray(drawn / np.linalg.norm(drawn), np.float32)
