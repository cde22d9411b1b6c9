"""What a check reads of a run: one value a question, on the scale that is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval.claims.contrast import Values
from eval.claims.evidence import Evidence
from eval.claims.spec import Quantity
from eval.costs import DISTINCT, Cost, Missing, timing_of
from eval.prices import PriceList
from eval.records import Record, key_of
from eval.tables.measured import Measured


class NotHere(Exception):
    """There is nothing to compute from, and why."""


def read(evidence: Evidence, quantity: Quantity, prices: PriceList) -> Values:
    """Return a measure ×100 or a cost by question; raises `NotHere`."""
    if quantity.measure is not None:
        return scores(evidence, quantity.measure)
    return costs(_measured(evidence), str(quantity.cost), prices)


def scores(evidence: Evidence, measure: str) -> Values:
    """Return a measure's value ×100 of every question that has one; raises `NotHere`."""
    _measured(evidence)
    found = {key: 100 * value for key, value in evidence.values(measure).items()}
    if not found:
        reason = evidence.unavailable(measure) or f"{measure} has no value for a question"
        raise NotHere(f"{evidence.label}: {reason}")
    return found


def costs(measured: Measured, cost: str, prices: PriceList) -> Values:
    """Return a cost by question; raises `NotHere`.

    What building a conversation's memory cost is shared out evenly among its questions, so that
    the mean over questions is the total over questions. Seconds are those of `stage=timing`.
    """
    wanted = Cost.parse(cost)
    if wanted.phase == "question" and wanted.what == "seconds":
        timed = [record for record in timing_of(measured.run.path) if not record["error"]]
        if not timed:
            raise NotHere("no question was timed alone (stage=timing)")
        return {key_of(record): record["seconds"] for record in timed}
    if not wanted.role:
        if wanted.phase == "build":
            raise NotHere(f"{cost} is no cost of a question")
        answered = [record for record in measured.records if not record["error"]]
        return {key_of(record): float(record[wanted.what]) for record in answered}
    if wanted.what.startswith(DISTINCT):
        raise NotHere(f"{cost} belongs to a whole run, not to its questions")
    total = measured.costs(prices).value(cost)  # knows every reason for which there is no number
    if isinstance(total, Missing):
        raise NotHere(total.reason)
    found = {key_of(record): 0.0 for record in measured.records}
    for record in measured.records:
        found[key_of(record)] += _sum(record, wanted, prices)
    for record in measured.judgements:
        found[key_of(record)] += _sum(record, wanted, prices)
    questions: dict[str, list[Any]] = {}
    for key in found:
        questions.setdefault(key[0], []).append(key)
    for build in measured.run.builds:
        keys = questions.get(build["conversation"], [])
        for key in keys:
            found[key] += _sum(build, wanted, prices) / len(keys)
    return found


def context_lengths(evidence: Evidence) -> Values:
    """Return the tokens of memory context of every answered question; raises `NotHere`."""
    answered = [record for record in _measured(evidence).records if not record["error"]]
    return {key_of(record): float(record["context_tokens"]) for record in answered}


def events(measured: Measured, names: tuple[str, ...]) -> int:
    """Return how often some ledger events happened while building and asking."""
    held = {record["conversation"] for record in measured.records}
    builds = [build for build in measured.run.builds if build["conversation"] in held]
    entries = (*builds, *measured.records)
    return sum(entry["counts"].get(name, 0) for entry in entries for name in names)


def _sum(entry: Record, wanted: Cost, prices: PriceList) -> float:
    calls = [call for call in entry["calls"] if _fits(call, wanted)]
    if wanted.what == "calls":
        return float(len(calls))
    if wanted.what == "usd":
        return prices.cost(calls) or 0.0
    if wanted.what == "tokens":
        return float(sum(c["prompt_tokens"] + c["completion_tokens"] for c in calls))
    return float(sum(call[wanted.what] for call in calls))


def _fits(call: Mapping[str, Any], wanted: Cost) -> bool:
    return wanted.phase in ("all", call["phase"]) and wanted.role in ("all", call["role"])


def _measured(evidence: Evidence) -> Measured:
    if evidence.measured is None:
        raise NotHere(evidence.hindrances[0])
    return evidence.measured
