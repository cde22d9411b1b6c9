"""A killed run, the same command again: nothing asked twice, records as if undisturbed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eval.records import read_records

ROOT = Path(__file__).resolve().parents[2]
DELAY = 0.05  # seconds a reply takes: a run then lasts long enough to be killed within


class Counting(BaseHTTPRequestHandler):
    """Answers any chat with a hash of its messages, and counts each conversation it is asked."""

    protocol_version = "HTTP/1.1"
    asked: Counter[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = json.dumps(body["messages"])
        self.asked[content] += 1
        time.sleep(DELAY)
        reply = {
            "id": "x", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {
                        "role": "assistant",
                        "content": hashlib.sha256(content.encode()).hexdigest()[:12],
                    },
                }
            ],
            "usage": {"prompt_tokens": len(content), "completion_tokens": 3, "total_tokens": 0},
        }  # fmt: skip
        self.send(reply)

    def do_GET(self) -> None:
        self.send({"object": "list", "data": [{"id": "test-model", "object": "model"}]})

    def send(self, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def server():
    handler = type("Handler", (Counting,), {"asked": Counter()})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield httpd.server_address[1], handler.asked
    httpd.shutdown()
    httpd.server_close()


def command(port: int, results: Path) -> list[str]:
    return [
        sys.executable, str(ROOT / "scripts" / "run.py"), "method=full", "protocol=memgas",
        "judge=none", "measures=[f1_squad]", "dataset.sample=always", "progress=off",
        "llm@llm.main=openai", "llm.main.model=test-model", "llm.main.tokenizer=null",
        f"llm.main.base_url=http://127.0.0.1:{port}/v1", "concurrency.questions=2",
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


def test_sigkill_in_the_middle_then_the_same_command(server, tmp_path: Path) -> None:
    port, asked = server
    environment = {**os.environ, "OPENAI_API_KEY": "sk-test-0123456789"}

    def start(results: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(port, results), env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    undisturbed = start(tmp_path / "whole")
    assert undisturbed.wait(120) == 0, undisturbed.stderr.read().decode()
    questions = sum(asked.values())
    assert len(asked) == questions == 20
    asked.clear()

    results = tmp_path / "killed"
    kills = 0
    for wanted in (4, 9, 15):
        job = start(results)
        deadline = time.monotonic() + 100
        while sum(asked.values()) < wanted and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            kills += 1
        job.wait(30)
        job.stderr.close()
    assert kills == 3

    last = start(results)
    assert last.wait(120) == 0, last.stderr.read().decode()
    assert plain(results) == plain(tmp_path / "whole")
    repeats = sum(asked.values()) - questions
    assert repeats <= kills * 2, "only calls in flight at a kill may be asked again"
    finished = sum(asked.values())
    again = start(results)
    assert again.wait(120) == 0
    assert sum(asked.values()) == finished
    undisturbed.stderr.close()

    for path in results.rglob("*"):
        if path.is_file():
            assert b"sk-test-0123456789" not in path.read_bytes(), path
