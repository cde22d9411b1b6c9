"""The key: in no file, no log and no word of any command, whatever the server says about it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-0123456789abcdef"
FAULTS = {"500": 0.2, "reset": 0.1, "429": 0.1}


def command(server: OpenAIServer, results: Path, *more: str) -> list[str]:
    return [
        sys.executable, str(ROOT / "scripts" / "run.py"), "method=full", "protocol=memgas",
        "judge=none", "measures=[f1_squad]", "dataset.sample=always", "progress=plain",
        "dataset.limit=6", "llm@llm.main=openai", "llm.main.model=test-model",
        "llm.main.tokenizer=null", f"llm.main.base_url={server.base_url}",
        "llm.main.backoff_s=0.01", f"paths.results={results}", *more,
    ]  # fmt: skip


async def carry_out(arguments: list[str], cwd: Path) -> tuple[int, str]:
    import asyncio

    # a debugging user sees no key either
    environment = {
        **os.environ, "OPENAI_API_KEY": KEY, "OPENAI_LOG": "debug", "WANDB_MODE": "offline",
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *arguments, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode or 0, said.decode()


def leaks(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]


@pytest.mark.slow
async def test_no_artefact_of_a_run_holds_the_key(tmp_path: Path) -> None:
    wandb = importlib.util.find_spec("wandb") is not None
    tracking = ("wandb.mode=offline",) if wandb else ()
    async with OpenAIServer(key=KEY, faults=FAULTS) as server:
        results = tmp_path / "results"
        status, said = await carry_out(command(server, results, *tracking), tmp_path)
        assert status == 0, said
        assert server.headers["authorization"] == f"Bearer {KEY}"
        assert sum(server.stats.faults.values()) > 0
        export = [sys.executable, str(ROOT / "scripts" / "store.py"), "export"]
        out = await carry_out([*export, str(tmp_path / "x.zip"), "--results", str(results)], ROOT)
        assert out[0] == 0, out[1]
    assert KEY not in said + out[1]
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"records.jsonl", "manifest.json", "scores.json", "x.zip"} <= names
    assert leaks(tmp_path) == []
    unpacked = tmp_path / "unpacked"
    unpack = [sys.executable, "-m", "zipfile", "-e", str(tmp_path / "x.zip"), str(unpacked)]
    assert (await carry_out(unpack, tmp_path))[0] == 0
    assert list(unpacked.rglob("*.seg")) and leaks(unpacked) == []


@pytest.mark.slow
@pytest.mark.parametrize("refusal", ["401", "402", "403", "404", "quota", "400"])
async def test_a_refusal_that_repeats_the_key_is_one_message_without_it(
    tmp_path: Path, refusal: str
) -> None:
    async with OpenAIServer(key=KEY, refuse=refusal) as server:
        results = tmp_path / "results"
        status, said = await carry_out(command(server, results), tmp_path)
    lines = [line for line in said.splitlines() if line.startswith("error")]
    assert status == 2 and len(lines) == 1 and "To mend" in lines[0], said
    assert server.stats.requests <= 16
    assert KEY not in said and leaks(tmp_path) == []
    assert not [p for p in results.rglob("records.jsonl") if p.read_bytes()], "no record spoilt"
