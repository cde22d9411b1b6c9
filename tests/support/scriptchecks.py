"""What a script's arguments mean, checked without running it: options, names, settings.

A script's own parser reads its arguments and is stopped there; the names in them are looked up,
and the settings composed and validated, as the script itself would.
"""

from __future__ import annotations

import runpy
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.claims.spec import load_ledger
from eval.config import CONFIGS, compose, jobs_to_check, names_and_settings
from eval.figures.spec import find_figures, load_figure
from eval.measures import registry
from eval.outside import config_names
from eval.rerun import check_overrides
from eval.resources import Resources
from eval.spec import RunSpec
from eval.tables import spec as table_specs
from eval.tables.also import with_rows
from eval.tables.reproduce import overrides_of
from eval.typed import resolve
from memsys.datasets.configured import configured

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
load_table = cache(table_specs.load_table)


def script_of(words: Sequence[str]) -> tuple[str, ...]:
    """A script's path below scripts/ and its arguments; empty for another command."""
    rest = words[1:] if words and Path(words[0]).name.startswith("python") else words
    if not rest or not rest[0].startswith("scripts/"):
        return ()
    return (rest[0].removeprefix("scripts/"), *rest[1:])


# ------------------------------------------------------------------ arguments


class Parsed(BaseException):
    """Carries what a script's parser made of its arguments, past the script."""


@cache
def options_of(script: str, arguments: tuple[str, ...]) -> Namespace:
    """What a script's own parser reads; fails with the parser's words where it refuses."""

    def stopping(parse: Callable[..., Namespace]) -> Callable[..., Namespace]:
        def parse_and_stop(self: ArgumentParser, *args: Any, **more: Any) -> Namespace:
            raise Parsed(parse(self, *args, **more))

        return parse_and_stop

    said = StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("parse_args", "parse_intermixed_args"):
            patch.setattr(ArgumentParser, name, stopping(getattr(ArgumentParser, name)))
        patch.setattr(sys, "argv", [f"scripts/{script}", *arguments])
        patch.syspath_prepend(str(SCRIPTS / "bench"))  # benches import what they share
        try:
            with redirect_stderr(said), redirect_stdout(said):
                runpy.run_path(str(SCRIPTS / script), run_name="__main__")
        except Parsed as parsed:
            found: Namespace = parsed.args[0]
            return found
        except SystemExit as end:
            assert not end.code, said.getvalue()
            return Namespace(help=True)
    raise AssertionError(f"scripts/{script} never read its arguments")


# ------------------------------------------------------------------ names and settings


def without_launcher(overrides: Sequence[str]) -> list[str]:
    """The settings of the jobs themselves; launchers are plugins that need not be installed."""
    chosen: dict[str, Any] = {}
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "hydra/launcher":
            file = CONFIGS / "hydra" / "launcher" / f"{value}.yaml"
            chosen = yaml.safe_load(file.read_text("utf-8"))
        elif key.startswith("hydra.launcher."):
            place: Any = chosen
            for name in key.split(".")[2:]:
                place = place[name]
    return [o for o in overrides if not o.startswith("hydra")]


@cache
def check_settings(*overrides: str) -> None:
    """Compose one run and validate each of its parts."""
    spec = RunSpec.of(compose(overrides), Resources(), ROOT)
    values = spec.config.values
    resolve(values["encoder"], "encoder")
    for role, model in values["llm"].items():
        resolve(model, f"llm.{role}")
    if (values["judge"] or {}).get("_target_"):
        resolve(values["judge"], "judge", given=("prompts",))
    registry.parse_all(values["measures"] or [])


def check_runs(overrides: Sequence[str], *, sweep: bool = False) -> None:
    """Check the first and the last job of a sweep; a slow test makes all of them."""
    jobs = jobs_to_check(overrides, sweep=sweep)
    for job in jobs[:: max(1, len(jobs) - 1)]:
        check_settings(*job)


def check_table(name: str, profile: str, extra: Sequence[str]) -> None:
    """The table has blocks for the profile, and its first row composes with the settings."""
    spec, rest = with_rows(load_table(name), extra)
    blocks = spec.blocks_of(profile)
    if rest:
        check_settings(*overrides_of(spec, blocks[0], spec.rows[0], profile, rest))


