"""From items and measures to scores: means with intervals, counts, categories.

Failed questions are no answers: they are counted and left out of the mean, unless
`failed_as="zero"` asks for what most published scripts do. Corpus measures are recomputed from
counts for the whole and for each category, never averaged. The mean over all questions equals
the category means weighted by their number of questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eval.measures.base import CorpusMeasure, Counts, Measure
from eval.measures.item import Item
from eval.measures.judged import Judged
from eval.measures.registry import parse_all

FailedAs = Literal["excluded", "zero"]
_NONE = "none: "  # how the method of an interval begins that there is not (eval.statistics, too)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A measure's mean over some items, on the 0–1 scale; `None` where no item counts.

    `n` items are in the mean. `n_failed` failed though they have gold: left out, or in `n` as
    zeros. `n_excluded` have no gold for the measure, or no value (no ranking, no verdict).
    `method` says how the interval was made or, after "none: ", why there is none.
    """

    mean: float | None
    n: int
    n_failed: int
    n_excluded: int
    low: float | None
    high: float | None
    method: str


def why_no_interval(found: Mapping[str, Any]) -> str:
    """Return why a mean has no interval, by its entry in `scores.json`; empty where it has one."""
    return "" if found["low"] is not None else str(found["method"]).removeprefix(_NONE)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A measure that this machine cannot compute, and what mends it."""

    measure: Measure
    reason: str


@dataclass(frozen=True)
class Scored:
    """A measure's values, or a corpus measure's counts, for each item."""

    measure: Measure
    items: Sequence[Item]
    values: Sequence[float | None]
    counts: Sequence[Counts | None] | None
    failed: Sequence[bool]

    def aggregate(self, at: Sequence[int] | None = None, level: float = 0.95) -> Aggregate:
        """Aggregate the items at these positions, or all."""
        from eval.statistics import clustered_mean_interval, jackknife_interval  # lazy: SciPy

        places = range(len(self.items)) if at is None else at
        known = self.values if self.counts is None else self.counts
        inside = [i for i in places if known[i] is not None]
        n, n_failed = len(inside), sum(self.failed[i] for i in places)
        n_left_out = sum(self.failed[i] and known[i] is None for i in places)
        n_excluded = len(places) - n - n_left_out
        if not inside:
            reason = f"{_NONE}no question counts"
            return Aggregate(None, 0, n_failed, n_excluded, None, None, reason)
        clusters = [self.items[i].conversation for i in inside]
        if isinstance(self.measure, CorpusMeasure) and self.counts is not None:
            rows = [row for i in inside if (row := self.counts[i]) is not None]
            found = jackknife_interval(rows, clusters, self.measure.from_counts, level)
        else:
            values = [v for i in inside if (v := self.values[i]) is not None]
            found = clustered_mean_interval(values, clusters, level)
        if found.flat:
            reason = f"{_NONE}{self._sameness(inside)}"
            return Aggregate(found.mean, n, n_failed, n_excluded, None, None, reason)
        # measures lie in [0, 1]; cutting an interval there costs it no coverage
        low = None if found.low is None else max(0.0, found.low)
        high = None if found.high is None else min(1.0, found.high)
        return Aggregate(found.mean, n, n_failed, n_excluded, low, high, found.method)

    def _sameness(self, at: Sequence[int]) -> str:
        """Say in words what is the same at these positions, so that nothing can be told."""
        if self.counts is None:
            if len({self.values[i] for i in at}) == 1:
                return "all questions have the same value"
            return "all conversations have the same mean"
        several = len({self.items[i].conversation for i in at}) > 1
        return f"leaving out any one {'conversation' if several else 'question'} changes nothing"


def evaluate(
    measure: Measure, items: Sequence[Item], failed_as: FailedAs = "excluded"
) -> Scored | Unavailable:
    """Compute a measure for each item, or say why this machine cannot."""
    reason = measure.unavailable()
    if reason:
        return Unavailable(measure, reason)
    failed = [item.failed and measure.expects(item) for item in items]
    zero = failed_as == "zero"
    if isinstance(measure, CorpusMeasure):
        counts = [
            measure.empty_counts(item) if lost and zero else row
            for item, lost, row in zip(items, failed, measure.counts(items), strict=True)
        ]
        return Scored(measure, items, [None] * len(items), counts, failed)
    values = [
        0.0 if lost and zero else value
        for lost, value in zip(failed, measure.per_item(items), strict=True)
    ]
    return Scored(measure, items, values, None, failed)


def aggregate(
    measure: Measure,
    items: Sequence[Item],
    failed_as: FailedAs = "excluded",
    level: float = 0.95,
) -> Aggregate | Unavailable:
    """Return a measure's mean over items, with its interval and counts."""
    scored = evaluate(measure, items, failed_as)
    return scored if isinstance(scored, Unavailable) else scored.aggregate(level=level)


