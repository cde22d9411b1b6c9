"""A reranker: a transformer that reads query and text together and returns one score."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from memsys import concurrency
from memsys.encoders.batches import Batches
from memsys.encoders.local import Precision, place, quiet
from memsys.encoders.source import Source
from memsys.encoders.tokens import load_tokenizer, pad_id, readable
from memsys.errors import UserError


class CrossEncoderReranker:
    """Scores (query, text) pairs with a cross-encoder (protocol `Reranker`).

    A score is the model's raw logit: higher is closer, its scale is the model's own.
    """

    def __init__(
        self,
        model: str,
        limit: int = 512,
        revision: str | None = None,
        package: str | None = None,
        sha256: str | None = None,
        batch_size: int | Literal["auto"] = "auto",
        dtype: Precision = "float32",
        device: str = "auto",
    ) -> None:
        """Keep the settings; `limit` counts the word pieces of both texts and special tokens.

        `batch_size` is as an encoder's (`memsys.encoders.local.LocalModel`).
        """
        self.source = Source(model, revision, package, sha256)
        self.limit = limit
        self._batches = Batches(batch_size)
        self.dtype: Precision = dtype
        self.device = device
        self._loading = threading.Lock()
        self._model: Any = None

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """All that defines a score, as JSON."""
        return {**self.source.identity, "limit": self.limit, "dtype": self.dtype}

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text; higher is closer."""
        if not texts:
            return []
        return await concurrency.compute(self.score_now, query, list(texts))

    def load(self) -> None:
        """Load tokenizer and weights, if they are not loaded yet. Raises `UserError`."""
        with self._loading:
            if self._model is None:
                self._load()

    def score_now(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text, in this thread."""
        import torch

        self.load()
        device, _ = place(self.device, self.dtype)
        pairs = self._tokenizer.encode_batch([(readable(query), readable(text)) for text in texts])
        order = sorted(range(len(pairs)), key=lambda i: -len(pairs[i].ids))
        scores = [0.0] * len(pairs)
        at = 0
        while at < len(order):
            width = len(pairs[order[at]].ids)
            batch = order[at : at + self._batches.rows(width, device.type)]
            shape = (len(batch), width)
            ids = torch.full(shape, self._pad, dtype=torch.long)
            kinds, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
            for row, i in enumerate(batch):
                length = len(pairs[i].ids)
                ids[row, :length] = torch.tensor(pairs[i].ids)
                kinds[row, :length] = torch.tensor(pairs[i].type_ids)
                mask[row, :length] = 1
            inputs = {"input_ids": ids, "attention_mask": mask}
            if self._type_count > 1:
                inputs["token_type_ids"] = kinds
            try:
                with concurrency.HEAVY, torch.inference_mode():
                    logits = self._model(**{k: v.to(device) for k, v in inputs.items()}).logits
                    found = logits[:, 0].float().cpu().tolist()
            except torch.OutOfMemoryError:
                if not self._batches.halve(len(batch), width):
                    raise
                torch.cuda.empty_cache()
                continue
            for i, score in zip(batch, found, strict=True):
                scores[i] = score
            at += len(batch)
        return scores

    def _load(self) -> None:
        from transformers import AutoModelForSequenceClassification

        quiet()
        self._tokenizer = load_tokenizer(self.source)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.limit)  # cuts the longer of the two
        self._pad = pad_id(self._tokenizer, self.source.json("tokenizer_config.json") or {})
        device, dtype = place(self.device, self.dtype)
        name, arguments = self.source.load()
        model = AutoModelForSequenceClassification.from_pretrained(name, dtype=dtype, **arguments)
        positions = getattr(model.config, "max_position_embeddings", self.limit)
        if self.limit > positions:
            raise UserError(
                f"The reranker '{name}' takes at most {positions} word pieces; "
                f"`limit` is {self.limit}."
            )
        if model.config.num_labels != 1:
            raise UserError(
                f"The model '{name}' is no reranker: it has {model.config.num_labels} outputs."
            )
        self._type_count = int(getattr(model.config, "type_vocab_size", 1) or 1)
        self._model = model.to(device).eval()
