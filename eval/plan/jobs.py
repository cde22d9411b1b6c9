"""Which runs a command would make: the rows of tables, the jobs of a sweep, or one run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from eval.tables.reproduce import overrides_of
from eval.tables.spec import load_table
from memsys.errors import UserError


@dataclass(frozen=True)
class Job:
    """One run under its title."""

    title: str
    overrides: tuple[str, ...]


def table_jobs(name: str, profile: str, extra: Sequence[str]) -> list[Job]:
    """Return the runs of a table in a profile; equal ones once."""
    spec = load_table(name)
    jobs: dict[tuple[str, ...], Job] = {}
    for block in spec.blocks_of(profile):
        for row in spec.rows:
            if row.label in getattr(block, "without", ()):
                continue
            overrides = tuple(overrides_of(spec, block, row, profile, extra))
            jobs.setdefault(overrides, Job(f"{block.dataset} × {row.label}", overrides))
    return list(jobs.values())


def sweep_jobs(overrides: Sequence[str]) -> list[Job]:
    """Return every job of a sweep (`key=a,b`), or the one run that the overrides describe."""
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UserError(
            f"{' '.join(str(error).splitlines()[0].split())}: settings are given as key=value."
        ) from error
    choices = [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()]
        if o.is_sweep_override()
        else [str(o.input_line)]
        for o in parsed
    ]
    swept = [i for i, values in enumerate(choices) if len(values) > 1]
    jobs = []
    for combination in itertools.product(*choices):
        label = " ".join(combination[i] for i in swept)
        jobs.append(Job(label or " ".join(combination) or "run", tuple(combination)))
    return jobs
