"""How near a run is to the paper's: what differs, and which of five levels a cell has.

`exact`: same models, data, protocol and the authors' prompts. `own prompts`: the same but for
prompt wording, which the authors did not publish in full. `other model`, `cut`, `sample`: no
reproduction. Only the first two may be read against the published value, and only they get a
verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Level = Literal["exact", "own prompts", "other model", "cut", "sample"]
REPRODUCTIONS: tuple[Level, ...] = ("exact", "own prompts")


def differences(manifest: Mapping[str, Any], setting: Mapping[str, str]) -> list[str]:
    """List how a run's setting differs from the paper's, in words."""
    found: list[str] = []
    info = manifest["dataset_info"]
    if info["is_sample"]:
        found.append("data: synthetic sample of ours")
    elif info["release"] == "custom":
        found.append("data: a file of the user's own")
    if info["cut"]:
        found.append(f"data: cut to {info['cut']}")
    if manifest["identity"]["dataset"]["settings"].get("labels") == "audited":
        found.append("data: the subset whose labels a public audit found sound")
    if info["metadata"] == "dataset":
        found.append("summaries and keywords: the benchmark's annotations and TF-IDF, no LLM")
    models = {**manifest["identity"]["models"], **_judge(manifest)}
    for role, wanted in setting.items():
        ours = models.get(role)
        if ours is not None and not same_model(model_name(ours), wanted):
            found.append(f"{role}: {model_name(ours)} (paper: {wanted})")
    asks = any(role in models for role in ("main", "auxiliary", "judge"))
    if asks and manifest["identity"]["prompts"]:
        found.append("prompts: ours" if not _own(manifest) else "prompts: the user's own files")
    return found


def level(manifest: Mapping[str, Any], setting: Mapping[str, str]) -> Level:
    """Return the level of a run's cells."""
    info = manifest["dataset_info"]
    if info["is_sample"]:
        return "sample"
    if info["cut"]:
        return "cut"
    apart = differences(manifest, setting)
    if any(not difference.startswith("prompts:") for difference in apart):
        return "other model"
    return "own prompts" if "prompts: ours" in apart else "exact"


def model_name(identity: Mapping[str, Any]) -> str:
    """Return a model's id from its identity."""
    return str(identity.get("model") or identity.get("name") or "?")


def same_model(ours: str, paper: str) -> bool:
    """Whether two ids name one model: organisation, letter case and a snapshot's date apart."""
    mine, theirs = (name.rpartition("/")[2].lower() for name in (ours, paper))
    return mine == theirs or bool(re.fullmatch(re.escape(theirs) + r"-20\d\d-\d\d-\d\d", mine))


def verdict(
    value: float, low: float | None, high: float | None, published: float, at: Level
) -> str:
    """Return how a reproduction stands to the published value; empty for all other levels."""
    if at not in REPRODUCTIONS or low is None or high is None:
        return ""
    if low <= published <= high:
        return "agrees"
    return "below" if value < published else "above"


def _judge(manifest: Mapping[str, Any]) -> dict[str, Any]:
    judging = manifest.get("judging")
    return {"judge": judging["model"]} if judging else {}


def _own(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest["configuration"]["prompts"]["dir"])


def merged(several: Sequence[Sequence[str]]) -> list[str]:
    """Merge lists of differences, each once, in order."""
    return list(dict.fromkeys(d for one in several for d in one))
