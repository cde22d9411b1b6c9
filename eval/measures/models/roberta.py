"""Token vectors of one layer of a RoBERTa model, as `bert-score` takes them.

The first word is tokenised with a space before it, as that package asks; under transformers 5 its
request is lost, and its numbers differ from the published ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from eval.measures.bertscore import TokenVectors
from memsys.errors import UserError


class RobertaEmbedder:
    """Embeds texts with the first `layer` layers of the model in `folder`."""

    def __init__(self, folder: str, layer: int, batch: int = 32) -> None:
        """Load the model, on the GPU if there is one. Raises `UserError` for a shallower one."""
        self._tokenizer = AutoTokenizer.from_pretrained(
            folder, add_prefix_space=True, trust_remote_code=False
        )
        model = AutoModel.from_pretrained(folder, add_pooling_layer=False, trust_remote_code=False)
        depth = len(model.encoder.layer)
        if depth < layer:
            raise UserError(f"The model in {folder} has {depth} layers, not {layer}.")
        model.encoder.layer = model.encoder.layer[:layer]  # those above are not used
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.eval().to(self._device)
        # two positions of RoBERTa's table are its padding offset
        self._limit = min(
            self._tokenizer.model_max_length, model.config.max_position_embeddings - 2
        )
        self._batch = batch

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return a text's token vectors, [CLS] and [SEP] with weight 0; longest texts first."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        found: dict[int, TokenVectors] = {}
        for start in range(0, len(order), self._batch):
            places = order[start : start + self._batch]
            inputs = self._tokenizer(
                [texts[i] for i in places],
                padding=True,
                truncation=True,
                max_length=self._limit,
                return_special_tokens_mask=True,
                return_tensors="pt",
            )
            weights = 1 - inputs.pop("special_tokens_mask").numpy()
            hidden = self._model(**inputs.to(self._device)).last_hidden_state.float().cpu().numpy()
            lengths = inputs["attention_mask"].sum(dim=1).tolist()
            for row, place in enumerate(places):
                n = lengths[row]
                found[place] = TokenVectors(hidden[row, :n], weights[row, :n].astype(np.float32))
        return [found[i] for i in range(len(texts))]
