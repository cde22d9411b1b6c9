"""Two runs question by question: paired differences, flips, settings and costs.

Runs that differ in data, questions, gold, answer prompt, judge or measure are no comparison of
systems; `obstacles` names each such difference in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.costs import Missing, run_costs
from eval.measures.base import CorpusMeasure, Measure
from eval.measures.item import Item
from eval.measures.registry import parse_all
from eval.prices import PriceList
from eval.records import Key, key_of
from eval.runfolder import RunFolder, flat
from eval.scoring import Scored, default_measures, evaluate
from eval.statistics import (
    Comparison,
    jackknife_interval,
    minimum_detectable_difference,
    paired_comparison,
    two_sided,
)
from memsys.errors import UserError

FLIP = 0.5
"""A question flips where one system scores at least this, and the other less."""

COSTS = {
    "building: calls": "build.all.calls",
    "building: tokens": "build.all.tokens",
    "asking: calls": "question.all.calls",
    "asking: tokens": "question.all.tokens",
    "judging: calls": "judge.all.calls",
    "US dollars, all phases": "all.all.usd",
    "seconds to answer": "question.seconds",
    "tokens of context": "question.context_tokens",
}
"""What is compared, per question: a name and a cost word of `eval.costs`."""

_DATA = ("name", "release", "version", "metadata", "cut", "files")


@dataclass(frozen=True)
class Question:
    """One question's scores under both runs; `None` where it failed or has no value."""

    key: Key
    id: str
    category: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """Score of A less score of B."""
        return None if self.a is None or self.b is None else self.a - self.b

    @property
    def flipped(self) -> str:
        """Which run alone was right: `A`, `B`, or neither (empty)."""
        if self.a is None or self.b is None or (self.a >= FLIP) == (self.b >= FLIP):
            return ""
        return "A" if self.a >= FLIP else "B"


@dataclass(frozen=True)
class Paired:
    """One measure over the questions that both runs answered.

    `found` is `None` for a corpus measure without a question; wins, losses and ties of a corpus
    measure count nothing. `detectable` is the least true difference that such data would show.
    """

    measure: Measure
    questions: Sequence[Question]
    mean_a: float | None
    mean_b: float | None
    found: Comparison | None
    detectable: float | None
    failed_a: int
    failed_b: int
    by_category: Mapping[str, Comparison]

    @property
    def n(self) -> int:
        """How many questions are compared."""
        return self.found.difference.n if self.found else 0

    def flips(self, of: str) -> list[Question]:
        """Return the questions that run `A` or `B` alone got right."""
        return [q for q in self.questions if q.flipped == of]


def measures_of_both(a: RunFolder, b: RunFolder) -> tuple[Measure, ...]:
    """Return what both runs were scored by, else what their questions allow; never nothing."""
    stored = [list(run.scores.get("mean", {})) for run in (a, b)]
    shared = [
        name
        for name in stored[0]
        if name in stored[1] and all(run.scores["mean"][name] is not None for run in (a, b))
    ]
    if shared:
        return parse_all(shared)
    found = default_measures([*a.items.values()])
    if not found:
        raise UserError("The runs' questions have no gold to score by: name a --measure.")
    return found


def obstacles(a: RunFolder, b: RunFolder, measures: Iterable[Measure]) -> list[str]:
    """Say, one sentence each, why two runs may not be compared; empty if they may."""
    found = [f"{run.label} is {run.unfinished}." for run in (a, b) if run.unfinished]
    found += [*_data(a, b), *_questions(a, b), *_asking(a, b)]
    wanted = list(measures)
    if any(m.needs == "judgement" for m in wanted):
        found += _judges(a, b)
    for measure in wanted:
        found += _versions(a, b, measure)
    return found


