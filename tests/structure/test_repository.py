"""What is committed speaks of the project alone: no benchmark text, no machine path, no secret."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = {
    ".py",
    ".md",
    ".yaml",
    ".yml",
    ".txt",
    ".toml",
    ".cfg",
    ".lock",
    ".json",
    ".jsonl",
    ".csv",
    "",
}


def committed() -> list[Path]:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_path_of_one_machine() -> None:
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|farm|tmp/lab)/")
    for path in committed():
        if path.suffix in TEXT and path.name != ".gitignore" and path.is_file():
            assert not pattern.search(path.read_text(encoding="utf-8")), path.relative_to(ROOT)


def test_no_large_file() -> None:
    for path in committed():
        if path.is_file():
            assert path.stat().st_size < 1_000_000, path.relative_to(ROOT)


@pytest.mark.data
def test_no_text_of_locomo_is_committed() -> None:
    """LoCoMo is CC BY-NC: none of its longer turns stands in any committed file."""
    source = Path(os.environ.get("MEMSYS_DATA", "")) / "locomo" / "locomo10.json"
    if not source.is_file():
        pytest.skip("needs the real LoCoMo under MEMSYS_DATA")
    lines: set[str] = set()
    for sample in json.loads(source.read_text(encoding="utf-8")):
        for key, session in sample["conversation"].items():
            if key.startswith("session_") and isinstance(session, list):
                lines |= {turn["text"].strip() for turn in session}
    long_lines = {line for line in lines if len(line) >= 40}
    assert len(long_lines) > 5000
    for path in committed():
        if path.suffix in TEXT and path.is_file():
            text = path.read_text(encoding="utf-8")
            shared = next((line for line in long_lines if line in text), None)
            assert shared is None, path.relative_to(ROOT)
