"""Scoring, warm reruns and start-up.

    python scripts/bench/scoring.py [--full] [--json FILE]

The lexical measures of three protocols over 1,986 invented answers; a warm rerun of a whole LoCoMo
run, and the help of two commands, each in a process of its own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from rows import Row, finish, row

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = 1986
PROTOCOLS = ("memgas", "mgretrieval", "locomo_official")
WORDS = (
    "yesterday she moved to the coast with her old guitar and two cats because work was slow "
    "there in May 2023 after the pottery class they adopted a puppy near the lake museum"
)


def items(count: int) -> list[Any]:
    """Invent answers and references of 1 to 24 words."""
    from eval.measures.item import Item

    draw, words = random.Random(0), WORDS.split()
    found = []
    for i in range(count):
        said = [" ".join(draw.choices(words, k=draw.randint(1, 24))) for _ in range(2)]
        found.append(
            Item.of(
                {
                    "id": f"q{i}",
                    "index": i,
                    "conversation": f"c{i % 10}",
                    "category": str(1 + i % 4),
                    "question": "what?",
                    "answer": said[0],
                    "reference": said[1],
                }
            )
        )
    return found


def lexical() -> Row:
    """Time the lexical measures of three protocols."""
    from eval.config import CONFIGS
    from eval.measures.registry import parse_all
    from eval.scoring import score

    names: list[str] = []
    for protocol in PROTOCOLS:
        text = (CONFIGS / "protocol" / f"{protocol}.yaml").read_text(encoding="utf-8")
        names += yaml.safe_load(text)["answer_measures"]
    measures = parse_all(n for n in names if not n.startswith("judge") and "bertscore" not in n)
    many = items(ANSWERS)
    score(many[:10], measures)  # imports, and the thesaurus of METEOR
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        score(many, measures)
        seconds.append(time.perf_counter() - began)
    name = f"{len(measures)} lexical measures of {ANSWERS:,} answers, with intervals"
    return row(name, statistics.median(seconds), None, "s", 10, more=False)


def process(name: str, command: list[str], bar: float, repeats: int = 3) -> Row:
    """Time a command, start-up included."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return row(name, statistics.median(seconds), None, "s", bar, more=False)


def warm() -> Row:
    """Time a LoCoMo run that is there already: all it does is to see that, and score."""
    with tempfile.TemporaryDirectory() as name:
        command = [
            "scripts/run.py", "method=session", "stage=retrieve", "metadata=dataset",
            f"paths.results={name}", "progress=off",
        ]  # fmt: skip
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True)
        return process("a warm rerun of a LoCoMo run", command, 5.0)


def run(full: bool = False) -> list[Row]:
    """Return the rows of all cases."""
    return [
        lexical(),
        process("scripts/run.py --help", ["scripts/run.py", "--help"], 1.0),
        process("scripts/score.py --help", ["scripts/score.py", "--help"], 1.0),
        *([warm()] if full else []),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    finish(run, parser)


if __name__ == "__main__":
    main()
