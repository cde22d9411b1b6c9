"""The budget of a command: a call that could pass it is not made.

Before a call its upper cost is set aside (its prompt and the longest reply it may get), and
afterwards what it really cost is entered. Stored replies cost nothing and never come here. What
is counted is what the servers report. A try that was answered in vain (by another model, by half
a body, too late) counts as well, for the most it may have cost where the server does not say; the
next one needs leave again. A call that failed otherwise counts as its prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from pydantic import Field

from eval.prices import PriceList
from eval.stopping import Brake, command
from memsys.errors import EndpointRefused, MemsysError
from memsys.llm import tries
from memsys.llm.chat import Backend, Message, Reply, Request, Usage
from memsys.settings import Settings

BUDGET_REACHED = 4
"""Exit status of a command that stopped at its budget."""


_LANDING = 2.0  # seconds that other calls are given when an endpoint refuses


class BudgetError(MemsysError):
    """A budget that cannot be kept; unlike other input errors it ends a table, not a row of it."""

    exit_status = 2


class Budget(Settings):
    """The most that one command may spend, over all of its runs; `null`: no limit.

    Never part of a fingerprint: it changes how much is done, not what comes out.
    """

    usd: float | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    calls: int | None = Field(default=None, ge=0)

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits that are set."""
        return {name: value for name, value in self.plain().items() if value is not None}

    def split(self, jobs: int) -> Budget:
        """Return the share of one of `jobs` jobs that run apart and cannot see each other."""
        return Budget(
            usd=None if self.usd is None else self.usd / jobs,
            tokens=None if self.tokens is None else self.tokens // jobs,
            calls=None if self.calls is None else self.calls // jobs,
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """Calls, tokens in and out together, and dollars."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        """Add what two things cost."""
        return Spent(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Spent) -> Spent:
        """Take a cost off again."""
        return Spent(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)

    def over(self, budget: Budget) -> str | None:
        """Return which limit this passes (`calls=10`), or `None`."""
        for name, limit in budget.limits.items():
            if getattr(self, name) > limit:
                return f"{name}={limit:g}" if name == "usd" else f"{name}={limit}"
        return None


class Meter:
    """Counts what a command spends, and presses the brake before its budget is passed."""

    def __init__(self, brake: Brake) -> None:
        """Start at nothing spent, without a limit."""
        self.budget = Budget()
        self.prices = PriceList({})
        self.used = Spent()
        self._aside = Spent()
        self._unpriced = False
        self._brake = brake
        self._settled = asyncio.Event()

        brake.spent = self.said

    @property
    def limited(self) -> bool:
        """Whether anything is limited at all."""
        return bool(self.budget.limits)

    def cost(self, model: str, prompt: int, completion: int) -> Spent:
        """Return what one call costs; a model without a price costs nothing here."""
        usd = self.prices.usd(model, prompt, completion)
        self._unpriced |= usd is None
        return Spent(1, prompt + completion, usd or 0.0)

    def said(self) -> str:
        """Return what this command has spent, for people."""
        used = self.used
        money = "" if self._unpriced else f", ${used.usd:.4f}"
        return f"{used.calls:,} calls, {used.tokens:,} tokens{money}"

    async def set_aside(self, cost: Spent) -> None:
        """Set the upper cost of a call aside, or raise `Stopped` where it could pass the budget.

        Where calls in flight may turn out cheaper than what was set aside for them, waits for
        them first.
        """
        while True:
            await self._brake.clear()
            if (self.used + self._aside + cost).over(self.budget) is None:
                self._aside += cost
                return
            limit = (self.used + cost).over(self.budget)
            if limit is not None:
                self._press(limit)
                await self._brake.clear()
            await self._settled.wait()

    def settle(self, aside: Spent, cost: Spent) -> None:
        """Enter what a call really cost."""
        self._aside -= aside
        self.used += cost
        self._settled.set()
        self._settled = asyncio.Event()

    def _press(self, limit: str) -> None:
        name = limit.partition("=")[0]
        larger = f"budget.{name}={2 * self.budget.limits[name] or 100}"
        self._brake.press(
            f"The budget ends here: the next call could pass budget.{limit}.",
            "To go on from there, give the same command with a larger budget (what is stored "
            f"costs nothing again), such as: {command(larger)}",
            BUDGET_REACHED,
        )


class MeteredBackend:
    """A chat model whose fresh calls pass the brake and the meter; otherwise the model itself."""

    def __init__(self, backend: Backend, brake: Brake, meter: Meter) -> None:
        """Stand in for `backend`."""
        self._backend = backend
        self._brake = brake
        self._meter = meter
        self._longer = 1.0  # how much longer prompts were than counted, where counts are estimates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @property
    def name(self) -> str:
        """The model's id."""
        return self._backend.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's own: a budget changes no reply."""
        return self._backend.identity

    @property
    def context_window(self) -> int:
        """Tokens of prompt and completion together."""
        return self._backend.context_window

    @property
    def enforces_schema(self) -> bool:
        """Whether replies are valid by construction."""
        return self._backend.enforces_schema

    @property
    def max_completion_tokens(self) -> int | None:
        """The most tokens a completion may have here."""
        return self._backend.max_completion_tokens

    @property
    def concurrency(self) -> int:
        """How many calls may usefully be in flight at once."""
        return self._backend.concurrency

    async def complete(self, request: Request) -> Reply:
        """Answer one request, unless the command is to stop (`Stopped`)."""
        await self._brake.clear()
        try:
            return await self._complete(request)
        except EndpointRefused:
            # the command ends with this, and what is still on its way is paid for
            await self._brake.landed(_LANDING)
            raise

    async def _complete(self, request: Request) -> Reply:
        call = _Call(self, request, self._meter, self._brake)
        if self._meter.limited:
            await call.set_aside()
        try:
            with self._brake.flight(), tries.heard_by(call):
                reply = await self._backend.complete(request)
        except EndpointRefused:
            call.failed(billed=False)
            raise
        except BaseException:
            call.failed()
            raise
        call.answered(reply.usage)
        return reply

    def most(self, request: Request, counted: int) -> Spent:
        """Return the most that one try of a request may cost, whose prompt has `counted` tokens."""
        prompt = int(counted * self._longer) + 1
        thinking = int(self._backend.identity.get("thinking_tokens") or 0)
        return self._meter.cost(self.name, prompt, request.max_tokens + thinking)

    def took(self, counted: int, prompt: int) -> None:
        """Learn that a prompt had `prompt` tokens where `counted` had been counted."""
        self._longer = max(self._longer, prompt / max(counted, 1))

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return self._backend.count_tokens(text)

    def message_tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have as a prompt."""
        return self._backend.message_tokens(messages)

    async def check(self) -> None:
        """Preflight of the model."""
        await self._backend.check()

    async def close(self) -> None:
        """Release what the model holds."""
        await self._backend.close()


class _Call:
    """One call's account with the meter, over all its tries."""

    def __init__(
        self, backend: MeteredBackend, request: Request, meter: Meter, brake: Brake
    ) -> None:
        self._backend, self._request = backend, request
        self._meter, self._brake = meter, brake
        self._aside = Spent()
        self._lost = False

    @cached_property
    def _counted(self) -> int:
        return self._backend.message_tokens(self._request.messages)

    async def set_aside(self) -> None:
        """Set the most of the next try aside."""
        most = self._backend.most(self._request, self._counted)
        await self._meter.set_aside(most)
        self._aside = most

    def lost(self, usage: Usage | None) -> None:
        """Enter a try that was answered in vain."""
        self._lost = True
        if usage is None:
            self._settle(self._backend.most(self._request, self._counted))
        else:
            self._settle(self._cost(usage))

    async def again(self) -> None:
        """Wait until the budget allows another try; raises `Stopped`."""
        with self._brake.ashore():
            if self._meter.limited:
                await self.set_aside()
            else:
                await self._brake.clear()

    def answered(self, usage: Usage) -> None:
        """Enter the reply."""
        if self._meter.limited:
            self._backend.took(self._counted, usage.prompt_tokens)
        self._settle(self._cost(usage))

    def failed(self, *, billed: bool = True) -> None:
        """Enter a failure: as its prompt, unless what it cost is entered already."""
        billed = billed and not self._lost
        self._settle(self._cost(Usage(self._counted, 0)) if billed else Spent())

    def _cost(self, usage: Usage) -> Spent:
        return self._meter.cost(self._backend.name, usage.prompt_tokens, usage.completion_tokens)

    def _settle(self, cost: Spent) -> None:
        aside, self._aside = self._aside, Spent()
        self._meter.settle(aside, cost)


def check_prices(budget: Budget, models: Sequence[str], prices: PriceList, folder: Path) -> None:
    """Raise `BudgetError` if money is limited and a model has no price."""
    missing = sorted({model for model in models if prices.of(model) is None})
    if budget.usd is not None and missing:
        raise BudgetError(
            f"budget.usd={budget.usd:g} cannot be kept: no price for {', '.join(missing)}. Enter "
            f"it in {folder.name}/prices.local.yaml (the form is that of {folder.name}/prices.yaml;"
            " 0 for a model of your own), or limit budget.tokens instead."
        )


def sweep_size(overrides: Sequence[str]) -> int:
    """Return how many jobs a sweep over these overrides has."""
    jobs = 1
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        if override.is_sweep_override():
            jobs *= sum(1 for _ in override.sweep_string_iterator())
    return jobs