def _data(a: RunFolder, b: RunFolder) -> list[str]:
    first, second = (r.manifest["dataset_info"] for r in (a, b))
    settings = [r.manifest["identity"]["dataset"]["settings"] for r in (a, b)]
    found = [
        f"The dataset's {_word(name)} differs: {_short(first[name])} | {_short(second[name])}."
        for name in _DATA
        if first[name] != second[name]
    ]
    told = {"metadata", "release", "max_conversations", "max_sessions", "limit"}
    apart = {k for k in {*settings[0], *settings[1]} - told if _differ(settings, k)}
    return found + [
        f"The dataset's setting '{key}' differs: {settings[0].get(key)} | {settings[1].get(key)}."
        for key in sorted(apart)
    ]


def _differ(pair: Sequence[Mapping[str, Any]], key: str) -> bool:
    return bool(pair[0].get(key) != pair[1].get(key))


def _word(name: str) -> str:
    return {"version": "loader version", "files": "file", "cut": "cut"}.get(name, name)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{f['name']} ({f['sha256'][:8]})" for f in value)
    return "none" if value is None else str(value)


def _questions(a: RunFolder, b: RunFolder) -> list[str]:
    first, second = ({key_of(r): r for r in run.records} for run in (a, b))
    both = [key for key in first if key in second]
    found = []
    if len(both) < max(len(first), len(second)):
        found.append(
            f"The questions asked differ: {len(first)} | {len(second)}, of which {len(both)} are"
            " the same."
        )
    for field, words in (
        ("question", "question texts"),
        ("reference", "reference answers"),
        ("evidence_sessions", "gold sessions"),
    ):
        apart = sum(first[key][field] != second[key][field] for key in both)
        if apart:
            protocols = " | ".join(str(r.manifest["identity"]["protocol"][0]) for r in (a, b))
            found.append(f"The {words} of {apart} questions differ (protocol {protocols}).")
    return found


def _asking(a: RunFolder, b: RunFolder) -> list[str]:
    first, second = (run.manifest["identity"] for run in (a, b))
    if first["stage"] != second["stage"]:
        return [f"The stage differs: {first['stage']} | {second['stage']}."]
    found = []
    prompts = [_answer_prompts(identity) for identity in (first, second)]
    if prompts[0] != prompts[1]:
        found.append(f"The answer prompt differs: {_named(prompts[0])} | {_named(prompts[1])}.")
    if first["answering"] != second["answering"]:
        limits = [identity["answering"].get("max_tokens") for identity in (first, second)]
        found.append(f"The most tokens of an answer differ: {limits[0]} | {limits[1]}.")
    return found


def _answer_prompts(identity: Mapping[str, Any]) -> dict[str, str]:
    return {k: v for k, v in identity["prompts"].items() if k.startswith("answering/")}


def _named(prompts: Mapping[str, str]) -> str:
    return ", ".join(f"{name}@{digest}" for name, digest in prompts.items()) or "none"


def _judges(a: RunFolder, b: RunFolder) -> list[str]:
    first, second = (flat(run.manifest.get("judging") or {}) for run in (a, b))
    keys = [k for k in {**first, **second} if first.get(k) != second.get(k)]
    return [
        f"The judge differs in {key}: {first.get(key, 'none')} | {second.get(key, 'none')}."
        for key in keys
    ]


def _versions(a: RunFolder, b: RunFolder, measure: Measure) -> list[str]:
    stored = [run.scores.get("versions", {}).get(measure.name) for run in (a, b)]
    if None in stored or stored[0] == stored[1]:
        return []
    return [
        f"{measure.name} was scored by version {stored[0]} | {stored[1]} of the measure; here both"
        f" are scored by version {measure.version}."
    ]


def settings_apart(a: RunFolder, b: RunFolder) -> list[tuple[str, Any, Any]]:
    """Return every key of the two runs' identities whose values differ, with both values."""
    first, second = (_settings(run) for run in (a, b))
    missing = "–"
    return [
        (key, first.get(key, missing), second.get(key, missing))
        for key in sorted({*first, *second})
        if first.get(key, missing) != second.get(key, missing)
    ]


