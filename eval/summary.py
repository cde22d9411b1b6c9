"""After a run: its scores, and the last lines that a person reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from eval.config import ROOT
from eval.judge.calibration import noted
from eval.judging import Judging
from eval.measures.item import Item
from eval.records import Record, key_of
from eval.run import Finished
from eval.scoring import Scores, score, why_no_interval
from memsys import cli


def score_run(finished: Finished, judging: Judging | None) -> Scores:
    """Score a run's records by the measures in force and write `scores.json`."""
    values = finished.spec.config.values
    protocol = finished.spec.protocol
    wanted: list[str] = []
    for name in values["measures"] or measures_of(protocol, finished.spec.stage):
        if not name.startswith("judge_") or judging is not None:
            wanted.append(name)
    scores = score(items_of(finished.records, finished.judgements), wanted, values["failed_as"])
    plain = scores.plain()
    if judging is not None:
        # how the judge took answers of known worth stands beside what it says of these
        titles, folder = plain["measures"], finished.spec.folder
        titles |= dict(noted(titles, folder, judging.fingerprint))
    plain["costs"] = costs(finished.records, finished.builds, finished.judgements)
    path = finished.spec.folder / f"scores{finished.part}.json"  # a part's never stand for all
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(plain, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)
    return scores


def measures_of(protocol: Any, stage: str) -> tuple[str, ...]:
    """Return the measures that a protocol scores a stage by."""
    ranking: tuple[str, ...] = protocol.retrieval_measures
    return ranking if stage == "retrieve" else (*protocol.answer_measures, *ranking)


def items_of(records: Sequence[Record], judgements: Sequence[Record] = ()) -> list[Item]:
    """Return a run's records as items, with their judgements beside them."""
    verdicts: dict[Any, dict[str, Any]] = {}
    for judgement in judgements:
        verdicts.setdefault(key_of(judgement), {})[judgement["judge"]] = judgement["verdicts"]
    return [
        Item.of({**record, "judgements": verdicts.get(key_of(record), {})}) for record in records
    ]


def costs(
    records: Sequence[Record], builds: Sequence[Record], judgements: Sequence[Record] = ()
) -> dict[str, Any]:
    """Sum calls and tokens by phase and role; stored replies count with their own tokens.

    `valid_json` is the share of schema-bound calls whose reply was valid as it stood.
    """
    table: dict[str, dict[str, int]] = {}
    bound = valid = 0
    counts: dict[str, int] = {}
    for source in (builds, records, judgements):
        for entry in source:
            for event, number in entry["counts"].items():
                counts[event] = counts.get(event, 0) + number
            for call in entry["calls"]:
                place = table.setdefault(
                    f"{call['phase']}/{call['role']}",
                    {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0},
                )
                place["calls"] += 1
                place["prompt_tokens"] += call["prompt_tokens"]
                place["completion_tokens"] += call["completion_tokens"]
                if call["schema"]:
                    bound += 1
                    valid += bool(call["valid"])
    return {
        "by_phase_and_role": table,
        "schema_calls": bound,
        "valid_json": valid / bound if bound else None,
        "counts": counts,
        "units": sum(build["units"] for build in builds),
    }


def show(finished: Finished, console: Console | None = None) -> None:
    """Print a run's scores, what it cost, where it was written, and what to type next."""
    console = console or cli.console()
    folder = finished.spec.folder
    scored = folder / f"scores{finished.part}.json"
    if scored.is_file():
        scores = json.loads(scored.read_text(encoding="utf-8"))
        console.print(_scores_table(scores, finished))
        _say_costs(console, scores["costs"])
    console.print(
        f"asked {finished.asked}, failed {finished.failed}, built {finished.built}; "
        f"{finished.paid_calls} chat calls made, {finished.stored_calls} from the store; "
        f"{finished.seconds:.1f} s",
        highlight=False,
    )
    place = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    console.print(f"written: {place}", highlight=False, soft_wrap=True)
    if finished.failed:
        console.print(
            f"{finished.failed} questions failed: the same command asks just those again.",
            style="bold red",
        )


def _scores_table(scores: Mapping[str, Any], finished: Finished) -> Table:
    info = finished.spec.dataset.info()
    marks = [m for m in (info.label, f"cut: {info.cut}" if info.cut else None) if m]
    title = f"{finished.spec.dataset_name} × {finished.spec.method_name}"
    table = Table(title=title + (f" ({'; '.join(marks)})" if marks else ""), title_justify="left")
    for heading in ("measure", "×100", "95 % interval", "n", "failed"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for name, title in scores["measures"].items():
        mean = scores["mean"][name]
        if mean is None:
            table.add_row(title, "–", scores["unavailable"].get(name, ""), "", "")
            continue
        interval = scores["intervals"][name]
        low, high = interval["low"], interval["high"]
        counts = scores["counts"][name]
        table.add_row(
            title,
            f"{100 * mean:.2f}",
            why_no_interval(interval) or f"{100 * low:.2f} – {100 * high:.2f}",
            str(counts["n"]),
            str(counts["n_failed"] or ""),
        )
    return table


def cut_share(counts: Mapping[str, int]) -> str | None:
    """Return which share of all encoded texts was longer than the encoder's window, if any were."""
    texts, cut = counts.get("encoder.texts", 0), counts.get("encoder.texts_cut", 0)
    return f"{100 * cut / texts:.1f} % of {texts}" if texts else None


def _say_costs(console: Console, found: Mapping[str, Any]) -> None:
    if (share := cut_share(found["counts"])) is not None:
        console.print(f"texts cut at the encoder's window: {share}", highlight=False)
    if not found["by_phase_and_role"]:
        return
    table = Table("phase / role", "calls", "tokens in", "tokens out", box=None)
    for place, row in sorted(found["by_phase_and_role"].items()):
        table.add_row(
            place, str(row["calls"]), f"{row['prompt_tokens']:,}", f"{row['completion_tokens']:,}"
        )
    console.print(table)
    if found["valid_json"] is not None:
        share = f"{100 * found['valid_json']:.1f} %"
        console.print(
            f"replies valid against their schema: {share} of {found['schema_calls']}",
            highlight=False,
        )
    events = ", ".join(
        f"{name} {n}"
        for name, n in sorted(found["counts"].items())
        if not name.startswith("encoder.")
    )
    if events:
        console.print(f"counted: {events}", highlight=False)
