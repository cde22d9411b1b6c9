"""Keys and values of running replies, and of prompt prefixes that prompts share.

Rows of the slab are replies in progress; each grows in place, at its own length, so that a new
reply can join and a finished one leave at any step. Nothing is padded on the left.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface, Cache

from memsys.errors import UserError

Tokens = NDArray[np.int64]
ATTENTION = "memsys_slab"
_ROUND = 128  # the slab grows in steps of this many tokens


class Slab(Cache):
    """Key and value memory of shape (layers, 2, rows, heads, tokens, dimension)."""

    def __init__(
        self, layers: int, heads: int, dimension: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(layers=[])
        self._shape = layers, heads, dimension
        self._dtype, self._device = dtype, device
        self._store = torch.zeros(0)
        self.rows = self.tokens = 0
        self._row, self._start = 0, 0
        self._lengths: Tensor | None = None
        self._reach = 0

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        layers, heads, dimension = self._shape
        return 2 * layers * heads * dimension * self._dtype.itemsize

    def fit(self, rows: int, tokens: int, keep: int) -> None:
        """Make room for `rows` replies of `tokens` tokens; the first `keep` rows are kept."""
        if rows <= self.rows and tokens <= self.tokens:
            return
        tokens = -(-tokens // _ROUND) * _ROUND
        if keep:
            rows, tokens = max(rows, self.rows), max(tokens, self.tokens)
        layers, heads, dimension = self._shape
        old = self._store
        if not keep:
            self.drop()  # give the old memory back before asking for the new
        shape = layers, 2, rows, heads, tokens, dimension
        # zeros, not empty: a masked position weighs 0, and 0 times a leftover NaN is NaN
        self._store = torch.zeros(shape, dtype=self._dtype, device=self._device)
        if keep:
            self._store[:, :, :keep, :, : self.tokens] = old[:, :, :keep]
        self.rows, self.tokens = rows, tokens

    def drop(self) -> None:
        """Free the memory."""
        self._store = torch.zeros(0)
        self.rows = self.tokens = 0

    def at_prompt(self, row: int, start: int) -> None:
        """The next forward pass writes tokens from `start` on into one row."""
        self._row, self._start, self._lengths = row, start, None

    def at_step(self, lengths: Tensor) -> None:
        """The next forward pass writes one token into each of the first rows, at its length."""
        self._lengths, self._reach = lengths, int(lengths.max()) + 1
        self._index = torch.arange(len(lengths), device=lengths.device)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write new keys and values of one layer; return all that the queries may see."""
        keys, values = self._store[layer_idx, 0], self._store[layer_idx, 1]
        if self._lengths is None:
            row, end = self._row, self._start + key_states.shape[2]
            keys[row, :, self._start : end] = key_states[0]
            values[row, :, self._start : end] = value_states[0]
            return keys[row : row + 1, :, :end], values[row : row + 1, :, :end]
        count = len(self._lengths)
        keys[self._index, :, self._lengths] = key_states[:, :, 0]
        values[self._index, :, self._lengths] = value_states[:, :, 0]
        return keys[:count, :, : self._reach], values[:count, :, : self._reach]

    def get_seq_length(self, *args: Any, **kwargs: Any) -> int:
        """Tokens before the ones of the next forward pass."""
        return self._start if self._lengths is None else self._reach - 1

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row over another."""
        self._store[:, :, target, :, :length] = self._store[:, :, source, :, :length]

    def save(self, row: int, length: int) -> Tensor:
        """Return a copy of a row's first tokens, (layers, 2, heads, length, dimension)."""
        return self._store[:, :, row, :, :length].clone()

    def load(self, row: int, states: Tensor) -> None:
        """Write saved states at the start of a row."""
        self._store[:, :, row, :, : states.shape[3]] = states


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend from queries (rows, heads, n, d) to grouped keys (rows, groups, t, d).

    Without a mask the queries are the last n of the t tokens, and causal. One query a row, as in
    decoding, is computed group by group, without copying the keys for each head of their group.
    """
    if any(kwargs.get(name) is not None for name in ("softcap", "s_aux", "position_bias")):
        raise UserError("This model's attention is not supported in process; serve it with vLLM.")
    rows, heads, count, dimension = query.shape
    scale = dimension**-0.5 if scaling is None else scaling
    if count == 1:
        grouped = query.reshape(rows, key.shape[1], heads // key.shape[1], dimension)
        scores = torch.matmul(grouped, key.transpose(2, 3)).mul_(scale)
        if attention_mask is not None:
            scores.masked_fill_(~attention_mask, -torch.inf)
        mixed = torch.matmul(scores.softmax(-1, torch.float32).to(value.dtype), value)
        return mixed.reshape(rows, 1, heads, dimension), None
    known = 0 if attention_mask is not None else key.shape[2] - count
    if known:
        query = functional.pad(query, (0, 0, known, 0))  # the kernel's causal mask starts at 0
    mixed = functional.scaled_dot_product_attention(
        query, key, value, attention_mask,
        is_causal=attention_mask is None, scale=scale, enable_gqa=heads != key.shape[1],
    )  # fmt: skip
    return mixed[:, :, known:].transpose(1, 2).contiguous(), None


# without a mask function of the same name transformers builds no mask: ours are given, or causal
AttentionInterface.register(ATTENTION, attention)


class Prefixes:
    """Remembers prompts' keys and values, to be read again by prompts that begin alike.

    A prefix that two prompts were seen to share is kept until room is needed for a fresher one;
    whole prompts only until a few more have passed.
    """

    least = 24  # tokens; below, computing is as fast as copying

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` bytes of shared prefixes, and as much of recent prompts."""
        self._limit = limit
        self._shared: OrderedDict[bytes, tuple[Tokens, Tensor]] = OrderedDict()
        self._recent: deque[tuple[Tokens, Tensor]] = deque()

    def find(self, prompt: Tokens) -> Tensor | None:
        """Return the states of the longest known beginning of `prompt`, its last token excepted."""
        shared, name = 0, b""
        for key, (tokens, _) in self._shared.items():
            length = _common(prompt, tokens)
            if length > shared:
                shared, name = length, key
        recent, states = 0, None
        for tokens, known in self._recent:
            length = _common(prompt, tokens)
            if length > recent:
                recent, states = length, known
        if states is not None and recent >= max(self.least, shared + self.least):
            found = states[:, :, :, :recent]
            self._keep(prompt[:recent], found)
            return found
        if shared < self.least:
            return None
        self._shared.move_to_end(name)
        return self._shared[name][1][:, :, :, :shared]

    def add(self, prompt: Tokens, states: Tensor) -> None:
        """Remember a whole prompt for the next few."""
        self._recent.append((prompt, states))
        while len(self._recent) > 1 and _bytes(s for _, s in self._recent) > self._limit:
            self._recent.popleft()

    def _keep(self, prefix: Tokens, states: Tensor) -> None:
        self._shared[prefix.tobytes()] = prefix, states.clone()
        while len(self._shared) > 1 and _bytes(s for _, s in self._shared.values()) > self._limit:
            self._shared.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._shared.clear()
        self._recent.clear()


def _common(prompt: Tokens, known: Tokens) -> int:
    length = min(len(prompt) - 1, len(known))
    differs = prompt[:length] != known[:length]
    return int(differs.argmax()) if differs.any() else length


def _bytes(states: Any) -> int:
    return sum(s.nbytes for s in states)
