"""A killed run, the same command again: nothing asked twice, records as if undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from eval.records import read_records

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "scripts" / "bench"
sys.path.insert(0, str(BENCH))

import arena  # noqa: E402

KEY = arena.KEY


@pytest.fixture
def server():
    with arena.server("--latency", "0.05", "--mark") as url:
        yield url


def asked(url: str) -> int:
    return arena.stats(url)["requests"]


def command(url: str, results: Path) -> list[str]:
    return [
        sys.executable, str(ROOT / "scripts" / "run.py"), "method=full", "protocol=memgas",
        "judge=none", "measures=[f1_squad]", "dataset.sample=always", "progress=off",
        "llm@llm.main=openai", "llm.main.model=test-model", "llm.main.tokenizer=null",
        f"llm.main.base_url={url}", "concurrency.questions=2",
        f"paths.results={results}",
    ]  # fmt: skip


def plain(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.rglob("records.jsonl")
    records = read_records(path)
    for record in records:
        record["seconds"] = 0
        for call in record["calls"]:
            call["seconds"], call["cached"] = 0, False
    return records


def test_sigkill_in_the_middle_then_the_same_command(server: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OPENAI_API_KEY": KEY}

    def start(results: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(server, results), env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def finish(results: Path) -> None:
        job = start(results)
        _, said = job.communicate(timeout=120)
        assert job.returncode == 0, said.decode()

    finish(tmp_path / "whole")
    questions = asked(server)
    assert len(arena.stats(server)["by_content"]) == questions == 20

    results = tmp_path / "killed"
    kills = 0
    for wanted in (4, 9, 15):
        job = start(results)
        deadline = time.monotonic() + 100
        while asked(server) - questions < wanted and job.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            kills += 1
        job.communicate(timeout=30)
    assert kills == 3

    finish(results)
    assert plain(results) == plain(tmp_path / "whole")
    repeats = asked(server) - 2 * questions
    assert repeats <= kills * 2, "only calls in flight at a kill may be asked again"
    finished = asked(server)
    finish(results)
    assert asked(server) == finished
    assert arena.leaks(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("kills.py", "--kills", "5", "--questions", "24"), ("faults.py", "--quick")],
    ids=["kills", "faults"],
)
def test_the_benches_hold_on_a_small_scale(arguments: tuple[str, ...]) -> None:
    """The scripts measure themselves and end with 1 if one figure is not as it must be."""
    done = subprocess.run(
        [sys.executable, str(BENCH / arguments[0]), *arguments[1:]],
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout and " ok" in done.stdout


@pytest.mark.slow
def test_a_third_partys_server_answers() -> None:
    for module in ("fastapi", "uvicorn"):
        pytest.importorskip(module, reason="needs pip install 'transformers[serving]'")
    done = subprocess.run(
        [sys.executable, str(BENCH / "third_party.py")], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