def check_figure(name: str, profile: str, extra: Sequence[str]) -> None:
    check_table(load_figure(name).table, profile, extra)


def check_profile(name: str) -> None:
    assert name in config_names("profile"), name


def check_run_name(name: str) -> None:
    """`locomo/memgas`, alone or at the end of a path: a benchmark and a method that exist."""
    parts = [p for p in name.split("/") if p not in ("results", "runs", "FINGERPRINT", "RUN")]
    if parts:
        assert parts[0] in config_names("dataset"), name
        assert all(part in config_names("method") for part in parts[1:]), name


def tables(o: Namespace) -> None:
    names, extra = names_and_settings(o.names)
    check_profile(o.profile)
    for paper in o.paper:
        found, _ = table_specs.described(table_specs.find_tables(paper, o.number), o.profile)
        assert found
        names += found
    assert names or o.list
    for name in names:
        check_table(name, o.profile, extra)


def figures(o: Namespace) -> None:
    names, extra = names_and_settings(o.names)
    check_profile(o.profile)
    for paper in o.paper:
        names += find_figures(paper, o.number)
    assert names or o.list
    for name in names:
        check_figure(name, o.profile, extra)


def plans(o: Namespace) -> None:
    names, extra = names_and_settings(o.names)
    check_profile(o.profile)
    for name in names:
        check_table(name, o.profile, extra)
    if not names and extra:
        check_runs(extra, sweep=True)


def claims(o: Namespace) -> None:
    check_profile(o.profile)
    for paper in o.paper:
        load_ledger(paper)
    if o.settings:
        check_settings(f"profile={o.profile}", *o.settings)


def cases(o: Namespace) -> None:
    names, extra = names_and_settings(o.names)
    assert o.question or o.evidence
    check_profile(o.profile)
    for name in names:
        if "/" in name:
            check_run_name(name)
        else:
            assert name in config_names("method"), name
    check_settings(f"profile={o.profile}", *extra)


def comparisons(o: Namespace) -> None:
    check_run_name(o.a)
    check_run_name(o.b)
    registry.parse_all(o.measure or [])


def scores(o: Namespace) -> None:
    if o.dataset:
        configured(o.dataset)
    registry.parse_all(o.measures or [])
    if "results/runs/" in str(o.file):
        check_run_name(str(o.file))


def judges(o: Namespace) -> None:
    check_run_name(o.run)
    check_overrides(o.overrides)
    check_settings(*o.overrides)


def data(o: Namespace) -> None:
    for name in [o.dataset] if "dataset" in o else o.datasets:
        configured(name, o.set)
    assert "protocol" not in o or o.protocol in config_names("protocol")


def fetches(o: Namespace) -> None:
    wanted = runpy.run_path(str(SCRIPTS / "fetch.py"))["wanted"]
    for name in o.names:
        source, files = wanted(name, o.release)
        assert files
        assert o.release is None or o.release in source.releases


def reports(o: Namespace) -> None:
    for folder in o.runs:
        check_run_name(str(folder))


def stores(o: Namespace) -> None:
    for name in o.runs if o.command == "export" else []:
        check_run_name(name)


CHECKS: dict[str, Callable[[Namespace], None]] = {
    "table.py": tables,
    "figure.py": figures,
    "plan.py": plans,
    "claims.py": claims,
    "case.py": cases,
    "compare.py": comparisons,
    "score.py": scores,
    "judge.py": judges,
    "data.py": data,
    "fetch.py": fetches,
    "report.py": reports,
    "store.py": stores,
    "doctor.py": lambda o: check_profile(o.profile),
}


@cache
def check_script(script: str, *arguments: str) -> None:
    """Fails where the script, an option, a name or a setting does not exist."""
    assert (SCRIPTS / script).is_file(), f"there is no scripts/{script}"
    if script == "run.py":
        flags = [a for a in arguments if a.startswith("-")]
        assert set(flags) <= {"-m", "--help"}, flags
        overrides = without_launcher([a for a in arguments if a not in flags])
        check_runs(overrides, sweep="-m" in flags)
        return
    options = options_of(script, arguments)
    if "help" not in options and script in CHECKS:
        CHECKS[script](options)
