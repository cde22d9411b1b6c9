"""wandb, if a run asks for it: settings and scores of a finished run. Off by default."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from memsys.errors import UserError
from memsys.settings import Settings

if TYPE_CHECKING:
    from eval.run import Finished
    from eval.scoring import Scores


class Tracking(Settings):
    """Where a run's scores are sent; `disabled` never imports wandb."""

    mode: Literal["disabled", "offline", "online"] = "disabled"
    project: str = "memsys"
    entity: str | None = None

    def check(self) -> None:
        """Raise `UserError` if wandb is asked for and missing."""
        if self.mode == "disabled":
            return
        try:
            import wandb  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"wandb.mode={self.mode} needs its package: pip install wandb (or disable it)."
            ) from error

    def log(self, finished: Finished, scores: Scores) -> None:
        """Send one finished run: its configuration, means and costs."""
        if self.mode == "disabled":
            return
        import wandb

        os.environ.setdefault("WANDB_SILENT", "true")
        spec = finished.spec
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            dir=str(spec.results),
            name=f"{spec.dataset_name}-{spec.method_name}-{spec.fingerprint}",
            config=spec.config.without_paths(),
        )
        run.log(_numbers(finished, scores))
        run.finish()


def _numbers(finished: Finished, scores: Scores) -> dict[str, Any]:
    means = {f"score/{name}": found.mean for name, found in scores.whole.items()}
    return {
        **{name: mean for name, mean in means.items() if mean is not None},
        "questions": len(finished.records),
        "failed": finished.failed,
        "calls/made": finished.paid_calls,
        "calls/stored": finished.stored_calls,
        "seconds": finished.seconds,
    }
