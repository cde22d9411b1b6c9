"""A command while it is followed: opened before its work, closed after it, whatever happens."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from eval.progress import Board
from eval.tracking.content import Rows, files, numbers, tables
from eval.tracking.scrub import Scrub, key_names
from eval.tracking.sender import About, Sender
from eval.tracking.settings import Tracking

if TYPE_CHECKING:
    from eval.run import Finished
    from eval.spec import RunSpec


class Following:
    """What a command tells while it goes on; without a sender nothing is told.

    A context manager, for commands, and an asynchronous one, for the event loop: its end waits
    (a minute at most) for what is still to be sent, the latter without holding up other work.
    """

    def __init__(self, tracking: Tracking, sender: Sender | None, scrub: Scrub) -> None:
        """Tell through `sender`."""
        self._tracking, self._sender, self._scrub = tracking, sender, scrub

    def run(self, finished: Finished) -> None:
        """Tell of a run that is finished and scored."""
        texts, scrub = self._tracking.records, self._scrub

        def parcel(run: Any) -> None:
            from eval.runfolder import RunFolder

            folder = RunFolder(finished.spec.folder)  # read anew, on the sender's thread
            run.log({name: _table(rows, scrub) for name, rows in _named(finished, folder, texts)})
            run.summary.update(numbers(finished, folder))
            held = [
                (name, scrub.text(text).encode())
                for name, text in files(finished, folder, texts=texts)
            ]
            run.log_artifact(_artefact(f"run-{finished.spec.fingerprint}", "run", held))

        self._send(parcel)

    def table(self, name: str, profile: str, results: Path) -> None:
        """Tell of a filled table: its cells, its files, and the figures drawn from its runs."""
        stem, folder, figures = f"{name}-{profile}", results / "tables", results / "figures"

        def parcel(run: Any) -> None:
            cells = _read(folder / f"{stem}.csv")
            pictures = _drawn_from(cells, figures, profile)
            run.log({f"table/{name}": _table(cells, self._scrub)})
            self._files(run, f"table-{stem}", "table", folder, stem, (".md", ".csv", ".tex"))
            for picture in pictures:
                _show(run, picture)

        self._send(parcel)

    def figure(self, name: str, profile: str, folder: Path) -> None:
        """Tell of a drawn figure: its numbers, its files and its picture."""
        stem = f"{name}-{profile}"

        def parcel(run: Any) -> None:
            run.log({f"figure/{name}/numbers": _table(_read(folder / f"{stem}.csv"), self._scrub)})
            self._files(run, f"figure-{stem}", "figure", folder, stem, (".csv", ".svg", ".png"))
            if (folder / f"{stem}.png").is_file():
                _show(run, folder / f"{stem}.png")

        self._send(parcel)

    def _files(
        self, run: Any, name: str, kind: str, folder: Path, stem: str, endings: Iterable[str]
    ) -> None:
        held = []
        for path in (folder / f"{stem}{ending}" for ending in endings):
            if path.is_file():
                content = path.read_bytes()
                if path.suffix != ".png":
                    content = self._scrub.text(content.decode()).encode()
                held.append((path.name, content))
        run.log_artifact(_artefact(name, kind, held))

    def _send(self, parcel: Callable[[Any], None]) -> None:
        if self._sender is not None:
            self._sender.send(parcel)

    def close(self, status: int = 0) -> None:
        """Tell that the command has ended; waits a while for what is still to be sent."""
        if self._sender is not None:
            self._sender.close(status)

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close(0 if kind is None else 1)

    async def __aenter__(self) -> Following:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._sender is not None:
            await asyncio.to_thread(self.close, 0 if kind is None else 1)


def follow_run(spec: RunSpec, board: Board) -> Following:
    """Follow one run, if its settings ask for it."""
    if not spec.tracking.on:
        return Following(spec.tracking, None, Scrub(()))
    configuration = spec.config.without_paths()
    configuration.pop("wandb", None)
    about = About(
        folder=spec.results,
        name=f"{spec.dataset_name}-{spec.method_name}-{spec.fingerprint[:8]}",
        group=spec.fingerprint,  # the commands that carried one run out stand together
        kind=spec.stage,
        tags=(spec.dataset_name, spec.method_name, spec.protocol.name),
        config={
            "run": spec.fingerprint,
            "dataset_info": spec.dataset.info().plain(),
            "choices": dict(spec.config.choices),
            **configuration,
        },
    )
    return _following(spec.tracking, about, key_names(configuration), board)


def follow_command(
    tracking: Tracking, kind: str, names: Sequence[str], profile: str, settings: Sequence[str],
    results: Path, board: Board,
) -> Following:  # fmt: skip
    """Follow a command over many runs (`table`, `figure`) as one, if its settings ask for it."""
    if not tracking.on:
        return Following(tracking, None, Scrub(()))
    about = About(
        folder=results,
        name=f"{kind}-{'-'.join(names)}-{profile}"[:120],
        group=f"{kind}-{profile}",
        kind=kind,
        tags=(profile,),
        config={f"{kind}s": list(names), "profile": profile, "settings": list(settings)},
    )
    return _following(tracking, about, (), board)


def _following(tracking: Tracking, about: About, keys: Iterable[str], board: Board) -> Following:
    scrub = Scrub.of(keys)

    def progress() -> dict[str, float]:
        return {f"progress/{name}": value for name, value in board.numbers().items()}

    def warn(line: str) -> None:
        board.console.print(line, highlight=False, markup=False, soft_wrap=True)

    return Following(tracking, Sender(tracking, about, scrub, progress, warn), scrub)


def _named(finished: Finished, folder: Any, texts: bool) -> Iterable[tuple[str, Rows]]:
    return tables(finished, folder, texts=texts).items()


def _table(rows: Rows, scrub: Scrub) -> Any:
    import wandb

    data = [scrub.plain(row) for row in rows.rows]
    return wandb.Table(columns=list(rows.columns), data=data, allow_mixed_types=True)


def _artefact(name: str, kind: str, held: Sequence[tuple[str, bytes]]) -> Any:
    import wandb

    artefact = wandb.Artifact(name, type=kind)
    for file_name, content in held:
        with artefact.new_file(file_name, mode="wb") as file:
            file.write(content)
    return artefact


def _show(run: Any, picture: Path) -> None:
    import wandb

    run.log({f"figure/{picture.stem}": wandb.Image(str(picture), caption=picture.stem)})


def _read(path: Path) -> Rows:
    """Read one of our CSV files; a number becomes one, an empty field `None`."""
    lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    return Rows(tuple(lines[0]), tuple(tuple(map(_value, line)) for line in lines[1:]))


def _value(text: str) -> str | float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def _drawn_from(cells: Rows, figures: Path, profile: str) -> list[Path]:
    """Return the pictures whose every run is one of the table's: no picture of other data."""
    runs = _runs(cells)
    found = []
    for picture in sorted(figures.glob(f"*-{profile}.png")):
        table = picture.with_suffix(".csv")
        if table.is_file() and (drawn := _runs(_read(table))) and drawn <= runs:
            found.append(picture)
    return found


def _runs(rows: Rows) -> set[Any]:
    place = rows.columns.index("run")
    return {row[place] for row in rows.rows if row[place] is not None}
