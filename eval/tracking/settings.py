"""The settings of `wandb.*`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Literal

from memsys.errors import UserError
from memsys.settings import Settings


class Tracking(Settings):
    """Where a command is followed; `disabled` never imports wandb.

    `records=true` sends questions, references and answers too. Benchmarks have licences that
    may forbid it: LoCoMo's does not allow commercial use, and asks for attribution.
    """

    mode: Literal["disabled", "offline", "online"] = "disabled"
    project: str = "memsys"
    entity: str | None = None
    records: bool = False

    @property
    def on(self) -> bool:
        """Whether anything is to be sent."""
        return self.mode != "disabled"

    def check(self) -> None:
        """Raise `UserError` if wandb is asked for and missing; wandb itself is not loaded."""
        if self.on and importlib.util.find_spec("wandb") is None:
            raise UserError(
                f"wandb.mode={self.mode} needs its package: pip install wandb (or disable it)."
            )


def split_settings(settings: Sequence[str]) -> tuple[Tracking, list[str]]:
    """Part the `wandb.*` settings of a command from those of its runs.

    A command over many runs is followed as one: its runs are told not to be. Raises `UserError`
    for an unknown setting, or if wandb is asked for and missing.
    """
    from eval.config import compose
    from eval.typed import validated

    own = [setting for setting in settings if setting.lstrip("+").startswith("wandb.")]
    rest = [setting for setting in settings if setting not in own]
    tracking = validated(Tracking, compose(own).values["wandb"], "wandb")
    tracking.check()
    return tracking, [*rest, "wandb.mode=disabled"] if tracking.on else rest
