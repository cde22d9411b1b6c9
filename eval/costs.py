"""What a run cost: calls, tokens, dollars and seconds, from its files and a price list.

Nothing here asks a model or loads a benchmark. Every chat call of the run counts: those of
failed questions and retries too, and a reply taken from the store with the tokens that it cost
when it was made, so that a run costs the same whatever earlier runs had already paid for. A
memory is built once for each conversation and counted once, however many questions share it.
What equal calls of different conversations would cost if made once is asked for by `distinct_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eval.prices import PriceList
from eval.records import Record, read_records
from eval.runfolder import RunFolder
from memsys.errors import UserError, suggest

PHASES = ("build", "question", "judge")
ROLES = ("main", "auxiliary", "judge")
SUMS = ("calls", "prompt_tokens", "completion_tokens", "tokens", "usd")
DISTINCT = "distinct_"
WHATS = (*SUMS, *(DISTINCT + what for what in SUMS))
"""What is summed over calls; `distinct_…` counts equal calls (those of one stored reply) once."""

SPECIAL = {
    "build.seconds": "seconds to build the memories",
    "build.units": "remembered units",
    "question.seconds": "seconds to answer",
    "question.context_tokens": "tokens of recalled context in the answer prompt",
    "question.rounds": "rounds of retrieval",
}
"""Costs that are no sum over chat calls, and what they are."""

Per = Literal["question", "unit", "conversation", "run"]
PERS: tuple[Per, ...] = ("question", "unit", "conversation", "run")

_NOUNS = {
    "calls": "chat calls",
    "prompt_tokens": "prompt tokens",
    "completion_tokens": "completion tokens",
    "tokens": "tokens (prompt and completion)",
    "usd": "US dollars",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no number, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cost:
    """One parsed cost word: `phase.role.what`, or one of `SPECIAL`, whose `role` is empty."""

    phase: str
    role: str
    what: str

    @classmethod
    def parse(cls, text: str) -> Cost:
        """Read a cost word; raises `UserError` that names the faulty part and the nearest."""
        if text in SPECIAL:
            phase, what = text.split(".")
            return cls(phase, "", what)
        parts = text.split(".")
        if len(parts) != 3:
            raise UserError(
                f"cost '{text}' is neither <phase>.<role>.<what> nor one of "
                f"{', '.join(SPECIAL)}.{_nearest(text, SPECIAL)}"
            )
        for part, name, known in zip(
            parts,
            ("phase", "role", "what"),
            ((*PHASES, "all"), (*ROLES, "all"), WHATS),
            strict=True,
        ):
            if part not in known:
                raise UserError(f"cost '{text}': '{part}' is no {name}.{suggest(part, known)}")
        return cls(*parts)

    def describe(self, per: str) -> str:
        """Return what the number is, in words."""
        if not self.role:
            return f"{SPECIAL[f'{self.phase}.{self.what}']}, {_share(per)}"
        role = "all models" if self.role == "all" else f"the {self.role} model"
        phase = "all phases" if self.phase == "all" else f"phase {self.phase}"
        what = _NOUNS[self.what.removeprefix(DISTINCT)]
        once = ", equal calls once" if self.what.startswith(DISTINCT) else ""
        return f"{what} of {role}, {phase}{once}, {_share(per)}"


@dataclass(frozen=True, slots=True)
class Calls:
    """Some chat calls of one phase, role and model, summed."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, call: Mapping[str, Any]) -> Calls:
        """Return the sum with one more call of the ledger."""
        return Calls(
            self.calls + 1,
            self.prompt_tokens + call["prompt_tokens"],
            self.completion_tokens + call["completion_tokens"],
        )


Place = tuple[str, str, str]
"""Phase, role and model of a call."""


