"""What a run took and where it failed: calls, tokens, seconds and money; errors and fallbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval.costs import PHASES, ROLES, Missing, RunCosts, costs_of
from eval.prices import PriceList
from eval.report.reading import LoadedRun

_ERROR_LENGTH = 160
_SUMS = ("calls", "prompt_tokens", "completion_tokens")
_COUNTED_SIZES = ("context_tokens", "encoder.texts")  # counted, but sizes and no events


def spending(run: LoadedRun, prices: PriceList) -> list[dict[str, Any]]:
    """Return one row for each phase and role that made calls.

    Calls, tokens and dollars are those of `eval.costs`: stored replies count with what they cost
    when they were made, and `usd` is `None`, with the reason in `no_usd`, without a price.
    `seconds` are summed over calls, which may overlap.
    """
    costs = costs_of(run.records, run.builds, run.judgements, (), prices)
    calls: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in (*run.builds, *run.records, *run.judgements):
        for call in entry["calls"]:
            calls.setdefault((call["phase"], call["role"]), []).append(call)
    places = sorted(calls, key=lambda place: (PHASES.index(place[0]), ROLES.index(place[1])))
    return [_row(*place, calls[place], costs) for place in places]


def _row(
    phase: str, role: str, calls: Sequence[Mapping[str, Any]], costs: RunCosts
) -> dict[str, Any]:
    usd = costs.value(f"{phase}.{role}.usd", "run")
    sums = {what: _whole(costs.value(f"{phase}.{role}.{what}", "run")) for what in _SUMS}
    return {
        "phase": phase,
        "role": role,
        "models": sorted({str(call["model"]) for call in calls}),
        "stored": sum(bool(call["cached"]) for call in calls),
        "seconds": round(sum(call["seconds"] for call in calls), 3),
        "usd": None if isinstance(usd, Missing) else usd,
        "no_usd": usd.reason if isinstance(usd, Missing) else "",
        **sums,
    }


def _whole(number: float | Missing) -> int | None:
    return None if isinstance(number, Missing) else round(number)


def latency(run: LoadedRun) -> dict[str, Any]:
    """Return seconds a question (median, 95th percentile), and of builds; `timed` from a timing."""
    asked = [record["seconds"] for record in run.records if not record["error"]]
    timed = [record["seconds"] for record in run.timings if not record.get("error")]
    return {
        "median": _quantile(asked, 0.5),
        "p95": _quantile(asked, 0.95),
        "build_seconds": round(sum(build["seconds"] for build in run.builds), 3),
        "builds": len(run.builds),
        "units": sum(build["units"] for build in run.builds),
        "timed_median": _quantile(timed, 0.5),
        "timed": len(timed),
        "context_tokens": _quantile([r["context_tokens"] for r in run.records], 0.5),
    }


def failures(run: LoadedRun) -> dict[str, Any]:
    """Return errors by kind with one example, counted events, and the share of valid replies."""
    kinds: Counter[str] = Counter()
    examples: dict[str, str] = {}
    events: Counter[str] = Counter()
    bound = valid = 0
    entries = [*run.builds, *run.records, *run.judgements]
    for entry in entries:
        error = entry.get("error")
        if error:
            kind = error_kind(error)
            kinds[kind] += 1
            examples.setdefault(kind, error[:_ERROR_LENGTH])
        events.update({k: n for k, n in entry["counts"].items() if k not in _COUNTED_SIZES})
        for call in entry["calls"]:
            if call.get("schema"):
                bound += 1
                valid += bool(call.get("valid"))
    return {
        "errors": [[kind, n, examples[kind]] for kind, n in kinds.most_common()],
        "events": sorted(events.items()),
        "schema_calls": bound,
        "valid": valid,
        "unavailable": dict(run.scores.get("unavailable", {})),
    }


def error_kind(error: str) -> str:
    """Return an error's kind: the words before its first colon, `build:` kept as a prefix."""
    head, _, rest = error.partition(":")
    if head == "build" and rest:
        return f"build: {rest.strip().partition(':')[0][:60]}"
    return head[:60]


def _quantile(values: Iterable[float], at: float) -> float | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return round(float(ordered[min(len(ordered) - 1, int(at * len(ordered)))]), 3)
