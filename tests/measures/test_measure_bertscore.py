"""BERTScore's greedy matching on hand-made vectors, and bert-score itself as the reference."""

import logging
import sys

import numpy as np
import pytest

from eval.measures.bertscore import BertScore, TokenVectors, greedy_match
from eval.measures.item import Item
from eval.scoring import Unavailable, aggregate


def vectors(*rows, weights=None):
    made = np.array(rows, np.float32)
    given = np.ones(len(made)) if weights is None else np.array(weights)
    return TokenVectors(made, given.astype(np.float32))


class Table:
    """An embedder that knows each text's vectors, and counts what it is asked."""

    def __init__(self, **table):
        self.table = table
        self.asked = []

    def embed(self, texts):
        self.asked.extend(texts)
        return [self.table[text] for text in texts]


def test_greedy_matching_worked():
    given, wanted = vectors((1, 0), (0, 1)), vectors((1, 0), (0.6, 0.8))
    assert greedy_match(given, wanted) == pytest.approx((0.9, 0.9, 0.9))


def test_lengths_of_vectors_do_not_matter_and_special_tokens_weigh_nothing():
    given = vectors((7, 0), (0, 3), (0.3, -5), weights=(1, 1, 0))
    wanted = vectors((1, 0), (6, 8), weights=(1, 1))
    assert greedy_match(given, wanted) == pytest.approx((0.9, 0.9, 0.9), abs=1e-6)
    asymmetric = greedy_match(vectors((1, 0)), vectors((1, 0), (0, 1)))
    assert asymmetric == pytest.approx((1, 0.5, 2 / 3))
    assert greedy_match(vectors((1, 0), weights=(0,)), wanted) == (0, 0, 0)
    assert greedy_match(vectors((1, 0)), vectors((0, 1))) == (0, 0, 0)


def test_texts_are_embedded_once_and_empty_ones_score_zero(caplog):
    table = Table(a=vectors((1, 0), (0, 1)), b=vectors((1, 0), (0.6, 0.8)))
    measure = BertScore(embedder=table)
    items = [
        Item("1", answer="a", reference="b"),
        Item("2", answer=" a\n", reference="b"),
        Item("3", answer="", reference="b"),
        Item("4", answer="a", reference=" "),
        Item("5", answer="a"),
        Item("6", reference="b", failed=True),
    ]
    with caplog.at_level(logging.WARNING):
        found = measure.per_item(items)
    assert found[:4] == pytest.approx([0.9, 0.9, 0, 0])
    assert found[4:] == [None, None]
    assert "2 empty" in caplog.text
    measure.per_item(items)
    assert sorted(table.asked) == ["a", "b"]
    assert measure == BertScore()


def test_unavailable_without_the_model(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMSYS_BERTSCORE_MODEL", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")  # a download that stopped before the weights
    found = aggregate(BertScore(), [Item("1", answer="a", reference="a")])
    assert isinstance(found, Unavailable)
    assert "hf download roberta-large" in found.reason


@pytest.mark.slow
def test_equals_bert_score_on_a_small_model(tmp_path, monkeypatch):
    """The same numbers as the package, from a RoBERTa of random weights."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

    from eval.measures.models.roberta import RobertaEmbedder
    from memsys.errors import UserError

    bert_score = pytest.importorskip("bert_score")
    torch.manual_seed(0)
    texts = ["The cat sat on the mat.", "A cat was sitting", "7 May 2023", "naïve café", "dog"]
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(texts * 3, vocab_size=400, special_tokens=special)
    trained.save_model(str(tmp_path))
    tokenizer = RobertaTokenizerFast.from_pretrained(str(tmp_path), model_max_length=48)
    tokenizer.save_pretrained(str(tmp_path))
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=50, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(str(tmp_path))
    given, wanted = texts, [texts[1], texts[0], "May 7, 2023", "cafe " * 60, "cat"]
    ours = RobertaEmbedder(str(tmp_path), 2, batch=2)
    # under transformers 5 the package's own tokeniser loses the space before the first word
    module = sys.modules["bert_score.score"]  # hidden behind a function of its name
    monkeypatch.setattr(module, "get_tokenizer", lambda *_: ours._tokenizer)
    _, _, theirs = bert_score.score(
        given, wanted, model_type=str(tmp_path), num_layers=2, idf=False, device="cpu"
    )
    measure = BertScore(embedder=ours)
    items = [
        Item(str(i), answer=g, reference=w)
        for i, (g, w) in enumerate(zip(given, wanted, strict=True))
    ]
    assert measure.per_item(items) == pytest.approx(theirs.tolist(), abs=1e-4)
    with pytest.raises(UserError, match="3 layers"):
        RobertaEmbedder(str(tmp_path), 17)
