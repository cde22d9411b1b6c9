"""Checks that read how questions were answered: context lengths, one case, the pyramid's walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.claims import contrast
from eval.claims.evidence import Evidence
from eval.claims.outcome import FAILS, HOLDS, Outcome, Verdict, direction, nothing, printed
from eval.claims.quantities import NotHere, context_lengths
from eval.claims.spec import Case
from eval.measures.f1_set import F1Set


def lengths(mine: Evidence, other: Evidence, runs: Sequence[str]) -> list[Outcome]:
    """Compare memory contexts: ours shorter question by question, and relatively more spread."""
    shorter = f"context tokens: {other.label} longer than {mine.label}"
    broader = f"context tokens, IQR/median: {mine.label} above {other.label}"
    try:
        a, b = context_lengths(mine), context_lengths(other)
        less = contrast.paired(b, a)
        spread = contrast.jackknifed([a, b], _spread_difference)
    except (NotHere, ValueError) as reason:
        return [nothing(what, str(reason), runs=runs) for what in (shorter, broader)]
    found = []
    for what, difference in ((shorter, less), (broader, spread)):
        verdict, why = direction(difference)
        outcome = Outcome(what, printed(difference), verdict, "", "", why, tuple(runs))
        found.append(outcome)
    return found


def case(part: Case, mine: Evidence, runs: Sequence[str]) -> list[Outcome]:
    """Hold one question's rounds and answer against the published ones."""
    what = f"{part.conversation}, evidence {part.evidence}"
    if mine.measured is None:
        return [nothing(what, mine.hindrances[0], runs=runs)]
    record = next(
        (
            r
            for r in mine.measured.records
            if r["conversation"] == part.conversation and part.evidence in r["evidence_turns"]
        ),
        None,
    )
    if record is None:
        return [nothing(what, "that question was not asked in this run", runs=runs)]
    if record["error"]:
        return [nothing(what, f"that question failed: {record['error']}", runs=runs)]
    what = f"question {record['index']} of {what}"
    rounds = _rounds(record)
    new = tuple(int(r["new_count"]) for r in rounds[: len(part.new)])
    critical = len(rounds[0]["critical_memories"]) if rounds else 0
    same_answer = F1Set().score(str(record["answer"] or ""), part.answer) == 1
    pairs: list[tuple[str, object, object, bool]] = [
        ("rounds", record["rounds"], part.rounds, record["rounds"] == part.rounds),
        ("new memories", _list(new), _list(part.new), new == part.new),
        ("critical after round 1", critical, part.critical_first, critical == part.critical_first),
        ("final answer", "same date" if same_answer else "another", part.answer, same_answer),
    ]
    return [
        Outcome(f"{what}: {name}", str(ours), _verdict(fits), str(published), runs=tuple(runs))
        for name, ours, published, fits in pairs
    ]


def walk(mine: Evidence, runs: Sequence[str]) -> Outcome:
    """Check every question's walk: all keywords first, never more again, no memory twice."""
    what = f"{mine.label}: from all query keywords to fewer, each memory once"
    if mine.measured is None:
        return nothing(what, mine.hindrances[0], runs=runs)
    answered = [r for r in mine.measured.records if not r["error"] and "path" in r["trace"]]
    if not answered:
        return nothing(what, "no question has a trace of its walk", runs=runs)
    wrong = [f"{r['conversation']} {r['index']}" for r in answered if not _walks(r)]
    said = f"{len(answered) - len(wrong)} of {len(answered)} questions"
    why = f"not {', '.join(wrong[:5])}" if wrong else ""
    return Outcome(what, said, _verdict(not wrong), why=why, runs=tuple(runs))


def _walks(record: Mapping[str, Any]) -> bool:
    trace = record["trace"]
    levels = [group["level"] for group in trace["path"]]
    seen: list[str] = []
    for one in _rounds(record):
        seen += one["new"]
    top = not levels or levels[0] == len(trace["query_keywords"])
    stopped = trace["stop"] != "sufficient" or bool(_rounds(record)[-1]["sufficient"])
    return (
        top and levels == sorted(levels, reverse=True) and len(set(seen)) == len(seen) and stopped
    )


def _rounds(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = record["trace"].get("rounds") or []
    return found


def _spread_difference(runs: Sequence[Sequence[float]]) -> float:
    return contrast.relative_spread(runs[0]) - contrast.relative_spread(runs[1])


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(str(n) for n in numbers)


def _verdict(fits: bool) -> Verdict:
    return HOLDS if fits else FAILS
