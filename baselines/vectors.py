"""A step that many baselines share: growing a memory's vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.encoders.protocol import Encoder
from memsys.system import Memory


async def grown(
    memory: Memory, texts: Sequence[str], encoder: Encoder, name: str = "vectors"
) -> Mapping[str, NDArray[Any]]:
    """Return the memory's arrays, with the vectors of `texts` appended to array `name`.

    An empty text is embedded as a space: an encoder needs something to read.
    """
    if not texts:
        return memory.arrays
    new = await encoder.encode([text or " " for text in texts])
    return {**memory.arrays, name: np.concatenate([memory.array(name, new.shape[1]), new])}
