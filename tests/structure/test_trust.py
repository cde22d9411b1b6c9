"""Benchmark text, model output and stored files are data: no code of ours ever executes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = sorted(
    p for room in ("memsys", "baselines", "eval", "scripts") for p in (ROOT / room).rglob("*.py")
)
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"}
FUNCTIONS = {"eval", "exec", "compile", "__import__"}
METHODS = {
    ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"), ("os", "system"),
    ("os", "popen"), ("pandas", "read_pickle"), ("pd", "read_pickle"),
}  # fmt: skip


def faults(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = {alias.name.partition(".")[0] for alias in node.names} & MODULES
            yield from (f"{node.lineno}: import {name}" for name in found)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in MODULES:
                yield f"{node.lineno}: from {node.module} import"
        elif isinstance(node, ast.Call):
            yield from (f"{node.lineno}: {fault}" for fault in _call(node))


def _call(node: ast.Call) -> Iterator[str]:
    given = {k.arg: k.value for k in node.keywords}
    function = node.func
    if isinstance(function, ast.Name) and function.id in FUNCTIONS:
        yield f"{function.id}()"
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        if (owner, function.attr) in METHODS:
            yield f"{owner}.{function.attr}()"
        if (owner, function.attr) == ("torch", "load") and not _is(given.get("weights_only"), True):
            yield "torch.load() without weights_only=True"
        if function.attr == "from_pretrained" and "trust_remote_code" not in given:
            first = node.args[0] if node.args else None
            # `**arguments` are Source.load()'s, see below
            if not _is(first, None) and not _is_named(given.get(None), "arguments"):
                yield "from_pretrained() without trust_remote_code=False"
    for name, bad in (("trust_remote_code", True), ("allow_pickle", True), ("shell", True)):
        if name in given and not _is(given[name], not bad):
            yield f"{name} is not False"


def _is_named(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize("path", CODE, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_code_executes_what_it_reads(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "exec(text)",
        "yaml.load(text)",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        "AutoModel.from_pretrained(name)",
        "AutoModel.from_pretrained(name, trust_remote_code=flag)",
    ],
)
def test_the_check_itself_finds_each_kind(source: str) -> None:
    assert list(faults(source))


def test_no_prompt_is_rendered_from_data() -> None:
    """Templates are files of this checkout (or the user's folder); fields are put in literally."""
    from memsys.llm.prompts import Prompts

    prompt = next(iter(Prompts().all("memsys.memgas").values()))
    fields = dict.fromkeys(prompt.names, "{config.__class__} {0} ${HOME} {{x}}")
    text = "".join(message.content for message in prompt.render(**fields))
    assert "{config.__class__} {0} ${HOME} {{x}}" in text


def test_what_encoders_are_loaded_with_runs_no_code_of_the_models(tmp_path: Path) -> None:
    from memsys.encoders.source import Source

    (tmp_path / "config.json").write_text("{}")
    for source in (Source(str(tmp_path)), Source("owner/model", revision="0" * 40)):
        assert source.load()[1]["trust_remote_code"] is False
