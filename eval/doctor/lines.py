"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "missing"]


@dataclass(frozen=True, slots=True)
class Line:
    """What was looked at, how it is, and what mends it.

    `needed` marks what the embedded profile cannot do without.
    """

    area: str
    text: str
    status: Status
    mend: str = ""
    needed: bool = False
