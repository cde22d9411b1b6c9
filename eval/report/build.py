"""From folders of runs to the report's file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import memsys
from eval.config import CONFIGS
from eval.prices import PriceList
from eval.report.evidence import category_names
from eval.report.figures import read_figures
from eval.report.page import page
from eval.report.questions import Details, index_runs
from eval.report.reading import LoadedRun, find_runs, load_runs, settings_of
from eval.report.spending import failures, latency, spending
from eval.report.tables import read_tables
from eval.report.units import Memories
from eval.report.wording import prompt_texts
from eval.scoring import why_no_interval
from memsys.errors import UserError


@dataclass(frozen=True)
class Built:
    """What was written: the file, its size, and what is in it."""

    path: Path
    size: int
    runs: int
    questions: int
    left_out: Sequence[str]


def build_report(
    roots: Sequence[Path],
    out: Path,
    *,
    results: Path,
    stores: Sequence[Path] = (),
    text: bool = True,
) -> Built:
    """Write the report of every run below `roots`, with the tables and figures of `results`.

    `stores` are looked through for memories, `results/stores` and the runs' own first. Raises
    `UserError` where there is nothing to show or nowhere to write.
    """
    runs, left_out = load_runs(find_runs(roots))
    if not runs:
        raise UserError("No run has a record yet: " + "; ".join(left_out))
    prices = PriceList.read(CONFIGS)
    index, columns = index_runs(runs)
    overview = {
        "title": "memsys report",
        "version": memsys.__version__,
        "written": datetime.now(UTC).isoformat(timespec="minutes"),
        "text": text,
        "runs": [_run(run, prices) | columns[i] for i, run in enumerate(runs)],
        "left_out": left_out,
        "questions": index.plain(),
        "tables": read_tables(results / "tables", CONFIGS / "table"),
        "figures": read_figures(results / "figures"),
        "licences": _licences(runs),
    }
    places = dict.fromkeys([*stores, results / "stores", *(_stores_of(run) for run in runs)])
    details = Details(runs, index, Memories([p for p in places if p.is_dir()]), text=text)
    asked = (block for number in range(len(index.chunks)) for block in details.blocks(number))
    blocks = chain([("prompts", prompt_texts(runs))], asked)
    size = _write(out, page("memsys report", overview, blocks))
    return Built(out, size, len(runs), len(index.ids), left_out)


def _stores_of(run: LoadedRun) -> Path:
    """Return the stores beside the `runs` folder that a run lies in."""
    for parent in run.folder.parents:
        if parent.name == "runs":
            return parent.parent / "stores"
    return run.folder / "stores"


def _run(run: LoadedRun, prices: PriceList) -> dict[str, Any]:
    info, scores = run.manifest["dataset_info"], run.scores
    names = category_names(run.dataset)
    return {
        "run": run.fingerprint,
        "label": run.label,
        "method": run.method,
        "dataset": run.dataset,
        "data": run.data,
        "protocol": run.protocol,
        "stage": run.manifest["identity"]["stage"],
        "cut": info["cut"],
        "settings": settings_of(run),
        "commit": (run.manifest["project"]["commit"] or "")[:12],
        "started": run.manifest["started"],
        "finished": run.manifest["finished"],
        "measures": [
            {
                "name": name,
                "title": title,
                "mean": scores["mean"].get(name),
                **_interval(scores["intervals"].get(name)),
                **scores["counts"].get(name, {}),
            }
            for name, title in scores.get("measures", {}).items()
        ],
        "by_category": {
            names.get(category, category): {
                name: [
                    found["mean"],
                    found["low"],
                    found["high"],
                    found["n"],
                    why_no_interval(found),
                ]
                for name, found in of.items()
            }
            for category, of in scores.get("by_category", {}).items()
        },
        "spending": spending(run, prices),
        "latency": latency(run),
        "failures": failures(run),
    }


def _interval(found: dict[str, Any] | None) -> dict[str, Any]:
    if not found:
        return {}
    return {"low": found["low"], "high": found["high"], "why": why_no_interval(found)}


def _licences(runs: Sequence[LoadedRun]) -> list[list[str]]:
    found = {run.data: str(run.manifest["dataset_info"]["licence"]) for run in runs}
    return [[data, licence] for data, licence in sorted(found.items())]


def _write(out: Path, pieces: Iterator[str]) -> int:
    draft = out.with_name(f".{out.name}.draft")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        draft.replace(out)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}).") from None
    finally:
        draft.unlink(missing_ok=True)
    return out.stat().st_size
