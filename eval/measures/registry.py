"""From a measure's name to the measure: every module of this package that has `MEASURES`.

`MEASURES` maps a name to what makes the measure; `@k` at the end of a name asks for a cutoff,
so that `recall_all@k` makes `recall_all@3`. A new measure is a new file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import eval.measures
from eval.measures.base import Measure, TextMeasure
from eval.measures.postprocess import POSTPROCESS
from memsys.errors import UserError, suggest

Maker = Callable[..., Measure]


@cache
def makers() -> dict[str, Maker]:
    """Return every known name, `@k` unfilled, with what makes its measure."""
    found: dict[str, Maker] = {}
    for module in pkgutil.iter_modules(eval.measures.__path__):
        loaded: Any = importlib.import_module(f"eval.measures.{module.name}")
        found.update(getattr(loaded, "MEASURES", {}))
    return found


def parse(name: str) -> Measure:
    """Return the measure called `name` (`f1_squad`, `recall_all@3`, `secom:rougeL`).

    Raises `UserError` with the nearest right name, or for a cutoff that is no positive number.
    """
    post, colon, bare = name.strip().rpartition(":")
    if colon and post not in POSTPROCESS:
        raise UserError(f"Unknown prefix '{post}:' of a measure.{suggest(post, POSTPROCESS)}")
    stem, at, cutoff = bare.partition("@")
    maker = makers().get(f"{stem}@k" if at else stem)
    if maker is None:
        known = [n.replace("@k", f"@{cutoff or 'k'}") for n in makers()]
        raise UserError(f"Unknown measure '{name}'.{suggest(bare, known)}")
    if at and not (cutoff.isascii() and cutoff.isdigit()):
        raise UserError(f"Measure '{name}': the cutoff '{cutoff}' is not a whole number.")
    made = maker(int(cutoff)) if at else maker()
    if not colon:
        return made
    if not isinstance(made, TextMeasure):
        raise UserError(f"'{post}:' changes answers, which '{bare}' does not read.")
    return replace(made, post=post)


def parse_all(names: str | Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of a comma-separated list, or of several names, each once."""
    listed = names.split(",") if isinstance(names, str) else names
    return tuple(dict.fromkeys(parse(name) for name in listed if name.strip()))