@dataclass(frozen=True)
class Scores:
    """The scores of one set of items: what `scores.json` holds."""

    items: Sequence[Item]
    scored: Sequence[Scored]
    unavailable: Sequence[Unavailable]
    whole: dict[str, Aggregate]
    categories: dict[str, dict[str, Aggregate]]
    failed_as: FailedAs
    level: float

    def plain(self) -> dict[str, Any]:
        """Return the scores as JSON values; an unavailable measure's mean is null."""
        single = [s for s in self.scored if s.counts is None]
        rows: list[dict[str, Any]] = [{"id": item.id} for item in self.items]
        for scored in single:
            for row, value in zip(rows, scored.values, strict=True):
                row[scored.measure.name] = value
        means: dict[str, float | None] = {name: a.mean for name, a in self.whole.items()}
        return {
            "items": rows,
            "mean": means | {u.measure.name: None for u in self.unavailable},
            "counts": {name: _counts(a) for name, a in self.whole.items()},
            "intervals": {name: _interval(a, self.level) for name, a in self.whole.items()},
            "by_category": {
                category: {
                    name: {"mean": a.mean, **_counts(a), **_interval(a, self.level)}
                    for name, a in of.items()
                }
                for category, of in self.categories.items()
            },
            "unavailable": {u.measure.name: u.reason for u in self.unavailable}
            | {
                s.measure.name: _nothing(s, self.whole[s.measure.name])
                for s in self.scored
                if not self.whole[s.measure.name].n
            },
            "agreement": {
                s.measure.name: agreed.plain()
                for s in self.scored
                if isinstance(s.measure, Judged) and (agreed := s.measure.agreement(self.items))
            },
            "measures": {
                s.measure.name: s.measure.describe(self.items, self.whole[s.measure.name].n)
                for s in self.scored
            }
            | {u.measure.name: u.measure.title for u in self.unavailable},
            "versions": {
                m.name: m.version
                for m in [*(s.measure for s in self.scored), *(u.measure for u in self.unavailable)]
            },
            "resources": {
                s.measure.name: found for s in self.scored if (found := s.measure.resources())
            },
            "failed_as": self.failed_as,
        }


def _nothing(scored: Scored, found: Aggregate) -> str:
    """Say in words why no question counts."""
    if found.n_failed:
        return f"every question that it could score failed ({found.n_failed})"
    what = {
        "answer": "has an answer and a reference to compare it with",
        "ranking": "has a ranking of sessions and gold sessions",
        "judgement": "has a verdict of this judge",
    }[scored.measure.needs]
    return f"none of the {len(scored.items)} questions {what}"


def _counts(found: Aggregate) -> dict[str, int]:
    return {"n": found.n, "n_failed": found.n_failed, "n_excluded": found.n_excluded}


def _interval(found: Aggregate, level: float) -> dict[str, Any]:
    return {"low": found.low, "high": found.high, "level": level, "method": found.method}


def score(
    items: Sequence[Item],
    measures: Iterable[Measure | str],
    failed_as: FailedAs = "excluded",
    level: float = 0.95,
) -> Scores:
    """Score items by measures (or their names), in all and by category."""
    wanted = [
        m for name in measures for m in ([name] if isinstance(name, Measure) else parse_all(name))
    ]
    results = [evaluate(measure, items, failed_as) for measure in dict.fromkeys(wanted)]
    scored = [r for r in results if isinstance(r, Scored)]
    places: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        if item.category:
            places.setdefault(item.category, []).append(i)
    return Scores(
        items=items,
        scored=scored,
        unavailable=[r for r in results if isinstance(r, Unavailable)],
        whole={s.measure.name: s.aggregate(level=level) for s in scored},
        categories={
            category: {s.measure.name: s.aggregate(at, level) for s in scored}
            for category, at in sorted(places.items())
        },
        failed_as=failed_as,
        level=level,
    )


def default_measures(items: Sequence[Item]) -> tuple[Measure, ...]:
    """Return what a file of these items can be scored by, when nobody says."""
    names: list[str] = []
    if any(item.reference is not None and item.asked for item in items):
        names += ["f1_locomo", "f1_squad", "f1_set", "bleu_corpus", "bleu1", "rouge1", "rouge2"]
        names += ["rougeL", "meteor"]
    if any(item.ranked_sessions is not None and item.has_evidence for item in items):
        names += [f"{base}@{k}" for k in (3, 5, 10) for base in ("recall_all", "ndcg")]
    judges = {judge for item in items for judge in item.judgements}
    names += [n for n in sorted(_JUDGED) if _JUDGED[n] in judges]
    return parse_all(names)


_JUDGED = {
    "judge_memgas": "memgas",
    "judge_longmemeval": "longmemeval",
    "judge_gvd_acc": "gvd",
    "judge_gvd_corr": "gvd",
    "judge_gvd_cohe": "gvd",
}
