"""Benchmarks by the name of their config, for commands that need no other part of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException
from hydra.utils import get_class
from pydantic import ValidationError

from memsys.datasets.base import Benchmark
from memsys.errors import UserError, suggest

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "dataset"


def benchmark_names() -> list[str]:
    """Return the names of all dataset configs."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def configured(name: str, overrides: Sequence[str] = ()) -> Benchmark:
    """Return the benchmark of `configs/dataset/<name>.yaml`, with `key=value` overrides."""
    plain = name.replace("-", "_")
    if plain not in benchmark_names():
        raise UserError(f"no dataset is called '{name}'.{suggest(plain, benchmark_names())}")
    settings: dict[str, Any] = yaml.safe_load((CONFIGS / f"{plain}.yaml").read_text("utf-8"))
    target = settings.pop("_target_")
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise UserError(f"'{override}' should be of the form key=value.")
        if key not in settings:
            raise UserError(f"{plain} has no setting '{key}'.{suggest(key, settings)}")
        settings[key] = yaml.safe_load(value)
    # what a run's config fills in (metadata) keeps its default here
    settings = {k: v for k, v in settings.items() if not str(v).startswith("${")}
    try:
        kind = get_class(target)
    except (HydraException, ImportError, ValueError) as error:
        raise UserError(f"configs/dataset/{plain}.yaml: {error}") from None
    if not issubclass(kind, Benchmark):
        raise UserError(f"configs/dataset/{plain}.yaml: {target} is no benchmark.")
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"dataset.{place}={first['input']}: {first['msg']}.") from None
