"""The base of every typed setting: frozen, validated, and strict about names."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Settings of one part of the program, read from one Hydra config.

    Unknown keys and values of a wrong type are errors. Defaults are the paper's values,
    each with its source in a comment beside it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain JSON values under their config names."""
        return self.model_dump(mode="json", by_alias=True)
