"""The wording of the prompts that calls name: templates found by their id and hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from eval.config import ROOT
from eval.report.reading import LoadedRun
from memsys.llm.prompts import Prompt

_ROOMS = ("memsys", "baselines", "eval")


def prompt_texts(runs: Sequence[LoadedRun]) -> dict[str, str]:
    """Return the template of each `folder/name@hash` that a run's calls name, each text once.

    A template that has changed since, or lies nowhere here, is left out: its hash has no text.
    """
    named = {
        str(call["prompt"])
        for run in runs
        for entry in (*run.builds, *run.records, *run.judgements)
        for call in entry["calls"]
    }
    found = {f"{prompt.id}@{prompt.hash}": prompt.text for prompt in _here(_own_folders(runs))}
    return {name: found[name] for name in sorted(named & found.keys())}


def _here(own: Iterable[Path]) -> Iterator[Prompt]:
    """Yield all templates of this checkout, and those of users' own folders."""
    for room in _ROOMS:
        for path in (ROOT / room).rglob("prompts/*.txt"):
            yield _prompt(path, path.parent.parent.name)
    for folder in own:
        for path in folder.glob("*/*.txt"):
            yield _prompt(path, path.parent.name)


def _prompt(path: Path, folder: str) -> Prompt:
    return Prompt(f"{folder}/{path.stem}", path.read_text(encoding="utf-8", errors="replace"))


def _own_folders(runs: Sequence[LoadedRun]) -> list[Path]:
    named = {(run.manifest["configuration"].get("prompts") or {}).get("dir") for run in runs}
    return [folder for name in sorted(n for n in named if n) if (folder := Path(name)).is_dir()]
