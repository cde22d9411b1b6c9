"""The worked examples of docs/extend.md run as they are printed there."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest
import yaml

from eval.measures import registry
from eval.measures.item import Item
from eval.scoring import score
from eval.typed import resolve
from memsys.datasets import manifest
from memsys.datasets.base import Rules
from memsys.encoders.pooled import TransformersEncoder

DOCS = Path(__file__).resolve().parents[2] / "docs"
DIARY = [
    {
        "id": "d1",
        "days": [
            {"date": "2024-03-01", "text": "Bought a red kite."},
            {"date": "2024-03-02", "text": "The kite tore in the wind."},
        ],
        "asked": [{"q": "What tore?", "a": "the kite", "day": 2}],
    }
]


def blocks(language: str) -> list[str]:
    text = (DOCS / "extend.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def module_of(number: int, monkeypatch) -> types.ModuleType:
    module = types.ModuleType(f"extension_{number}_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(blocks("python")[number], "docs/extend.md", "exec"), module.__dict__)
    return module


def item(answer: str) -> Item:
    return Item.of(
        {"id": answer, "index": 0, "conversation": "c", "question": "?", "answer": answer,
         "reference": "a red kite", "category": "1"}
    )  # fmt: skip


def test_the_measure(monkeypatch) -> None:
    module = module_of(0, monkeypatch)
    known = {**registry.makers(), **module.MEASURES}
    monkeypatch.setattr(registry, "makers", lambda: known)
    answers = ["Perhaps a kite", "a kite", "It might be red", "kite"]
    found = score([item(a) for a in answers], ["hedged"])
    assert found.whole["hedged"].mean == pytest.approx(0.5)


def test_the_dataset(monkeypatch, tmp_path) -> None:
    module = module_of(1, monkeypatch)
    card, config = (yaml.safe_load(text) for text in blocks("yaml")[:2])
    folder = tmp_path / "datasets" / "diaries"
    folder.mkdir(parents=True)
    (folder / "source.yaml").write_text(yaml.safe_dump(card), encoding="utf-8")
    monkeypatch.setattr(manifest, "DATASETS", tmp_path / "datasets")
    path = tmp_path / "diaries.json"
    path.write_text(json.dumps(DIARY), encoding="utf-8")
    settings = {k: v for k, v in config.items() if k not in ("_target_", "metadata")}
    dataset = module.Diaries(**settings | {"path": path})
    (sample,) = dataset.load(Rules())
    days = [s.date_text for s in sample.conversation.sessions]
    assert days == ["1 March 2024", "2 March 2024"]
    assert sample.questions[0].evidence_sessions == ("D2",)
    assert dataset.info().release == "custom"


def test_the_encoder() -> None:
    config = yaml.safe_load(blocks("yaml")[2])
    made = resolve(config, "encoder").make()  # every key is known, nothing is loaded yet
    assert isinstance(made, TransformersEncoder) and made.limit == config["limit"]
