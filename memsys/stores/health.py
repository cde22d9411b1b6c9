"""What a check of everything in a store found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Health:
    """Good rows, damaged rows, and bytes of torn tails; a row is one stored thing."""

    rows: int = 0
    damaged: int = 0
    torn: int = 0

    def __add__(self, other: Health) -> Health:
        """Add two findings up."""
        return Health(self.rows + other.rows, self.damaged + other.damaged, self.torn + other.torn)
