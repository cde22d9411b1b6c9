"""The run that made a folder, described anew from this checkout's configs.

A stored file never decides which class is made: its choices name configs of this checkout, its
values are laid over theirs, and a class that it names must be the one that the config names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.config import ROOT, RunConfig, compose
from eval.resources import Resources
from eval.runfolder import RunFolder
from eval.spec import RunSpec
from memsys.errors import UserError


def spec_of(folder: RunFolder, resources: Resources, overrides: tuple[str, ...] = ()) -> RunSpec:
    """Return the specification of a finished run, with `overrides` above it.

    Raises `UserError` where this checkout would no longer make the same run. `overrides` may
    change only what is no part of a run's fingerprint: the judge, measures, concurrency.
    """
    manifest = folder.manifest
    choices = {k: v for k, v in manifest["choices"].items() if v is not None}
    asked = {o.partition("=")[0] for o in overrides}
    groups = [f"{group}={choice}" for group, choice in choices.items() if group not in asked]
    preset = manifest["configuration"].get("preset") or "paper"
    composed = compose([*groups, f"preset={preset}", *overrides])
    stored = {k: v for k, v in manifest["configuration"].items() if k not in asked}
    values = _laid_over(composed.values, stored, "")
    for override in overrides:
        _put(values, override.partition("=")[0], composed.values)
    results = folder.path.resolve().parents[3]
    values["paths"] = {"results": str(results), "stores": str(results / "stores")}
    spec = RunSpec.of(RunConfig(values, composed.choices), resources, ROOT)
    if spec.fingerprint != manifest["run"]:
        raise UserError(
            f"{folder.path} was made by other code or data than is here (it would now be "
            f"{spec.fingerprint}): run it again, then judge that."
        )
    return spec


FREE = ("judge", "llm.judge", "llm@llm.judge", "measures", "concurrency", "budget", "progress")
"""What may be changed about a finished run without making it another."""


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse what is no setting, or one that a finished run cannot change."""
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals:
            raise UserError(f"'{override}': settings are given as key=value.")
        if not any(key == free or key.startswith(f"{free}.") for free in FREE):
            raise UserError(
                f"'{key}' would make another run: only {', '.join(FREE)} can be changed here."
            )


def _laid_over(ours: Mapping[str, Any], stored: Mapping[str, Any], where: str) -> dict[str, Any]:
    found = dict(ours)
    for key, value in stored.items():
        place = f"{where}{key}"
        if key == "_target_" and value != ours.get(key):
            raise UserError(
                f"The run's {place}={value} is not what this checkout's config names "
                f"({ours.get(key)})."
            )
        nested = isinstance(value, Mapping) and isinstance(ours.get(key), Mapping)
        found[key] = _laid_over(ours[key], value, f"{place}.") if nested else value
    return found


def _put(values: dict[str, Any], key: str, source: Mapping[str, Any]) -> None:
    """Set a dotted key (or a group's section) to what `source` has there."""
    group, _, package = key.partition("@")
    *path, last = (package or group).split(".")
    for step in path:
        values[step] = dict(values[step])
        values, source = values[step], source[step]
    values[last] = source[last]
