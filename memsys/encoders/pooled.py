"""Encoders without a sentence-transformers layout: a transformer, then mean or CLS pooling.

Contriever: the mean over non-padding tokens, [CLS] and [SEP] included, without normalisation
(Izacard et al., TMLR 2022). bce-embedding-base_v1: the first token, normalised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memsys.encoders.local import LocalModel, Pooling, place, quiet

if TYPE_CHECKING:
    import torch


class TransformersEncoder(LocalModel):
    """A Hugging Face transformer, pooled here."""

    _model: Any

    def _load(self) -> None:
        from transformers import AutoModel

        quiet()
        device, dtype = place(self.device, self.dtype)
        name, arguments = self.source.load()
        # safetensors are taken where a model has them
        self._model = AutoModel.from_pretrained(name, dtype=dtype, **arguments).to(device).eval()

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = pool(hidden.float(), mask, self.pooling)
        return scale(pooled) if self.normalise else pooled


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool token vectors (n, length, d) under `mask` (n, length) into vectors (n, d)."""
    if pooling == "cls":
        return hidden[:, 0]
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def scale(vectors: torch.Tensor) -> torch.Tensor:
    """Scale vectors (n, d) to length 1."""
    from torch.nn.functional import normalize

    return normalize(vectors, dim=-1)
