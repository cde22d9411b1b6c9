"""Encoders that come as a sentence-transformers folder, run through that library's own modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memsys.encoders.local import LocalModel, place, quiet
from memsys.errors import UserError

if TYPE_CHECKING:
    import torch


class SentenceEncoder(LocalModel):
    """A sentence-transformers model whose pooling and normalisation are as the settings say.

    Its own default length (256 word pieces for all-MiniLM) never applies: `limit` does.
    """

    _model: Any

    def _load(self) -> None:
        from sentence_transformers import SentenceTransformer

        quiet()
        device, dtype = place(self.device, self.dtype)
        name, arguments = self.source.load()
        self._model = SentenceTransformer(
            name, device=str(device), model_kwargs={"dtype": dtype}, **arguments
        ).eval()
        self._model.max_seq_length = self.limit
        self._check()

    def _check(self) -> None:
        pooling, normalise = "none", False
        for module in self._model:
            kind = type(module).__name__
            if kind == "Pooling":
                pooling = str(
                    getattr(module, "pooling_mode", None) or module.get_pooling_mode_str()
                )
            normalise |= kind == "Normalize"
        if (pooling, normalise) != (self.pooling, self.normalise):
            raise UserError(
                f"The encoder '{self.name}' has pooling={pooling}, normalise={normalise} in its "
                f"files; the settings say {self.pooling}, {self.normalise}."
            )
        if self._model.max_seq_length != self.limit:
            raise UserError(
                f"The encoder '{self.name}' reads {self._model.max_seq_length} word pieces; "
                f"`limit` is {self.limit}."
            )

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self._model({"input_ids": ids, "attention_mask": mask})[
            "sentence_embedding"
        ]
        return vectors