@dataclass(frozen=True)
class RunCosts:
    """What a run cost, to be asked for by cost word and divisor.

    `calls` holds the sums by phase, role and model; `distinct` the same with equal calls once
    (conversations that share sessions repeat calls word for word), without those places where a
    call does not say which stored reply it got. `seconds`, `context_tokens` and `rounds` have one
    value for each answered question; the seconds were measured one question at a time where
    `timed`, else while others were being asked.
    """

    questions: int
    failed: int
    conversations: int
    units: int
    builds: int
    judged: bool
    build_seconds: float
    seconds: Sequence[float]
    timed: bool
    context_tokens: Sequence[int]
    rounds: Sequence[int]
    calls: Mapping[Place, Calls]
    distinct: Mapping[Place, Calls]
    prices: PriceList

    def value(self, cost: str, per: str = "question") -> float | Missing:
        """Return a cost divided per question, unit, conversation or run, or why there is none.

        Costs are additive: `per=run` is `per=question` times the questions asked, failed ones
        included. Raises `UserError` for an unknown word.
        """
        wanted = Cost.parse(cost)
        if per not in PERS:
            raise UserError(f"per '{per}' is not known.{suggest(per, PERS)}")
        total = self._total(wanted)
        if isinstance(total, Missing):
            return total
        if wanted.what == "units" and per == "unit":
            return Missing("units per unit are 1 by definition")
        divisor = {
            "question": self.questions,
            "unit": self.units,
            "conversation": self.conversations,
            "run": 1,
        }[per]
        return total / divisor if divisor else Missing(f"the run has no {per}")

    def remark(self, cost: str) -> str:
        """Return what a reader must know about how a cost was measured; usually nothing."""
        if cost != "question.seconds":
            return ""
        if self.timed:
            return (
                f"measured one question at a time, stores off, over {len(self.seconds)} questions"
            )
        return "measured while other questions ran: no response time (stage=timing measures one)"

    def _total(self, wanted: Cost) -> float | Missing:
        if not self.questions:
            return Missing("the run has no question")
        if wanted.phase in ("build", "all") and not self.builds:
            return Missing("no memory was built")
        if wanted.phase == "judge" and not self.judged:
            return Missing("not judged")
        if wanted.role:
            return self._of_calls(wanted)
        if wanted.phase == "build":
            return self.build_seconds if wanted.what == "seconds" else float(self.units)
        values: Sequence[float] = getattr(self, wanted.what)
        if not values:
            return Missing("no question was answered")
        return self.questions * sum(values) / len(values)  # the answered ones stand for all

    def _of_calls(self, wanted: Cost) -> float | Missing:
        source = self.distinct if wanted.what.startswith(DISTINCT) else self.calls
        what = wanted.what.removeprefix(DISTINCT)
        total = 0.0
        for place in self.calls:
            phase, role, model = place
            if wanted.phase not in ("all", phase) or wanted.role not in ("all", role):
                continue
            if place not in source:
                return Missing("its calls do not say which stored reply they got")
            sums = source[place]
            if what != "usd":
                total += getattr(sums, what)
                continue
            usd = self.prices.usd(model, sums.prompt_tokens, sums.completion_tokens)
            if usd is None:
                return Missing(f"no price for {model}")
            total += usd
        return total


def run_costs(folder: Path, prices: PriceList) -> RunCosts:
    """Return what the run in `folder` cost; raises `UserError` for files that cannot be read."""
    run = RunFolder(folder)
    return costs_of(run.records, run.builds, run.judgements, timing_of(folder), prices)


def timing_of(folder: Path) -> list[Record]:
    """Return the questions that `stage=timing` asked alone; none where it did not run."""
    return read_records(folder / "timing.jsonl")


def costs_of(
    records: Sequence[Record],
    builds: Sequence[Record],
    judgements: Sequence[Record],
    timing: Sequence[Record],
    prices: PriceList,
) -> RunCosts:
    """Sum the costs of some records with the builds and judgements that belong to them."""
    entries = (*builds, *records, *judgements)
    calls = [call for entry in entries for call in entry["calls"]]
    different = {(_place(call), call["reply"]): call for call in calls if call.get("reply")}
    unnamed = {_place(call) for call in calls if not call.get("reply")}
    distinct = _summed(different.values())
    timed = [record["seconds"] for record in timing if not record["error"]]
    answered = [record for record in records if not record["error"]]
    return RunCosts(
        questions=len(records),
        failed=len(records) - len(answered),
        conversations=len({record["conversation"] for record in records}),
        units=sum(build["units"] for build in builds),
        builds=len(builds),
        judged=bool(judgements),
        build_seconds=sum(build["seconds"] for build in builds),
        seconds=timed or [record["seconds"] for record in answered],
        timed=bool(timed),
        context_tokens=[record["context_tokens"] for record in answered],
        rounds=[record["rounds"] for record in answered],
        calls=_summed(calls),
        distinct={place: sums for place, sums in distinct.items() if place not in unnamed},
        prices=prices,
    )


def _place(call: Mapping[str, Any]) -> Place:
    return call["phase"], call["role"], call["model"]


def _summed(calls: Iterable[Mapping[str, Any]]) -> dict[Place, Calls]:
    sums: dict[Place, Calls] = {}
    for call in calls:
        place = _place(call)
        sums[place] = sums.get(place, Calls()).plus(call)
    return sums


def _share(per: str) -> str:
    return "the whole run" if per == "run" else f"per {per}"


def _nearest(text: str, known: Iterable[str]) -> str:
    found = suggest(text, known)
    return found if found.startswith(" Did") else ""
