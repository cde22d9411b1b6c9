"""Download benchmarks: python scripts/fetch.py locomo gvd longmemeval-s [--release cleaned].

Files come from the official sources in datasets/*/source.yaml, are verified, and land in
datasets/<name>/data (or --to DIR). What $MEMSYS_DATA already holds is used in place. Without a
network the command says what to download by hand and where to put it, and leaves with status 2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from memsys.datasets.download import NoNetwork, download
from memsys.datasets.files import locate, search_folders, verified
from memsys.datasets.manifest import FileSource, Source, load_source, source_names
from memsys.errors import UserError, suggest

console = Console(stderr=True, highlight=False, soft_wrap=True)


def wanted(target: str, release: str | None) -> tuple[Source, list[FileSource]]:
    """Return the files that a name stands for: a benchmark, or one file of it (longmemeval-s)."""
    names: dict[str, tuple[Source, list[FileSource]]] = {}
    for name in source_names():
        source = load_source(name)
        chosen = source.releases.get(release or "") or next(iter(source.releases.values()))
        names[_plain(name)] = source, list(chosen.files)
        for file in chosen.files:
            names[f"{_plain(name)}-{_plain(file.key)}"] = source, [file]
        for key, extra in source.extras.items():
            names[f"{_plain(name)}-{_plain(key)}"] = source, [extra]
    if _plain(target) not in names:
        raise UserError(f"no benchmark is called '{target}'.{suggest(_plain(target), names)}")
    return names[_plain(target)]


def fetch(source: Source, file: FileSource, folder: Path) -> bool:
    """Bring one file, unless it is here already; False where the source cannot be reached."""
    if place := locate(file, [folder, *search_folders(source)]):
        verified(place, file, source)
        state = "verified" if file.sha256 else "of unpublished checksum"
        console.print(f"  {file.path}: already at {place} ({state}), used in place")
        return True
    columns = (TextColumn("  {task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console) as bars:
        task = bars.add_task(file.path, total=file.size)
        try:
            download(
                file,
                folder / file.path,
                lambda done, total: bars.update(task, completed=done, total=total),
            )
        except NoNetwork as error:
            bars.remove_task(task)
            console.print(f"  {file.path}: {error}")
            return False
    console.print(f"  {file.path}: saved in {folder}")
    return True


def by_hand(source: Source, file: FileSource, folder: Path) -> str:
    """Return what a person without a network here has to do."""
    size = f"{file.size:,} bytes" if file.size else "size not published"
    digest = f", sha256 {file.sha256}" if file.sha256 else ""
    return f"  {file.origin}\n    -> {folder / file.path} ({size}{digest})"


def main(arguments: list[str] | None = None) -> int:
    """Fetch what is asked for; 0 if everything is here, 2 if something is to be done by hand."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", help="locomo, locomo-audit, gvd, longmemeval-s, …")
    parser.add_argument("--release", help="cleaned (LongMemEval) or rebuilt (Long-MT-Bench+)")
    parser.add_argument("--to", type=Path, help="put the files in DIR/<benchmark> instead")
    options = parser.parse_args(arguments)
    jobs = [wanted(name, options.release) for name in options.names]
    known = {name for source, _ in jobs for name in source.releases}
    if options.release is not None and options.release not in known:
        raise UserError(f"no release '{options.release}'.{suggest(options.release, known)}")
    left: list[str] = []
    for source, files in jobs:
        folder = options.to / source.name if options.to else source.folder / "data"
        console.print(f"[bold]{source.title}[/bold]: {source.licence}. {source.licence_note}")
        for file in files:
            if not fetch(source, file, folder):
                left.append(by_hand(source, file, folder))
    if left:
        print("Download by hand, in a browser or on another machine:", *left, sep="\n")
        return 2
    return 0


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


if __name__ == "__main__":
    from memsys.cli import guarded

    guarded(lambda: main(sys.argv[1:]))
