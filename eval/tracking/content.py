"""What is told of a finished run: numbers, tables and files, read from its folder.

By default no text of a benchmark is among them, nor an answer, which may quote it. What is left
of a record is chosen by name (`KEPT`), so that a field that is added later stays here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.records import Record
from eval.runfolder import RunFolder

if TYPE_CHECKING:
    from eval.run import Finished

KEPT = (
    "run", "conversation", "id", "index", "category", "has_evidence", "abstention", "adversarial",
    "context_tokens", "rounds", "counts", "calls", "seconds",
)  # fmt: skip
"""The fields of a record that hold no text of a benchmark."""

_TEXTS = ("question", "reference", "answer")


@dataclass(frozen=True)
class Rows:
    """A table: columns and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def numbers(finished: Finished, run: RunFolder) -> dict[str, float | int]:
    """Return a run's means (0–1) with intervals and counts, its costs, and what was done now.

    `score/M`, `low/M`, `high/M`, `n/M` and `failed/M` for each measure, `category/C/M` for its
    mean in a category, `cost/PHASE/ROLE/calls` and tokens, `cost/usd` where models have prices.
    """
    found: dict[str, float | int | None] = {
        "questions": len(finished.records),
        "failed": finished.failed,
        "asked": finished.asked,
        "built": finished.built,
        "calls/made": finished.paid_calls,
        "calls/stored": finished.stored_calls,
        "seconds": finished.seconds,
    }
    scores = run.scores
    for name in scores.get("measures", {}):
        found[f"score/{name}"] = scores["mean"].get(name)
        interval, counts = scores["intervals"].get(name, {}), scores["counts"].get(name, {})
        found |= {f"low/{name}": interval.get("low"), f"high/{name}": interval.get("high")}
        found |= {f"n/{name}": counts.get("n"), f"failed/{name}": counts.get("n_failed")}
    for category, measures in scores.get("by_category", {}).items():
        for name, one in measures.items():
            found[f"category/{category}/{name}"] = one["mean"]
    costs = scores.get("costs", {})
    for place, row in costs.get("by_phase_and_role", {}).items():
        found |= {f"cost/{place}/{what}": value for what, value in row.items()}
    found["valid_json"] = costs.get("valid_json")
    found |= _money_and_time(run)
    return {name: value for name, value in found.items() if value is not None}


def _money_and_time(run: RunFolder) -> dict[str, float]:
    from eval.config import CONFIGS
    from eval.costs import Missing, run_costs
    from eval.prices import PriceList

    costs = run_costs(run.path, PriceList.read(CONFIGS))
    wanted = {
        "cost/usd": ("all.all.usd", "run"),
        "question/seconds": ("question.seconds", "question"),
        "question/context_tokens": ("question.context_tokens", "question"),
    }
    found = {name: costs.value(*what) for name, what in wanted.items()}
    return {name: value for name, value in found.items() if not isinstance(value, Missing)}


def tables(finished: Finished, run: RunFolder, *, texts: bool) -> dict[str, Rows]:
    """Return a run's tables by name: `scores`, `categories` and `per_question`."""
    scores = run.scores
    return {
        "scores": Rows(
            ("measure", "definition", "mean", "low", "high", "n", "failed", "excluded", "why none"),
            tuple(_score_rows(scores)),
        ),
        "categories": Rows(
            ("category", "measure", "mean", "low", "high", "n", "failed"),
            tuple(
                (category, name, *(one[k] for k in ("mean", "low", "high", "n", "n_failed")))
                for category, measures in scores.get("by_category", {}).items()
                for name, one in measures.items()
            ),
        ),
        "per_question": _questions(finished.records, scores, texts=texts),
    }


def _score_rows(scores: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, title in scores.get("measures", {}).items():
        interval, counts = scores["intervals"].get(name, {}), scores["counts"].get(name, {})
        yield (
            name, title, scores["mean"].get(name), interval.get("low"), interval.get("high"),
            counts.get("n"), counts.get("n_failed"), counts.get("n_excluded"),
            scores["unavailable"].get(name, ""),
        )  # fmt: skip


def _questions(records: Sequence[Record], scores: Mapping[str, Any], *, texts: bool) -> Rows:
    items = scores.get("items", [])
    same = [row["id"] for row in items] == [record["id"] for record in records]
    values = items if same else [{}] * len(records)  # a part of a run (shard) has no scores of all
    measures = [name for name in scores.get("measures", {}) if any(name in row for row in values)]
    facts = ("conversation", "index", "id", "category", "context_tokens", "rounds", "seconds")
    words = _TEXTS if texts else ()
    rows = tuple(
        (
            *(record[fact] for fact in facts),
            bool(record["error"]),
            *(row.get(name) for name in measures),
            *(record[word] for word in words),
        )
        for record, row in zip(records, values, strict=True)
    )
    return Rows((*facts, "failed", *measures, *words), rows)


def files(finished: Finished, run: RunFolder, *, texts: bool) -> Iterator[tuple[str, str]]:
    """Yield the run's files, name and text: manifest, scores, records and timings."""
    for name in ("manifest.json", "scores.json"):
        if (run.path / name).is_file():
            yield name, (run.path / name).read_text(encoding="utf-8")
    yield "records.jsonl", _lines(finished.records if texts else map(bare, finished.records))
    judgements = finished.judgements
    if judgements:
        yield "judgements.jsonl", _lines(judgements if texts else map(bare_judgement, judgements))


def bare(record: Record) -> Record:
    """Return a record without text: identity, counts, calls and seconds; an error by its kind."""
    error = record["error"]
    kind = str(error).partition(":")[0] if error else None
    return {name: record[name] for name in KEPT if name in record} | {"error": kind}


def bare_judgement(judgement: Record) -> Record:
    """Return a judgement without the judge's words: its verdicts that are numbers, and calls."""
    verdicts = judgement["verdicts"]
    return {
        "conversation": judgement["conversation"],
        "index": judgement["index"],
        "judge": judgement["judge"],
        "verdicts": {k: v for k, v in verdicts.items() if isinstance(v, int | float)},
        "calls": judgement["calls"],
    }


def _lines(records: Iterable[Record]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
