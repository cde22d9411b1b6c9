"""The reranker, with a tiny random-weight cross-encoder."""

from __future__ import annotations

import asyncio

import pytest

from memsys.encoders.crossencoder import CrossEncoderReranker
from memsys.errors import UserError

torch = pytest.importorskip("torch")

TEXTS = ["w1 w2", "w3", " ".join(f"w{i}" for i in range(40)), "", "w4 playing w5"]


async def test_scores_are_the_models_logits(ranker):
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(ranker).eval()
    # [CLS] w7 [SEP] w1 w2 [SEP], second text marked as such
    ids, kinds = [[2, 12, 3, 6, 7, 3]], [[0, 0, 0, 1, 1, 1]]
    with torch.inference_mode():
        logit = model(torch.tensor(ids), token_type_ids=torch.tensor(kinds)).logits.item()
    reranker = CrossEncoderReranker(str(ranker), limit=64)
    assert (await reranker.score("w7", ["w1 w2"]))[0] == pytest.approx(logit, abs=1e-5)
    assert await reranker.score("w7", []) == []


@pytest.mark.parametrize("batch_size", [1, 2, 32])
async def test_batches_and_order_do_not_matter(ranker, batch_size):
    reranker = CrossEncoderReranker(str(ranker), limit=64, batch_size=batch_size)
    together = await reranker.score("w7 w8", TEXTS)
    alone = [(await reranker.score("w7 w8", [text]))[0] for text in TEXTS]
    assert together == pytest.approx(alone, abs=1e-5)
    assert len({round(score, 4) for score in together}) == len(TEXTS)
    backwards = await asyncio.gather(*(reranker.score("w7 w8", TEXTS[::-1]) for _ in range(3)))
    assert all(scores[::-1] == pytest.approx(alone, abs=1e-5) for scores in backwards)


async def test_the_text_is_cut_not_the_query(ranker):
    reranker = CrossEncoderReranker(str(ranker), limit=12)
    words = [f"w{i}" for i in range(20)]
    changed = [*words]
    changed[7] = "w50"  # 12 pieces less 3 special ones and 2 of the query leave 7 words
    whole, after = await reranker.score("w7 w8", [" ".join(words), " ".join(changed)])
    assert whole == after
    changed[6] = "w50"
    (inside,) = await reranker.score("w7 w8", [" ".join(changed)])
    assert abs(inside - whole) > 1e-4


async def test_refusals(ranker, bert, tmp_path):
    with pytest.raises(UserError, match="at most 64"):
        await CrossEncoderReranker(str(ranker), limit=65).score("w1", ["w2"])
    with pytest.raises(UserError, match="no reranker: it has 2 outputs"):
        await CrossEncoderReranker(str(bert), limit=64).score("w1", ["w2"])


def test_identity(ranker):
    base = CrossEncoderReranker(str(ranker), limit=64)
    assert base.identity != CrossEncoderReranker(str(ranker), limit=32).identity
    assert base.identity == CrossEncoderReranker(str(ranker), limit=64, batch_size=1).identity


async def test_out_of_memory_halves_the_batch(ranker):
    wanted = await CrossEncoderReranker(str(ranker), limit=64).score("w7", TEXTS)
    reranker = CrossEncoderReranker(str(ranker), limit=64, batch_size=4)
    reranker.load()
    model, sizes = reranker._model, []

    def tight(input_ids, **more):
        sizes.append(len(input_ids))
        if len(input_ids) > 1:
            raise torch.OutOfMemoryError("no room")
        return model(input_ids=input_ids, **more)

    reranker._model = tight
    assert await reranker.score("w7", TEXTS) == pytest.approx(wanted, abs=1e-4)
    assert sizes[:3] == [4, 2, 1]

    def hopeless(**inputs):
        raise torch.OutOfMemoryError("no room")

    reranker._model = hopeless
    with pytest.raises(torch.OutOfMemoryError):
        await reranker.score("w7", TEXTS)
