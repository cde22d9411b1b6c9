"""Score a run, or anyone's predictions, by this project's measures; no model is called.

FILE is a run's folder, its records.jsonl, or a file of one JSON object a line (or a JSON list):
{"id", "question", "answer", "reference", "category"?, "ranked_sessions"?, "evidence_sessions"?}
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from memsys.cli import guarded
from memsys.errors import UserError, suggest


def main() -> int:
    """Read the file, score it, and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument(
        "--dataset",
        metavar="NAME",
        help="the benchmark; longmemeval… leaves its abstention questions (_abs) out of retrieval",
    )
    parser.add_argument(
        "--measures",
        metavar="a,b,…",
        help="such as f1_squad,secom:rougeL,recall_all@3 (default: what the file allows)",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write here, not to stdout")
    parser.add_argument(
        "--failed-as",
        choices=["excluded", "zero"],
        default="excluded",
        help="count failed questions beside the score (default), or score them 0",
    )
    parser.add_argument(
        "--judgements",
        metavar="FILE",
        type=Path,
        help="a run's judgements, where several judges of one kind have judged it",
    )
    arguments = parser.parse_args()
    dataset = known_dataset(arguments.dataset) if arguments.dataset else ""

    from eval.measures.reading import read_items
    from eval.measures.registry import parse_all
    from eval.scoring import default_measures, score

    measures = parse_all(arguments.measures) if arguments.measures else None
    items = read_items(arguments.file, arguments.judgements)
    if dataset.startswith("longmemeval"):
        items = [replace(i, has_evidence=i.has_evidence and "_abs" not in i.id) for i in items]
    measures = measures or default_measures(items)
    if not measures:
        raise UserError(
            f"{arguments.file} has no reference answers, no gold sessions and no verdicts: there "
            "is nothing to score by. Such a benchmark (GVD) needs a judge: run it with judge=…"
        )
    found = score(items, measures, arguments.failed_as).plain()
    for name, reason in found["unavailable"].items():
        print(f"{name}: {reason}", file=sys.stderr)
    if arguments.dataset:
        found["dataset"] = arguments.dataset
    text = json.dumps(found, indent=1, allow_nan=False)
    if arguments.out is None:
        print(text)
        return 0
    try:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    except OSError as fault:
        raise UserError(f"{arguments.out} cannot be written ({fault.strerror}).") from None
    return 0


def known_dataset(name: str) -> str:
    """Return a benchmark's name in one spelling; raises `UserError` for one that is not there."""
    root = Path(__file__).resolve().parents[1]
    known = {path.stem for path in (root / "configs" / "dataset").glob("*.yaml")}
    known |= {path.parent.name for path in (root / "datasets").glob("*/source.yaml")}
    plain = name.lower().replace("-", "_")
    if plain not in known:
        raise UserError(f"--dataset {name}: there is no such benchmark.{suggest(plain, known)}")
    return plain


if __name__ == "__main__":
    guarded(main)
