"""Many replies decoded together, each exactly as if it were alone.

Prompts are read one at a time, behind the longest prefix that is already known; then all running
replies advance by one token a step. Rounding differs in the last bits with the company a reply
keeps; where the two best tokens are closer than that could explain, the reply's step is computed
again alone, from its tokens. So a reply never depends on what else was running.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memsys.llm.grammar import Grammars, Guide
from memsys.llm.kv import Prefixes, Slab

NEAR = 1e-3
"""Logits closer than this are a tie that is decided alone; float32 batches differ by 1e-4."""

BEHIND = 0.4
"""Share of a prompt that must be known for its attention to be masked explicitly."""


@dataclass(eq=False)
class Task:
    """One reply to be written: at most `limit` tokens after `prompt`."""

    prompt: list[int]
    limit: int
    guide: Guide | None = None
    temperature: float = 0.0
    seed: int = 0
    written: list[int] = field(default_factory=list)
    finish: str = ""  # `stop` or `length` once it is complete

    @property
    def tokens(self) -> list[int]:
        """Prompt and reply so far."""
        return self.prompt + self.written

    @property
    def need(self) -> int:
        """Tokens of room that the whole reply may take."""
        return len(self.prompt) + self.limit


class Decoder:
    """One model's running replies; not thread-safe."""

    def __init__(
        self, model: Any, grammars: Grammars | None, stops: Sequence[int], rows: int, room: int
    ) -> None:
        """Decode up to `rows` replies at once within `room` bytes of keys and values."""
        config = model.config.get_text_config()
        heads = config.num_attention_heads
        dimension = getattr(config, "head_dim", None) or config.hidden_size // heads
        groups = getattr(config, "num_key_value_heads", None) or heads
        self._model, self._grammars, self._stops = model, grammars, frozenset(stops)
        self._device, dtype = model.device, model.dtype
        self._slab = Slab(config.num_hidden_layers, groups, dimension, dtype, self._device)
        self._prefixes = Prefixes(room // 4)
        self.rows, self._room = rows, room
        self._active: list[Task] = []
        self._exact = dtype is torch.float32
        names = inspect.signature(model.forward).parameters
        self._cache = "cache" if "cache" in names else "past_key_values"
        self.recomputed = 0
        self.reused = 0

    @property
    def active(self) -> int:
        """How many replies are running."""
        return len(self._active)

    def fits(self, task: Task) -> bool:
        """Whether a reply can join the running ones now."""
        if not self._active:
            return True
        if len(self._active) == self.rows:
            return False
        tokens = max(task.need, *(other.need for other in self._active))
        return (len(self._active) + 1) * tokens * self._slab.token_bytes <= self._room

    @torch.inference_mode()
    def admit(self, task: Task) -> bool:
        """Read a prompt and write its first token; returns whether the reply is complete."""
        row = len(self._active)
        longest = max((task.need, *(other.need for other in self._active)))
        wanted = min(self.rows, self._room // (longest * self._slab.token_bytes))
        rows = max(row + 1, wanted if longest > self._slab.tokens else 0)
        self._slab.fit(rows, longest, keep=row)
        tokens = np.array(task.tokens, np.int64)
        known = self._prefixes.find(tokens)
        start = 0
        if known is not None:
            start = known.shape[3]
            self._slab.load(row, known)
            self.reused += start
        self._slab.at_prompt(row, start)
        logits = self._forward(
            torch.from_numpy(tokens[None, start:]),
            torch.arange(start, len(tokens))[None],
            _behind(start, len(tokens)),
            self._slab,
        )
        self._prefixes.add(tokens, self._slab.save(row, len(tokens)))
        self._active.append(task)
        self._write([task], logits)
        return self._leave([task]) != []

    @torch.inference_mode()
    def step(self) -> list[Task]:
        """Advance every running reply by a token; returns those that are now complete."""
        tasks = list(self._active)
        lengths = torch.tensor([len(t.prompt) + len(t.written) - 1 for t in tasks])
        reach = int(lengths.max()) + 1
        mask = torch.arange(reach)[None] <= lengths[:, None]
        self._slab.at_step(lengths.to(self._device))
        logits = self._forward(
            torch.tensor([[t.written[-1]] for t in tasks]),
            lengths[:, None],
            mask[:, None, None],
            self._slab,
        )
        self._write(tasks, logits)
        return self._leave(tasks)

    def retreat(self) -> list[Task]:
        """After running out of memory: halve the room, free everything, return all replies."""
        tasks, self._active = self._active, []
        self.rows, self._room = max(1, self.rows // 2), self._room // 2
        self._prefixes.clear()
        self._prefixes = Prefixes(self._room // 4)
        self._slab.drop()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return tasks

    def abandon(self) -> list[Task]:
        """Drop and return all running replies."""
        tasks, self._active = self._active, []
        return tasks

    def _forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: Slab | None
    ) -> Tensor:
        """Return the logits after the last token of each row, (rows, vocabulary) in float32."""
        extra: dict[str, Any] = {"use_cache": False} if cache is None else {self._cache: cache}
        output = self._model(
            input_ids=ids.to(self._device),
            position_ids=positions.to(self._device),
            attention_mask=None if mask is None else mask.to(self._device),
            logits_to_keep=1,
            **extra,
        )
        logits: Tensor = output.logits[:, -1].float()
        return logits

    def _write(self, tasks: list[Task], logits: Tensor) -> None:
        """Choose the next token of each reply and write it."""
        tokens, near = self._choose(tasks, logits)
        if self._exact:
            for row, task in enumerate(tasks):
                if near[row]:
                    tokens[row] = self._choose([task], self._alone(task))[0][0]
                    self.recomputed += 1
        # nothing below can run out of memory: a step is taken by all replies or by none
        for token, task in zip(tokens, tasks, strict=True):
            left = task.limit - len(task.written)
            task.written += [token] if task.guide is None else task.guide.accept(token, left)
            if task.guide is not None and task.guide.done:
                task.finish = "stop"
            elif task.written[-1] in self._stops:
                task.finish = "stop"
                task.written.pop()
            elif len(task.written) >= task.limit:
                task.finish = "length"

    def _choose(self, tasks: list[Task], logits: Tensor) -> tuple[list[int], list[bool]]:
        """Return the best allowed token of each reply, and whether the second is too near."""
        if self._grammars is not None and any(t.guide is not None for t in tasks):
            bitmask = self._grammars.bitmask(len(tasks))
            for row, task in enumerate(tasks):
                if task.guide is not None:
                    task.guide.mask(bitmask, row)
            self._grammars.apply(logits, bitmask)
        for row, task in enumerate(tasks):
            if task.temperature > 0:
                logits[row] = logits[row] / task.temperature + self._noise(task, logits.shape[1])
        best = torch.topk(logits, 2, dim=-1)
        near = best.values[:, 0] - best.values[:, 1] < NEAR
        return best.indices[:, 0].tolist(), near.tolist()

    def _noise(self, task: Task, width: int) -> Tensor:
        """Gumbel noise: the best of noisy logits is a sample of their distribution."""
        draws = np.random.default_rng((task.seed, len(task.written))).gumbel(size=width)
        return torch.from_numpy(draws.astype(np.float32)).to(self._device)

    def _alone(self, task: Task) -> Tensor:
        """Return the logits of a reply's next token, computed from nothing but its tokens."""
        ids = torch.tensor([task.tokens])
        return self._forward(ids, torch.arange(ids.shape[1])[None], None, None)

    def _leave(self, tasks: list[Task]) -> list[Task]:
        """Take complete replies out and close the gaps that they leave."""
        complete = [task for task in tasks if task.finish]
        for task in complete:
            row, last = self._active.index(task), len(self._active) - 1
            if row != last:
                moved = self._active[last]
                self._slab.move(last, row, len(moved.prompt) + len(moved.written))
                self._active[row] = moved
            self._active.pop()
        return complete


def _behind(start: int, end: int) -> Tensor | None:
    """The causal mask of tokens `start` to `end`, (1, 1, end - start, end).

    `None` where it is cheaper to compute the known tokens' rows too: an explicit mask costs the
    whole rectangle, at 1.8 times the price of the causal kernel's square (1,200 tokens, AVX2).
    """
    if start < BEHIND * end:
        return None
    return torch.ones(end - start, end, dtype=torch.bool).tril(start)[None, None]
