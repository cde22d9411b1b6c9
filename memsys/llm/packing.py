"""Weights laid out for the CPU's matrix products.

torch multiplies a few rows, as in decoding, by weights as they lie in memory. oneDNN's own layout
takes 0.5 to 0.8 of the time (2 to 16 rows; AVX2), and no more for a whole prompt.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """A linear layer in float32, for inference on the CPU."""

    def __init__(self, layer: nn.Linear) -> None:
        """Pack the weights of `layer`, which is left as it is."""
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self._weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), None)
        self._bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, given: Tensor) -> Tensor:
        """Return the products, (..., out_features), of `given`, (..., in_features)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            given, self._weight, self._bias, "none", [], ""
        )
        return product


def possible() -> bool:
    """Whether this build of torch has oneDNN and the two operators."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(  # type: ignore[no-untyped-call]
        hasattr(torch.ops.mkldnn, name) for name in names
    )


def pack(model: Any) -> None:
    """Replace the linear layers of a float32 model on the CPU, where that is possible."""
    if not possible():
        return
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.weight.dtype is torch.float32:
                setattr(parent, name, PackedLinear(child))
