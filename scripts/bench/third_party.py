"""A server that is not ours: `transformers serve` with SmolLM2, asked by two systems.

    pip install "transformers[serving]"
    python scripts/bench/third_party.py

Two systems answer questions of LoCoMo's synthetic sample: FULL in plain words, MemGAS with calls
that want JSON, which this server cannot enforce. Shown are answers, counted tokens and fallbacks.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import arena

from memsys.cli import guarded
from memsys.errors import UserError

NAME = "SmolLM2-135M-Instruct"
SYSTEMS = ("full", "mgretrieval")


def main() -> int:
    """Serve the model, run the systems, check their records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=2, help="of each system")
    arguments = parser.parse_args()
    missing = [m for m in ("fastapi", "uvicorn") if importlib.util.find_spec(m) is None]
    if missing:
        raise UserError(
            f"The server needs {' and '.join(missing)}: pip install 'transformers[serving]'"
        )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / NAME)
        rows: list[arena.Row] = []
        with Server(folder) as url:
            rows.append(("the server answers after", f"{time.monotonic() - began:.0f} s", None))
            for system in SYSTEMS:
                rows += _run(system, arguments.questions, url, folder / "results")
            leaks = arena.leaks(folder / "results")
    rows += [
        ("files that hold the key", str(len(leaks)), not leaks),
        ("seconds", f"{time.monotonic() - began:.0f}", None),
    ]
    return arena.table(f"transformers serve, {NAME}", rows)


def save_model(folder: Path) -> None:
    """Write the embedded chat model as a folder in transformers' layout."""
    from memsys.llm import loading, weights

    source = weights.find(weights.SMOLLM2, None)
    tokenizer = loading.load_tokenizer(source)
    loading.load_model(source, tokenizer, "cpu", "bfloat16", 0).model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Server:
    """`transformers serve` in a process of its own, on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        """Serve the model that lies in `folder` under its name."""
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def __enter__(self) -> str:
        """Start it, and wait until it lists its models."""
        command = [
            sys.executable, "-c", "from transformers.cli.transformers import main; main()",
            "serve", NAME, "--host", "127.0.0.1", "--port", str(self.port), "--device", "cpu",
            # bfloat16 takes five times as long on a CPU that has no instructions for it
            "--dtype", "float32",
        ]  # fmt: skip
        self.log = (self.folder / "server.txt").open("w")
        # one thread: torch's would spin against whatever else runs here
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT, env=environment
        )
        url = f"http://127.0.0.1:{self.port}/v1"
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/models", timeout=5).close()
                return url
            except OSError:
                time.sleep(0.3)
        self.__exit__()
        raise SystemExit(f"the server did not start:\n{self._said()}")

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()

    def _said(self) -> str:
        return (self.folder / "server.txt").read_text()[-3000:]


def _run(system: str, questions: int, url: str, results: Path) -> list[arena.Row]:
    from eval.records import read_records

    command = [
        sys.executable, str(arena.ROOT / "scripts" / "run.py"), f"method={system}",
        "protocol=mgretrieval", "judge=none", "measures=[f1_squad]", "dataset.sample=always",
        f"dataset.limit={questions}", "dataset.max_conversations=1", "dataset.max_sessions=1",
        "progress=off", f"paths.results={results}", "llm@llm.main=vllm", "llm@llm.auxiliary=vllm",
    ]  # fmt: skip
    for role in ("main", "auxiliary"):
        command += [
            f"llm.{role}.{key}={value}"
            for key, value in {
                "base_url": url, "model": NAME, "api_key_env": "BENCH_KEY", "tokenizer": "null",
                "json_schema": "none", "max_completion_tokens": 16, "context_window": 8192,
                "concurrency": 2,
                # it goes on with a call that nobody waits for any more: more of them choke it
                "max_retries": 1,
            }.items()
        ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "BENCH_KEY": arena.KEY}
    )
    if done.returncode:
        raise SystemExit(f"{system} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    (folder,) = (results / "runs").rglob(f"{system}/*/")
    records = read_records(folder / "records.jsonl")
    calls: list[dict[str, Any]] = [call for record in records for call in record["calls"]]
    calls += [c for build in read_records(folder / "builds.jsonl") for c in build["calls"]]
    wanting = [call for call in calls if call["schema"]]
    invalid = sum(call["valid"] is False for call in wanting)
    events: dict[str, int] = {}
    for record in [*records, *read_records(folder / "builds.jsonl")]:
        for event, count in record["counts"].items():
            if event.partition(":")[2] in ("repaired", "retried", "fallback"):
                events[event.partition(":")[2]] = events.get(event.partition(":")[2], 0) + count
    told = ", ".join(f"{count} {event}" for event, count in sorted(events.items())) or "none"
    counted = sum(c["prompt_tokens"] > 0 and not c["estimated"] for c in calls)
    return [
        (f"{system}: questions answered, of {len(records)}",
         str(sum(not r["error"] for r in records)), not any(r["error"] for r in records)),
        (f"{system}: calls, with tokens counted by the server", f"{len(calls)}, {counted}",
         0 < len(calls) == counted),
        (f"{system}: calls that want JSON, not valid", f"{len(wanting)}, {invalid}", None),
        (f"{system}: fallbacks", told, not invalid or bool(events)),
        (f"{system}: model named in the records", calls[0]["model"], NAME in calls[0]["model"]),
    ]  # fmt: skip


if __name__ == "__main__":
    guarded(main)