def _settings(run: RunFolder) -> dict[str, Any]:
    found = flat(run.manifest["identity"])
    if run.manifest.get("judging"):
        found |= flat(run.manifest["judging"], "judging")
    return found


def compare(a: RunFolder, b: RunFolder, measure: Measure) -> Paired:
    """Compare two runs by a measure, over the questions of both; raises `UserError`."""
    keys = [key for key in a.items if key in b.items]
    if not keys:
        raise UserError("The two runs have no question in common.")
    items = [[run.items[key] for key in keys] for run in (a, b)]
    scored = [_scored(measure, of) for of in items]
    if isinstance(measure, CorpusMeasure):
        return _corpus(measure, keys, items, scored)
    questions = [
        Question(key, item.id, item.category, first, second)
        for key, item, first, second in zip(
            keys, items[0], scored[0].values, scored[1].values, strict=True
        )
    ]
    paired = [q for q in questions if q.difference is not None]
    categories = dict.fromkeys(sorted(q.category for q in paired if q.category))
    found = _paired(paired)
    differences = [d for q in paired if (d := q.difference) is not None]
    return Paired(
        measure=measure,
        questions=questions,
        mean_a=_mean([q.a for q in paired]),
        mean_b=_mean([q.b for q in paired]),
        found=found,
        detectable=minimum_detectable_difference(differences, [q.key[0] for q in paired])
        if paired
        else None,
        failed_a=sum(scored[0].failed),
        failed_b=sum(scored[1].failed),
        by_category={
            name: one
            for name in categories
            if (one := _paired([q for q in paired if q.category == name])) is not None
        },
    )


def _scored(measure: Measure, items: Sequence[Item]) -> Scored:
    found = evaluate(measure, items)
    if not isinstance(found, Scored):
        raise UserError(f"{measure.name} cannot be computed here: {found.reason}")
    return found


def _paired(questions: Sequence[Question]) -> Comparison | None:
    if not questions:
        return None
    first = [q.a for q in questions if q.a is not None]
    second = [q.b for q in questions if q.b is not None]
    return paired_comparison(first, second, [q.key[0] for q in questions])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _corpus(
    measure: CorpusMeasure,
    keys: Sequence[Key],
    items: Sequence[Sequence[Item]],
    scored: Sequence[Scored],
) -> Paired:
    """Compare by a corpus measure: the difference of the whole, its spread by the jackknife."""
    first, second = (of.counts or [] for of in scored)
    rows, clusters = [], []
    for key, left, right in zip(keys, first, second, strict=True):
        if left is not None and right is not None:
            rows.append((*left, *right))
            clusters.append(key[0])
    failed = [sum(of.failed) for of in scored]
    questions = [
        Question(k, i.id, i.category, None, None) for k, i in zip(keys, items[0], strict=True)
    ]
    if not rows:
        return Paired(measure, questions, None, None, None, None, failed[0], failed[1], {})
    width = len(rows[0]) // 2
    total = tuple(sum(column) for column in zip(*rows, strict=True))
    means = [measure.from_counts(total[:width]), measure.from_counts(total[width:])]
    interval = jackknife_interval(
        rows,
        clusters,
        lambda t: measure.from_counts(t[:width]) - measure.from_counts(t[width:]),
    )
    found = Comparison(interval, two_sided(interval), 0, 0, 0)
    return Paired(measure, questions, means[0], means[1], found, None, failed[0], failed[1], {})


def costs_apart(
    a: RunFolder, b: RunFolder, prices: PriceList
) -> list[tuple[str, float | str, float | str]]:
    """Return what the two runs cost a question, cost by cost; a text says why there is no value."""
    found = [run_costs(run.path, prices) for run in (a, b)]
    rows = []
    for name, cost in COSTS.items():
        values = [costs.value(cost) for costs in found]
        first, second = (v.reason if isinstance(v, Missing) else v for v in values)
        rows.append((name, first, second))
    return rows
