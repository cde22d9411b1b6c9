"""Planned against actual: a finished run beside the plan that was made for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.records import read_records
from eval.summary import costs
from memsys.errors import UserError


@dataclass(frozen=True, slots=True)
class Line:
    """One phase and role: what was planned (low, expected, high) and what was used."""

    place: str
    planned_calls: tuple[float, float, float]
    calls: int
    planned_tokens: tuple[float, float, float]
    tokens: int

    @property
    def ratio(self) -> float | None:
        """Expected tokens over used ones."""
        return self.planned_tokens[1] / self.tokens if self.tokens else None


def planned_for(folder: Path, plans: Path) -> Mapping[str, Any] | None:
    """Return the newest plan of a run among the plan files in a folder, or `None`."""
    wanted = "/".join(folder.resolve().parts[-3:])  # dataset, method, fingerprint
    newest: tuple[float, Mapping[str, Any] | None] = (0.0, None)
    for path in plans.glob("*.json"):
        try:
            runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        for run in runs:
            named = str(run.get("run") or "").endswith(wanted)
            if named and path.stat().st_mtime > newest[0]:
                newest = (path.stat().st_mtime, run)
    return newest[1]


def plans_beside(folder: Path) -> Path:
    """Return where the plans of a run's results are: `results/plans` for `results/runs/…`."""
    results = next((p.parent for p in folder.resolve().parents if p.name == "runs"), folder)
    return results / "plans"


def compare(folder: Path, plan: Mapping[str, Any]) -> list[Line]:
    """Return planned and actual by phase and role, and in total; stored replies included."""
    actual = actual_of(folder)
    lines = []
    for place in sorted({*plan["places"], *actual}):
        planned = plan["places"].get(place, {})
        used = actual.get(place, {})
        ins, outs = (planned.get(key, [0, 0, 0]) for key in ("tokens_in", "tokens_out"))
        calls = planned.get("calls", [0, 0, 0])
        lines.append(
            Line(
                place,
                (calls[0], calls[1], calls[2]),
                used.get("calls", 0),
                (ins[0] + outs[0], ins[1] + outs[1], ins[2] + outs[2]),
                used.get("prompt_tokens", 0) + used.get("completion_tokens", 0),
            )
        )
    return [*lines, _total(lines)]


def actual_of(folder: Path) -> Mapping[str, Mapping[str, int]]:
    """Return a run's calls and tokens by phase and role, from its records."""
    records = read_records(folder / "records.jsonl")
    if not records:
        raise UserError(f"{folder} holds no records: name the folder of a finished run.")
    judged = [j for path in folder.glob("judgements-*.jsonl") for j in read_records(path)]
    found = costs(records, read_records(folder / "builds.jsonl"), judged)
    by_place: Mapping[str, Mapping[str, int]] = found["by_phase_and_role"]
    return by_place


def said(lines: list[Line]) -> str:
    """Return the comparison in one sentence."""
    total = lines[-1]
    low, expected, high = total.planned_tokens
    inside = "within" if low <= total.tokens <= high else "outside"
    ratio = "" if total.ratio is None else f", expected / used {total.ratio:.2f}"
    return (
        f"planned {expected:,.0f} tokens ({low:,.0f} – {high:,.0f}) in "
        f"{total.planned_calls[1]:,.0f} calls; used {total.tokens:,} in {total.calls:,} "
        f"({inside} the range{ratio})"
    )


def _total(lines: list[Line]) -> Line:
    def added(values: list[tuple[float, float, float]]) -> tuple[float, float, float]:
        return tuple(map(sum, zip(*values, strict=True))) or (0.0, 0.0, 0.0)  # type: ignore[return-value]

    return Line(
        "total",
        added([line.planned_calls for line in lines]),
        sum(line.calls for line in lines),
        added([line.planned_tokens for line in lines]),
        sum(line.tokens for line in lines),
    )
