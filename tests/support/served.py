"""The test server beside the test, and real commands against it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-0123456789"


@contextmanager
def serve(**settings: Any) -> Iterator[OpenAIServer]:
    """Serve from a thread of its own; `stats` and every setting may be read and changed."""
    server = OpenAIServer(**settings)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def settings(server: OpenAIServer, results: Path) -> list[str]:
    """Return overrides: the sample, the server for every role, everything under `results`."""
    roles = ("main", "auxiliary", "judge")
    return [
        "dataset.sample=always",
        *(f"llm@llm.{role}=openai" for role in roles),
        *(
            f"llm.{role}.{key}"
            for role in roles
            for key in (
                "model=test-model", "tokenizer=null", "max_retries=0",
                f"base_url={server.base_url}",
            )
        ),
        f"paths.results={results}",
    ]  # fmt: skip


def run_command(server: OpenAIServer, results: Path, *more: str) -> list[str]:
    """`scripts/run.py`: the whole history before the question, one call a question, no encoder."""
    return [
        sys.executable, str(ROOT / "scripts" / "run.py"), "method=full", "protocol=memgas",
        "judge=none", "measures=[f1_squad]", "progress=off",
        *settings(server, results), *more,
    ]  # fmt: skip


def table_command(server: OpenAIServer, results: Path, *more: str) -> list[str]:
    """`scripts/table.py` with MGRetrieval at five depths, without an encoder."""
    return [
        sys.executable, str(ROOT / "scripts" / "table.py"), "sweep-depth", "measures=[f1_squad]",
        *settings(server, results), *more,
    ]  # fmt: skip


def start(command: list[str], **more: Any) -> subprocess.Popen[str]:
    """Start a command in a session of its own, with the test key."""
    return subprocess.Popen(
        command, env={**os.environ, "OPENAI_API_KEY": KEY, "OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more,
    )  # fmt: skip


def until(holds: Callable[[], bool], job: subprocess.Popen[str], seconds: float = 120.0) -> None:
    """Wait until something holds, or fail with what the command said."""
    deadline = time.monotonic() + seconds
    while not holds():
        if job.poll() is not None or time.monotonic() > deadline:
            job.kill()
            out, err = job.communicate()
            raise AssertionError(f"the command ended with {job.returncode}:\n{out}\n{err}")
        time.sleep(0.01)


def end(job: subprocess.Popen[str], seconds: float = 120.0) -> tuple[int, str, str]:
    """Wait for a command; returns its exit status and what it printed and complained."""
    out, err = job.communicate(timeout=seconds)
    return job.returncode, out, err
