"""Tiny models with random weights, in the layouts that real models have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

WORDS = [f"w{i}" for i in range(60)]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "play", "##ing", "##s", ".", ","]
POSITIONS = 64
WIDTH = 32


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {piece: i for i, piece in enumerate(VOCAB)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    # what files on the hub carry along; it must not take effect
    tokenizer.enable_truncation(12)
    tokenizer.enable_padding(length=12)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": POSITIONS,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "do_lower_case": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def bert_config(**more):
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        initializer_range=0.5,  # far from zero, so that different texts differ clearly
        **more,
    )


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    """A BERT folder without a sentence-transformers layout."""
    import torch
    from transformers import BertModel

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    BertModel(bert_config()).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def sentence_bert(bert, tmp_path_factory) -> Path:
    """The same model in a sentence-transformers layout: mean pooling, normalised, window 16."""
    folder = tmp_path_factory.mktemp("sentence")
    for path in bert.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 16, "do_lower_case": False})
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True})
    )
    return folder


@pytest.fixture(scope="session")
def ranker(tmp_path_factory) -> Path:
    """A BERT cross-encoder folder with one output."""
    import torch
    from transformers import BertForSequenceClassification

    folder = tmp_path_factory.mktemp("ranker")
    torch.manual_seed(1)
    BertForSequenceClassification(bert_config(num_labels=1)).save_pretrained(folder)
    write_tokenizer(folder)
    return folder
