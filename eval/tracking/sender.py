"""The thread that talks to wandb, so that no run ever waits for it.

wandb may be slow, unreachable or broken: the thread then says so once and takes nothing more.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.tracking.scrub import Scrub
from eval.tracking.settings import Tracking

_EVERY = 10.0  # seconds between two entries of live progress
_PATIENCE = 60.0  # seconds that a command's end waits for what is still to be sent
_IMPATIENCE = 10.0  # the same, where the command was interrupted or failed

Parcel = Callable[[Any], None]
"""What is done with wandb's run, on the sender's thread."""


@dataclass(frozen=True)
class About:
    """What a run is called at wandb, and where its files are kept."""

    folder: Path
    name: str
    group: str
    kind: str
    tags: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


class Sender:
    """One run at wandb: opened, fed and closed by a thread of its own."""

    def __init__(
        self,
        tracking: Tracking,
        about: About,
        scrub: Scrub,
        progress: Callable[[], Mapping[str, float]],
        warn: Callable[[str], None],
    ) -> None:
        """Start the thread; `progress` is read there every few seconds, `warn` shows one line."""
        self._tracking, self._about, self._scrub = tracking, about, scrub
        self._progress, self._warn = progress, warn
        self._parcels: queue.SimpleQueue[Parcel | int] = queue.SimpleQueue()
        self._warned = False
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()

    def send(self, parcel: Parcel) -> None:
        """Leave something to be sent; returns at once."""
        self._parcels.put(parcel)

    def close(self, status: int = 0) -> None:
        """End the run with an exit status, and wait a while for what is still to be sent."""
        self._parcels.put(status)
        patience = min(_PATIENCE, _IMPATIENCE) if status else _PATIENCE
        self._thread.join(patience)
        if self._thread.is_alive():
            # wandb itself would wait for its program when Python exits, with no end in sight
            atexit.register(_end_program)
            self._say(
                f"it has not taken everything within {patience:.0f} s; "
                f"wandb sync {self._about.folder / 'wandb'}/*run-* sends what it has"
            )

    def _work(self) -> None:
        run = None
        try:
            run = opened(self._tracking, self._about, self._scrub)
            self._feed(run)
        except (Exception, SystemExit) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self._say(lines[0])
            if run is not None:
                self._give_up(run)

    def _feed(self, run: Any) -> None:
        run.log(dict(self._progress()))
        while True:
            try:
                parcel = self._parcels.get(timeout=_EVERY)
            except queue.Empty:
                run.log(dict(self._progress()))
                continue
            if isinstance(parcel, int):
                run.log(dict(self._progress()))
                run.finish(exit_code=parcel)
                return
            parcel(run)

    def _give_up(self, run: Any) -> None:
        try:
            run.finish(exit_code=1)
        except (Exception, SystemExit):
            return  # it has been told that wandb fails

    def _say(self, what: str) -> None:
        if self._warned:
            return
        self._warned = True
        shown = self._scrub.text(what)[:300].rstrip(".")
        self._warn(f"warning: wandb: {shown}. The results are complete without it.")


def opened(tracking: Tracking, about: About, scrub: Scrub) -> Any:
    """Open a run at wandb that holds what we send and nothing of its own accord.

    wandb would add the command line, the machine, its user, the checkout's remote, the terminal's
    text and the source: all that is switched off. Everything it keeps lies in `about.folder`.
    """
    place = about.folder / "wandb"
    place.mkdir(parents=True, exist_ok=True)
    own = {"DATA_DIR": str(place / "data"), "CACHE_DIR": str(place / "cache"), "SILENT": "true"}
    for name, value in own.items():  # these it takes from the environment alone
        os.environ.setdefault(f"WANDB_{name}", value)
    import wandb

    if tracking.mode == "online":
        _logged_in(wandb)
    settings = wandb.Settings(
        mode=tracking.mode,
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        save_code=False,
        host="",
        program="",
        username="",
        email="",
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    return wandb.init(
        project=tracking.project,
        entity=tracking.entity,
        dir=str(about.folder),
        name=scrub.text(about.name),
        group=scrub.text(about.group)[:128],
        job_type=about.kind,
        tags=[scrub.text(tag)[:64] for tag in about.tags],
        config=scrub.plain(about.config),
        settings=settings,
        reinit="create_new",  # a sweep has several at a time
    )


def _end_program() -> None:
    """End the program that wandb runs beside this one, and its own waiting for it at exit.

    wandb has no public call for that; where its insides have changed nothing is done.
    """
    from wandb.sdk import wandb_setup

    connection = getattr(getattr(wandb_setup, "_singleton", None), "_connection", None)
    process = getattr(getattr(connection, "_proc", None), "_process", None)
    forget = getattr(connection, "_cleanup", None)
    if process is None or forget is None:
        return
    forget()
    process.kill()


def _logged_in(wandb: Any) -> None:
    """Raise where nobody is logged in: wandb would ask for a key in the middle of a run."""
    if not wandb.login(prompt=False):
        raise RuntimeError("nobody is logged in (wandb login, or wandb.mode=offline)")
