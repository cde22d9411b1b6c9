"""What the benches of crashes and faults share: invented conversations, a server, forked runs.

The chat server is `tests/support/openai_server.py` in a process of its own; the encoder is made
of hashes. Runs are forked from this process, which has imported everything beforehand, so that
starting one takes a moment; apart from that they are what `scripts/run.py` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import traceback
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
sys.path.insert(0, str(SUPPORT))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out

KEY = "sk-bench-0123456789abcdef"
PEOPLE = [("Anna", "Ben"), ("Ruth", "Omar"), ("Lea", "Ivan"), ("Sue", "Max"), ("Kim", "Tom")]
THINGS = ["kite", "bakery", "marathon", "violin", "greenhouse", "canoe", "telescope", "mural"]
PLACES = ["Lisbon", "the lake", "her sister's barn", "Osaka", "the library", "a night train"]


def write_conversations(path: Path, conversations: int, questions: int, sessions: int = 3) -> Path:
    """Write invented conversations in LoCoMo's schema; `questions` in all."""
    dice = random.Random(7)
    samples = []
    for number in range(conversations):
        names = PEOPLE[number % len(PEOPLE)]
        talk: dict[str, Any] = {"speaker_a": names[0], "speaker_b": names[1]}
        turns = []
        for s in range(1, sessions + 1):
            talk[f"session_{s}_date_time"] = f"{s}:15 pm on {s + 1} May, 2023"
            talk[f"session_{s}"] = session = []
            for t in range(1, 7):
                thing, place = dice.choice(THINGS), dice.choice(PLACES)
                text = f"I took the {thing} number {dice.randrange(900)} to {place} yesterday."
                turns.append((f"D{s}:{t}", names[t % 2], thing, place))
                session.append({"speaker": names[t % 2], "dia_id": f"D{s}:{t}", "text": text})
        asked = []
        for q in range(number, questions, conversations):
            turn, name, thing, place = dice.choice(turns)
            text = f"Where did {name} take the {thing}, asked for the time number {q}?"
            asked.append({"question": text, "answer": place, "evidence": [turn], "category": 4})
        samples.append({"sample_id": f"talk-{number}", "conversation": talk, "qa": asked})
    path.write_text(json.dumps(samples), encoding="utf-8")
    return path


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Start the chat server as a process; yields its base URL."""
    command = [sys.executable, str(SUPPORT / "openai_server.py"), "--key", KEY, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)


def stats(url: str) -> dict[str, Any]:
    """Return what the server has seen so far."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


class Runs:
    """Runs of this bench: composed and imported once, then forked as often as needed."""

    def __init__(self, data: Path) -> None:
        """Ask the questions of the file `data`."""
        os.environ["OPENAI_API_KEY"] = KEY
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self.data = data
        self._composed: dict[tuple[str, ...], Any] = {}
        for module in _IMPORTED_BY_RUNS:
            importlib.import_module(module)
        openai = importlib.import_module("openai")
        openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1")

    def start(self, systems: Sequence[Sequence[str]], results: Path, llm: Mapping[str, Any]) -> int:
        """Fork a process that runs systems (overrides each) at once; returns its process id.

        `llm` are settings of their chat models.
        """
        configs = [self._config(overrides, results, llm) for overrides in systems]
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            file = os.open(log_of(results), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, 1)
            os.dup2(file, 2)
            status = _carry_out(configs)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _config(self, overrides: Sequence[str], results: Path, llm: Mapping[str, Any]) -> Any:
        from eval.config import RunConfig, compose
        from eval.resources import Resources
        from eval.spec import RunSpec

        key = tuple(overrides)
        if key not in self._composed:
            self._composed[key] = compose([*_SETTINGS, f"dataset.path={self.data}", *overrides])
        composed = self._composed[key]
        models = {
            role: {**model, "model": "test-model", "tokenizer": None, **llm}
            for role, model in composed.values["llm"].items()
            if role != "judge"
        }
        paths = {"results": str(results), "stores": str(results / "stores")}
        values = {**composed.values, "llm": models, "paths": paths, "encoder": _ENCODER}
        config = RunConfig(values, composed.choices)
        RunSpec.of(config, Resources(), ROOT)  # imports what it names
        return config


_SETTINGS = (
    "protocol=memgas", "judge=none", "measures=[f1_squad]", "progress=off",
    "dataset.release=custom", "llm@llm.main=openai", "llm@llm.auxiliary=openai",
)  # fmt: skip
_ENCODER = {"_target_": "hashing.HashingModel"}


_IMPORTED_BY_RUNS = (
    "dotenv", "json_repair", "jsonschema", "pandas", "scipy.sparse.linalg", "sklearn.mixture",
    "eval.command", "eval.scoring", "eval.summary",
)  # fmt: skip


def _carry_out(configs: Sequence[Any]) -> int:
    from eval.command import carry_out, resources, runner
    from eval.progress import Board
    from eval.spec import RunSpec

    async def all_of_them() -> bool:
        specs = [RunSpec.of(config, resources(), ROOT) for config in configs]
        finished = await asyncio.gather(*(carry_out(spec, Board("off")) for spec in specs))
        return any(run.failed for run in finished)

    return 3 if runner().run(all_of_them()) else 0


def log_of(results: Path) -> Path:
    """Where the runs of a results folder write what they say."""
    return results / "log.txt"


def wait(pid: int, results: Path, allowed: Sequence[int] = (0,)) -> int:
    """Wait for a run; returns its exit status, or stops the bench with the run's own words."""
    _, code = os.waitpid(pid, 0)
    status = os.waitstatus_to_exitcode(code)
    if status not in allowed:
        raise SystemExit(
            f"a run ended with status {status}:\n{log_of(results).read_text()[-3000:]}"
        )
    return status


def outcome(results: Path) -> dict[str, Any]:
    """Return records and scores of all runs, without what may differ between equal runs."""
    from eval.records import read_records

    found: dict[str, Any] = {}
    for folder in sorted((results / "runs").rglob("manifest.json")):
        run, name = folder.parent, folder.parent.relative_to(results).as_posix()
        for path in sorted(run.glob("*.jsonl")):
            found[f"{name}/{path.name}"] = _same(read_records(path))
        for path in run.glob("scores.json"):
            found[f"{name}/{path.name}"] = _same(json.loads(path.read_text(encoding="utf-8")))
    return found


_MAY_DIFFER = {"seconds", "cached", "paid", "stored", "latency", "started", "finished"}


def _same(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in _MAY_DIFFER and "seconds" not in k}
        same = {k: _same(v) for k, v in kept.items()}
        if isinstance(same.get("calls"), list):  # calls made at once end in any order
            same["calls"].sort(key=json.dumps)
        return same
    if isinstance(value, list):
        return [_same(inner) for inner in value]
    return value


def leaks(folder: Path) -> list[Path]:
    """Return the files under `folder` that hold the key."""
    return [p for p in folder.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]


Row = tuple[str, str, "bool | None"]
"""A figure: its label, its value, and whether it is as it must be."""


def table(title: str, rows: Sequence[Row]) -> int:
    """Print figures and whether each is as it must be; returns 1 if one is not."""
    print(title)
    for label, figure, good in rows:
        print(f"  {label:<58} {figure:>16}  {'' if good is None else 'ok' if good else 'WRONG'}")
    return int(any(good is False for _, _, good in rows))
