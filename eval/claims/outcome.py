"""Verdicts: direction first, value second, and none where the data cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from eval.claims.contrast import Contrast

Verdict = Literal["holds", "does not hold", "cannot be judged here"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
UNKNOWN: Verdict = "cannot be judged here"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one comparison of a claim came to.

    `ours` is printed with its interval; `value` says, after the direction, how the published
    value stands to the interval. `why` explains a verdict that does not speak for itself.
    `here` is what the verdict would be if this setting were the paper's.
    """

    what: str
    ours: str
    verdict: Verdict
    published: str = ""
    value: str = ""
    why: str = ""
    runs: tuple[str, ...] = ()
    here: Verdict | None = None


def nothing(what: str, why: str, published: str = "", runs: Sequence[str] = ()) -> Outcome:
    """Return the outcome of a comparison without a number."""
    return Outcome(what, "", UNKNOWN, published, why=why, runs=tuple(runs))


def direction(found: Contrast) -> tuple[Verdict, str]:
    """Judge whether a contrast is above zero: its interval must exclude zero."""
    if found.low is None or found.high is None:
        return UNKNOWN, f"no interval ({found.method})"
    if found.low > 0:
        return HOLDS, ""
    if found.high < 0:
        return FAILS, "the interval lies on the other side of zero"
    why = "the interval includes zero"
    if found.detectable is not None:
        why += f": a difference below {found.detectable:.2f} would go unseen"
    return UNKNOWN, why


def within(found: Contrast, margin: float) -> tuple[Verdict, str]:
    """Judge whether a contrast is within ±`margin`: the whole interval must lie there."""
    if found.low is None or found.high is None:
        return UNKNOWN, f"no interval ({found.method})"
    if -margin <= found.low and found.high <= margin:
        return HOLDS, ""
    if found.low > margin or found.high < -margin:
        return FAILS, f"the whole interval is more than {margin:g} away from zero"
    return UNKNOWN, f"the interval reaches beyond ±{margin:g}: too few questions to tell"


def not_below(found: Contrast, margin: float) -> tuple[Verdict, str]:
    """Judge whether a contrast is at least −`margin`."""
    if found.low is None or found.high is None:
        return UNKNOWN, f"no interval ({found.method})"
    if found.low >= -margin:
        return HOLDS, ""
    if found.high < -margin:
        return FAILS, f"the whole interval is below −{margin:g}"
    return UNKNOWN, f"the interval reaches below −{margin:g}: too few questions to tell"


def against(found: Contrast, published: float) -> str:
    """Say how a published value stands to our interval."""
    if found.low is None or found.high is None:
        return ""
    inside = found.low <= published <= found.high
    return "published value inside ours" if inside else "published value outside ours"


def printed(found: Contrast, unit: str = "", sign: bool = True) -> str:
    """Return a contrast with its interval: `+3.20 % (1.10 to 5.30; n = 1540)`."""
    form = "+.2f" if sign else ".2f"
    text = f"{found.value:{form}}{unit}"
    if found.low is None or found.high is None:
        return f"{text} (n = {found.n})"
    return f"{text} ({found.low:{form}} to {found.high:{form}}; n = {found.n})"


def of_parts(outcomes: Sequence[Outcome]) -> Verdict:
    """Return a claim's verdict: every part must hold, and one that fails is enough to fail."""
    verdicts = {outcome.verdict for outcome in outcomes}
    if FAILS in verdicts:
        return FAILS
    return UNKNOWN if UNKNOWN in verdicts or not verdicts else HOLDS
