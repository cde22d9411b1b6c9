"""From dry runs to a plan: calls, tokens, money and hours, each with a low and a high end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.config import ROOT, RunConfig
from eval.plan.dryrun import (
    Embedded,
    Extent,
    Outcome,
    PlannedSpec,
    PlanningResources,
    Sum,
    dry_run,
    extent,
    size_of,
)
from eval.plan.replies import LEANS, Lean, Manners
from eval.prices import PriceList
from eval.resources import Resources
from memsys.errors import UserError

SAMPLING = 0.1
"""How far a benchmark may lie from what some of its conversations tell; LoCoMo's differ by more
than that one by one, and by less two together."""


_EXACT = (0.0, 0.0)
"""Nothing added to a range, below and above."""


@dataclass(frozen=True, slots=True)
class Range:
    """An expected value between a low and a high one."""

    low: float
    expected: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], sampled: bool = False) -> Range:
        """Take the dry runs' values in the order of `LEANS`; the ends are the furthest of them.

        Where conversations were sampled, the ends lie `SAMPLING` further out.
        """
        wider = SAMPLING if sampled else 0.0
        low, high = min(values) * (1 - wider), max(values) * (1 + wider)
        return cls(low, values[LEANS.index("even")], high)

    def wider(self, below: float, above: float) -> Range:
        """Return the range with its ends further out by these shares."""
        return Range(self.low * (1 - below), self.expected, self.high * (1 + above))

    def plain(self, digits: int = 0) -> list[float]:
        """Return low, expected and high."""
        found = [round(v, digits) for v in (self.low, self.expected, self.high)]
        return found if digits else [int(v) for v in found]


@dataclass(frozen=True, slots=True)
class Limits:
    """A rate limit, per minute, of each model; `None`: as its config says, if it does."""

    requests: float | None = None
    tokens: float | None = None


@dataclass
class RunPlan:
    """What one run will take."""

    title: str
    overrides: Sequence[str]
    folder: str | None
    outcomes: Sequence[Outcome] = ()
    extent: Extent = field(default_factory=Extent)
    sampled_questions: bool = False
    rates: Mapping[str, Limits] = field(default_factory=dict)
    build_wider: tuple[float, float] = _EXACT
    recall_wider: tuple[float, float] = _EXACT
    problem: str | None = None

    @property
    def sampled(self) -> bool:
        """Whether only some conversations were dry-run."""
        return not self.extent.complete

    def places(self) -> list[tuple[str, str]]:
        """Return phases and roles, build first."""
        order = ("build", "question", "judge")
        found = {place for outcome in self.outcomes for place in outcome.places}
        return sorted(found, key=lambda p: (order.index(p[0]), p[1]))

    def of(self, place: tuple[str, str], what: str) -> Range:
        """Return one figure of a phase and role (`calls`, `fresh_in`, ...)."""
        found = [getattr(o.places.get(place, Sum()), what) for o in self.outcomes]
        # how many questions there are is known: only their tokens are scaled up
        known = what.endswith("calls") and place[0] != "build"
        planned = Range.of(found, self.sampled and not known)
        if place[0] == "build":
            return planned.wider(*self.build_wider)
        if place[0] == "question" and what.endswith("_in"):
            return planned.wider(*self.recall_wider)
        return planned

    def total(self, what: str) -> Range:
        """Return one figure over all phases and roles."""
        found = [self.of(place, what) for place in self.places()]
        return Range(
            sum(r.low for r in found), sum(r.expected for r in found), sum(r.high for r in found)
        )

    def model(self, place: tuple[str, str]) -> str:
        """Return the model of a phase and role."""
        return next(o.places[place].model for o in self.outcomes if place in o.places)

    def usd(self, prices: PriceList) -> Range | None:
        """Return what the fresh calls cost, or `None` if a model has no price."""
        totals = [0.0] * len(self.outcomes)
        for place in self.places():
            for i, outcome in enumerate(self.outcomes):
                found = outcome.places.get(place, Sum())
                usd = prices.usd(self.model(place), found.fresh_in, found.fresh_out)
                if usd is None:
                    return None
                totals[i] += usd
        planned = Range.of(totals or [0.0, 0.0, 0.0], self.sampled)
        return planned.wider(*self.build_wider).wider(*self.recall_wider)

    def embedded(self) -> Embedded:
        """Return what is to be embedded, in the expected case."""
        return self.outcomes[LEANS.index("even")].embedded if self.outcomes else Embedded()

    def plain(self, prices: PriceList) -> dict[str, Any]:
        """Return the plan as JSON values."""
        if self.problem is not None:
            return {"title": self.title, "overrides": list(self.overrides), "problem": self.problem}
        usd = self.usd(prices)
        embedded = self.embedded()
        return {
            "title": self.title,
            "overrides": list(self.overrides),
            "run": self.folder,
            "conversations": {"to_build": self.extent.to_build, "stored": self.extent.built,
                              "dry_run": len(self.extent.chosen)},
            "questions": {"to_ask": self.extent.questions, "done": self.extent.done,
                          "sampled": self.sampled_questions},
            "places": {
                "/".join(place): {
                    "model": self.model(place),
                    **{what: self.of(place, what).plain() for what in
                       ("calls", "tokens_in", "tokens_out", "fresh_calls", "fresh_in",
                        "fresh_out")},
                }
                for place in self.places()
            },
            "usd": None if usd is None else usd.plain(4),
            "embedding": {"texts": round(embedded.texts), "tokens": round(embedded.tokens),
                          "stored": round(embedded.stored)},
        }  # fmt: skip


class Planner:
    """Plans runs one after another; what one of them would store, the next ones find stored."""

    def __init__(
        self, real: Resources, manners: Manners, *, conversations: int, questions: int
    ) -> None:
        """Dry-run at most so many conversations of a run, and so many questions of each."""
        self.notes: set[str] = set()
        self._manners = manners
        self._conversations, self._questions = conversations, questions
        self._resources: dict[Lean, PlanningResources] = {
            lean: PlanningResources(real, manners, lean, self.notes) for lean in LEANS
        }

    async def plan(self, title: str, overrides: Sequence[str], config: RunConfig) -> RunPlan:
        """Plan one run; a run that cannot be planned says why."""
        plan = RunPlan(title, overrides, None)
        try:
            await self._fill(plan, config)
        except UserError as error:
            plan.problem = " ".join(str(error).split())
        return plan

    async def _fill(self, plan: RunPlan, config: RunConfig) -> None:
        outcomes: dict[Lean, Outcome] = {}
        embeds = own = False
        for lean in ("even", "yes", "no"):
            first = outcomes.get("even")
            if first is not None and not first.places:
                outcomes[lean] = first  # without a chat call nothing depends on replies
                continue
            resources = self._resources[lean]
            spec = PlannedSpec.of(config, resources, ROOT)
            assert isinstance(spec, PlannedSpec)
            if first is None:
                spec.dataset.info()
                plan.extent = extent(spec, self._conversations)
                plan.folder = _folder(spec)
                most = max((len(s.questions) for s in plan.extent.chosen), default=0)
                plan.sampled_questions = most > self._questions
                plan.rates = _rates(config)
            light = PlannedSpec.of(_lightened(config, self._manners.light), resources, ROOT)
            assert isinstance(light, PlannedSpec)
            asks = light.needs & {"main", "auxiliary"}  # else no call depends on a vector
            resources.own_vectors = bool(asks) and self._embeds(plan.extent)
            outcomes[lean] = await dry_run(spec, light, plan.extent, self._questions)
            embeds, own = "encoder" in light.needs, light.own_vectors
        plan.outcomes = [outcomes[lean] for lean in LEANS]
        if embeds:
            self._widen(plan, config, own=own)

    def _embeds(self, part: Extent) -> bool:
        """Whether a dry run is short enough to embed with the encoder itself."""
        vectors = self._manners.vectors
        return vectors is not None and sum(map(size_of, part.chosen)) <= 4 * vectors.most_tokens

    def _widen(self, plan: RunPlan, config: RunConfig, *, own: bool) -> None:
        vectors = self._manners.vectors
        if vectors is None:
            return
        builds = {tuple(c.calls for (phase, _), c in o.places.items() if phase == "build")
                  for o in plan.outcomes}  # fmt: skip
        # the vectors of what a model wrote are a guess, whoever makes them
        exact = own and not any(builds)
        plan.recall_wider = _EXACT if exact else vectors.own_recall if own else vectors.recall
        if _has(config, vectors.clustering) or len(builds) > 1:
            plan.build_wider = vectors.own_clusters if own else vectors.clusters


def _folder(spec: PlannedSpec) -> str | None:
    try:
        return str(spec.folder.relative_to(spec.results))
    except UserError:
        return None


def _rates(config: RunConfig) -> dict[str, Limits]:
    found = {}
    for llm in config.values["llm"].values():
        limits = Limits(llm.get("requests_per_minute"), llm.get("tokens_per_minute"))
        found[str(llm.get("model"))] = limits
    return found


def _has(config: RunConfig, setting: str) -> bool:
    section, _, name = setting.partition(".")
    return name in (config.values["method"].get(section) or {})


def _lightened(config: RunConfig, light: Mapping[str, Any]) -> RunConfig:
    """Return the configuration with the settings that need no model, where the method has them."""
    method: dict[str, Any] = {**config.values["method"]}
    for key, value in light.items():
        section, _, name = key.partition(".")
        if _has(config, key):
            method[section] = {**method[section], name: value}
    return RunConfig({**config.values, "method": method}, config.choices)


def hours(plans: Sequence[RunPlan], stated: Limits) -> Range | None:
    """Return the least hours that the fresh calls take at the rate limits, or `None` without any.

    Models have limits of their own and work at the same time: the slowest one counts.
    """
    by_model: dict[str, list[list[float]]] = {}
    limits: dict[str, Limits] = {}
    for plan in plans:
        for model, limit in plan.rates.items():
            limits[model] = Limits(stated.requests or limit.requests, stated.tokens or limit.tokens)
        for place in plan.places():
            sums = by_model.setdefault(plan.model(place), [[0.0, 0.0] for _ in LEANS])
            for i, outcome in enumerate(plan.outcomes):
                found = outcome.places.get(place, Sum())
                sums[i][0] += found.fresh_calls
                sums[i][1] += found.fresh_in + found.fresh_out
    slowest = [0.0] * len(LEANS)
    limited = False
    for model, sums in by_model.items():
        limit = limits.get(model, stated)
        for i, (calls, tokens) in enumerate(sums):
            for amount, rate in ((calls, limit.requests), (tokens, limit.tokens)):
                if rate:
                    limited = True
                    slowest[i] = max(slowest[i], amount / rate / 60)
    return Range.of(slowest, any(plan.sampled for plan in plans)) if limited else None


def path_name(title: str) -> str:
    """Return a title as the name of a file."""
    return "".join(c if c.isalnum() or c in "-_+." else "-" for c in title).strip("-")[:120]


def write_plan(plain: Mapping[str, Any], folder: Path, name: str) -> Path:
    """Write a plan as JSON; returns where."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{path_name(name)}.json"
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)
    return path
