"""Calibrating a judge: how often it accepts answers of which we know whether they are right.

`calibration-<judge>.jsonl` holds a line for each control answer and verdict, `.json` beside it
the acceptance rates; scores judged by that judge print them in their definition.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.judge.control_answers import CONTROLS, control_answers, usable
from eval.judging import Judging
from eval.measures.judged import Judged
from eval.measures.registry import parse
from eval.records import Key, Record, key_of
from eval.spec import RunSpec
from memsys.datasets.base import Sample
from memsys.dialogue import Conversation, Question
from memsys.errors import UserError
from memsys.stores.plain import dumps


@dataclass(frozen=True)
class Probe:
    """A control answer to one question."""

    control: str
    question: Question
    conversation: Conversation
    record: Record


@dataclass(frozen=True)
class Rate:
    """How a judge took one control: the sum of a score over `n` verdicts; `lost` had none."""

    total: float
    n: int
    lost: int

    @property
    def share(self) -> float | None:
        """The mean score, which is the share accepted where scores are 0 or 1."""
        return self.total / self.n if self.n else None

    def words(self) -> str:
        """Return `3/40`; of graded scores or averaged verdicts, the sum: `2.5/40`."""
        return f"{round(self.total, 2):g}/{self.n}"


@dataclass(frozen=True)
class Calibration:
    """A judge's acceptance rates, by score and control."""

    judge: str
    fingerprint: str
    questions: int
    rates: Mapping[str, Mapping[str, Rate]]

    def plain(self) -> dict[str, Any]:
        """Return the rates as JSON values."""
        return {
            "judge": self.judge,
            "fingerprint": self.fingerprint,
            "questions": self.questions,
            "scores": {
                score: {
                    name: {
                        "wanted": CONTROLS[name],
                        "accepted": rate.share,
                        "total": rate.total,
                        "n": rate.n,
                        "without_verdict": rate.lost,
                    }
                    for name, rate in rates.items()
                }
                for score, rates in self.rates.items()
            },
        }

    @classmethod
    def read(cls, folder: Path, fingerprint: str) -> Calibration | None:
        """Return a judge's calibration in a run's folder, if it was made there."""
        try:
            found = json.loads(_place(folder, fingerprint).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        rates = {
            score: {
                name: Rate(of["total"], of["n"], of["without_verdict"])
                for name, of in controls.items()
            }
            for score, controls in found["scores"].items()
        }
        return cls(found["judge"], fingerprint, found["questions"], rates)

    def words(self, score: str) -> str:
        """Return `controls accepted: reference 39/40, …` for one score."""
        rates = self.rates.get(score, {})
        told = (f"{n.replace('_', ' ')} {r.words()}" for n, r in rates.items() if r.n)
        return f"controls accepted: {', '.join(told)}"


def _place(folder: Path, fingerprint: str) -> Path:
    return folder / f"calibration-{fingerprint}.json"


def probes(samples: Sequence[Sample], records: Sequence[Record], questions: int) -> list[Probe]:
    """Return the control answers to at most `questions` questions, spread evenly over the run.

    Only answered questions count. Where the benchmark has no reference answers, another question
    is answered with what the run itself answered there.
    """
    known = {key_of(r): r for r in records if not r["error"] and r["answer"] is not None}
    asked = [
        (question, sample.conversation)
        for sample in samples
        for question in sample.questions
        if question.key in known
    ]
    with_gold = [one for one in asked if usable(one[0])]
    if not with_gold and any(question.reference for question, _ in asked):
        return []
    eligible = with_gold or asked
    chosen = _evenly(eligible, questions)
    found = []
    for question, conversation in chosen:
        others = [
            (q, str(q.reference if with_gold else known[q.key]["answer"]))
            for q, _ in eligible
            if q.conversation == question.conversation
        ]
        for name, answer in control_answers(question, others).items():
            record = {**known[question.key], "answer": answer}
            found.append(Probe(name, question, conversation, record))
    return found


def _evenly(things: Sequence[Any], count: int) -> list[Any]:
    count = min(count, len(things))
    return [things[i * len(things) // count] for i in range(count)]


async def calibrate(
    spec: RunSpec, judging: Judging, records: Sequence[Record], questions: int
) -> Calibration:
    """Judge the control answers of a run's questions and keep what came of it in its folder.

    Calls are entered as judging and kept in the reply store, so that a second calibration is
    free. Raises `UserError` where no question allows a control.
    """
    wanted = probes(list(spec.dataset.load(spec.protocol.rules)), records, questions)
    if not wanted:
        raise UserError("No answered question of this run has gold from which to make controls.")
    gate = asyncio.Semaphore(spec.questions_at_once)

    async def one(probe: Probe) -> Record:
        async with gate:
            found = await judging.judge(spec.chat, probe.question, probe.conversation, probe.record)
        return {"control": probe.control, "answer": probe.record["answer"], **found}

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(probe)) for probe in wanted]
    judged = [task.result() for task in tasks]
    keys: set[Key] = {probe.question.key for probe in wanted}
    found = Calibration(judging.judge_.name, judging.fingerprint, len(keys), _rates(judged))
    place = _place(spec.folder, judging.fingerprint)
    place.with_suffix(".jsonl").write_bytes(b"".join(dumps(line) + b"\n" for line in judged))
    place.write_text(json.dumps(found.plain(), indent=1) + "\n", encoding="utf-8")
    return found


def _rates(judged: Sequence[Record]) -> dict[str, dict[str, Rate]]:
    names = dict.fromkeys(s for line in judged for s in line["verdicts"]["scores"] or ())
    return {
        score: {name: _rate(judged, name, score) for name in CONTROLS if _has(judged, name)}
        for score in names
    }


def _has(judged: Sequence[Record], control: str) -> bool:
    return any(line["control"] == control for line in judged)


def _rate(judged: Sequence[Record], control: str, score: str) -> Rate:
    given = [(line["verdicts"]["scores"] or {}) for line in judged if line["control"] == control]
    values = [scores[score] for scores in given if score in scores]
    return Rate(sum(values), len(values), len(given) - len(values))


def noted(measures: Mapping[str, str], folder: Path, fingerprint: str) -> list[tuple[str, str]]:
    """Return each judged measure's definition with the acceptance rates of its judge, if known."""
    found = Calibration.read(folder, fingerprint)
    if found is None:
        return []
    told = []
    for name, title in measures.items():
        measure = parse(name)
        if isinstance(measure, Judged) and measure.judge == found.judge:
            told.append((name, f"{title.removesuffix(')')}; {found.words(measure.score)})"))
    return told
