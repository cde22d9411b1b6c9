"""Arithmetic on printed numbers: what a rounded value stands for, exactly.

Everything is done with `Fraction`s: a test whether 41.07 can be k/1986 must not itself round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as printed: its exact value and how many digits stand after the point."""

    text: str
    value: Fraction
    digits: int

    @classmethod
    def of(cls, text: str) -> Printed | None:
        """Read a printed number; `None` for anything else (`yes`, a date, an empty cell)."""
        try:
            value = Fraction(text)
        except (ValueError, ZeroDivisionError):
            return None
        return cls(text, value, len(text.partition(".")[2]))

    @property
    def unit(self) -> Fraction:
        """One in the last printed place."""
        return Fraction(1, 10**self.digits)

    @property
    def low(self) -> Fraction:
        """The least number that is printed so."""
        return self.value - self.unit / 2

    @property
    def high(self) -> Fraction:
        """The greatest number that is printed so (both ends count: halves round either way)."""
        return self.value + self.unit / 2

    def fits(self, value: Fraction) -> bool:
        """Whether `value`, rounded to as many digits, is what was printed."""
        return self.low <= value <= self.high


def shown(value: Fraction | float, digits: int = 2) -> str:
    """Return a number with this many digits, halves rounded up, with thousands separators."""
    exact = Fraction(value)
    scaled = math.floor(abs(exact) * 10**digits + Fraction(1, 2))
    whole, rest = divmod(scaled, 10**digits)
    sign = "-" if exact < 0 and scaled else ""
    return f"{sign}{whole:,}" + (f".{rest:0{digits}d}" if digits else "")


def count_behind(printed: Printed, n: int, scale: int = 100) -> int | None:
    """Return the k for which `scale`·k/n is printed so (the nearest of several), or `None`."""
    k = math.floor(printed.value * n / scale + Fraction(1, 2))
    return k if 0 <= k <= n and printed.fits(Fraction(scale * k, n)) else None


def neighbours(printed: Printed, n: int, scale: int = 100) -> tuple[str, str]:
    """Return the nearest possible values below and above, printed with the same digits."""
    below = math.floor(printed.value * n / scale)
    low, high = (Fraction(scale * k, n) for k in (below, below + 1))
    return shown(low, printed.digits), shown(high, printed.digits)


def can_tell(printed: Printed, n: int, scale: int = 100) -> bool:
    """Whether k/n leaves gaps at this many digits: if not, every value is possible."""
    return Fraction(scale, n) > printed.unit


def denominators(printed: Printed, most: int, scale: int = 100) -> list[int]:
    """Return every n up to `most` that leaves gaps and of which the value can be a fraction."""
    return [
        n
        for n in range(1, most + 1)
        if can_tell(printed, n, scale) and count_behind(printed, n, scale) is not None
    ]


def quotient_range(above: Printed, below: Printed, scale: int = 100) -> tuple[Fraction, Fraction]:
    """Return the least and greatest `scale`·a/b that two printed positive numbers allow."""
    return scale * above.low / below.high, scale * above.high / below.low
