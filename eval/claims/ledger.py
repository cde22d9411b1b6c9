"""Judging a whole ledger: fetch every run that it names, then every claim by its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from eval.claims.checks import judge
from eval.claims.comparing import Desk
from eval.claims.evidence import NO_RUN, Shelf, Wanted, want
from eval.claims.outcome import Outcome, Verdict, of_parts
from eval.claims.spec import Claim, Gain, Ledger
from eval.prices import PriceList


@dataclass(frozen=True)
class Judged:
    """One claim with the outcomes of its parts."""

    claim: Claim
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> Verdict:
        """Holds if every part does."""
        return of_parts(self.outcomes)

    @property
    def why(self) -> str:
        """The reasons of the outcomes that decide, each once."""
        deciding = [o for o in self.outcomes if o.verdict == self.verdict and o.why]
        return "; ".join(_merged(reason for o in deciding for reason in o.why.split("; ")))

    @property
    def here(self) -> Verdict:
        """What the verdict would be if this setting were the paper's."""
        return of_parts([replace(o, verdict=o.here or o.verdict) for o in self.outcomes])

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs behind it."""
        return tuple(dict.fromkeys(run for o in self.outcomes for run in o.runs))


def _merged(reasons: Iterable[str]) -> list[str]:
    """Return reasons, each once; rows without a run for one reason are one reason."""
    rows: dict[str, list[str]] = {}
    found: dict[str, None] = {}
    for reason in dict.fromkeys(reasons):
        row, _, cause = reason.removeprefix(NO_RUN).partition(": ")
        if reason.startswith(NO_RUN):
            rows.setdefault(cause, []).append(row)
        else:
            found[reason] = None
    return [*(f"{NO_RUN}{', '.join(of)}: {cause}" for cause, of in rows.items()), *found]


@dataclass(frozen=True)
class JudgedLedger:
    """A ledger judged in one profile."""

    ledger: Ledger
    profile: str
    claims: tuple[Judged, ...]

    def counts(self) -> Counter[Verdict]:
        """Return how many claims have each verdict."""
        return Counter(claim.verdict for claim in self.claims)


async def judged(ledger: Ledger, shelf: Shelf, prices: PriceList) -> JudgedLedger:
    """Judge every claim of a ledger."""
    await shelf.fetch(wanted(ledger))
    desk = Desk(shelf, prices)
    found = []
    for claim in ledger.claims:
        outcomes = [outcome for part in claim.parts for outcome in judge(part, desk)]
        found.append(Judged(claim, tuple(outcomes)))
    return JudgedLedger(ledger, shelf.profile, tuple(found))


def wanted(ledger: Ledger) -> list[Wanted]:
    """Return every row that the ledger's claims read, each once."""
    found: dict[Wanted, None] = {}
    for claim in ledger.claims:
        for part in claim.parts:
            mains = part.mean_over if isinstance(part, Gain) and part.mean_over else (None,)
            for main in mains:
                found |= dict.fromkeys(want(part, ref, main) for ref in part.rows())
    return list(found)
