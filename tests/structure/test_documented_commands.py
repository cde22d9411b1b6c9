"""Every command of the documentation works as printed, or is marked as needing what tests lack.

A `make` target is expanded (`make -n`) into the scripts that it starts; a script's options, names
and settings are checked by its own parser and the program's own rules. What needs no model is then
really started, and every run really made, with stand-ins for the models. All else stands in
`ELSEWHERE` with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import ROOT, Command, documented, pages, unmarked
from fakes import FakeBackend
from scriptchecks import SCRIPTS, check_script, load_table, script_of, without_launcher

import eval.config
import eval.figures.spec
import eval.outside
import eval.tables.spec
from eval.budget import sweep_size
from eval.config import CONFIGS, RunConfig, compose, jobs_to_check
from eval.judging import Judging
from eval.measures import registry
from eval.outside import config_names
from eval.prices import PriceList
from eval.progress import Board
from eval.resources import Resources
from eval.run import Finished, run
from eval.spec import RunSpec
from eval.summary import score_run
from memsys.datasets import manifest
from memsys.errors import UserError

COMMANDS = documented()
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ELSEWHERE = {
    "vllm serve": "needs a GPU",
    "vllm bench": "needs a GPU",
    "transformers serve": "another project's server",
    "hf download": "needs a network",
    "pip install": "needs a network; -e ./my-bookends is run by test_outside_system.py",
    "apt-get install": "needs a network and an administrator",
    "pytest -m gpu": "needs a GPU",
    "wandb sync": "needs a network and an account",
    "wandb login": "needs a network and an account",
    "export OPENAI_API_KEY=…": "a key of the reader's",
}


def ids(commands: Sequence[Command]) -> list[str]:
    return [f"{c.page}:{c.line}" for c in commands]


def unique(commands: Sequence[Command]) -> list[Command]:
    """The first place of each command: checking its words once is enough."""
    return list({script_of(c.words) or c.words: c for c in reversed(commands)}.values())[::-1]


# ------------------------------------------------------------------ the pages' own extensions


@pytest.fixture(scope="module", autouse=True)
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What docs/extend.md and docs/add-a-system.md tell to write is there, for their commands."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        for page in ("extend.md", "add-a-system.md"):
            text = (ROOT / "docs" / page).read_text(encoding="utf-8")
            for path, code in re.findall(r"^`([\w/.-]+)`:\n\n```\w+\n(.*?)^```", text, re.M | re.S):
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(code, encoding="utf-8")
                if place.suffix == ".py":
                    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                    module = types.ModuleType(name)
                    patch.setitem(sys.modules, name, module)
                    exec(compile(code, path, "exec"), module.__dict__)
        for reader in (eval.tables.spec, eval.figures.spec):  # each table is read once
            patch.setattr(reader, "load_table", load_table)
        own = {"own": folder / "configs"}
        patch.setattr(eval.outside, "outside_folders", lambda: own)
        patch.setattr(eval.config, "outside_folders", lambda: own)
        measures = {**registry.makers(), **sys.modules["eval.measures.hedged"].MEASURES}
        patch.setattr(registry, "makers", lambda: measures)
        read = manifest.load_source
        card = manifest.Source.model_validate(
            yaml.safe_load((folder / "datasets/diaries/source.yaml").read_text())
        )
        patch.setattr(manifest, "load_source", lambda n: card if n == "diaries" else read(n))
        yield


# ------------------------------------------------------------------ make


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment that the Makefile takes for set up, so that it only names its commands."""
    place = tmp_path_factory.mktemp("ready")
    (place / ".memsys-ready").touch()
    return {**os.environ, "VIRTUAL_ENV": str(place)}


def recipe(arguments: Sequence[str], ready: dict[str, str]) -> list[tuple[str, ...]]:
    """The scripts, with their arguments, that a call of make would start."""
    done = subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, env=ready, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    lines = [script_of(tuple(line.split())) for line in done.stdout.splitlines()]
    return [line for line in lines if line]


def targets() -> list[str]:
    return re.findall(r"^([a-z0-9-]+):.*## ", MAKEFILE, flags=re.MULTILINE)


MADE = unique([c for c in COMMANDS if c.words[0] == "make"])


@pytest.mark.parametrize("command", MADE, ids=ids(MADE))
def test_make(command: Command, ready: dict[str, str]) -> None:
    known = {*re.findall(r"^([A-Z]+)\s*\?=", MAKEFILE, flags=re.MULTILINE)}
    variables = {w.partition("=")[0] for w in command.words[1:] if "=" in w}
    assert variables <= known, command
    for script in recipe(command.words[1:], ready):
        check_script(*script)


@pytest.mark.parametrize("target", targets())
def test_every_target_starts_what_exists(target: str, ready: dict[str, str]) -> None:
    needed = {"reproduce": ["PAPER=memgas"], "figure": ["NAME=memgas-4"], "plan": ["ARGS=memgas-1"]}
    for script in recipe([target, *needed.get(target, [])], ready):
        check_script(*script)


def test_every_target_is_documented() -> None:
    told = {word for c in MADE for word in c.words[1:]}
    assert set(targets()) - {"help"} <= told


# ------------------------------------------------------------------ scripts and the rest

STARTED = unique([c for c in COMMANDS if script_of(c.words)])


@pytest.mark.parametrize("command", STARTED, ids=ids(STARTED))
def test_script(command: Command) -> None:
    check_script(*script_of(command.words))


def test_no_command_is_left_unchecked() -> None:
    for command in COMMANDS:
        known = command.words[0] == "make" or script_of(command.words)
        assert known or any(command.text.startswith(e) for e in ELSEWHERE), str(command)


def test_no_exception_is_stale() -> None:
    for start in ELSEWHERE:
        assert any(command.text.startswith(start) for command in COMMANDS), start


def test_commands_stand_in_bash_blocks() -> None:
    found = [u for p in pages() for u in unmarked(p.relative_to(ROOT).as_posix(), p.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "wrong",
    [
        ("run.py", "method=mgretrievel"),
        ("run.py", "method=mgretrieval", "method.ask.deepth=2"),
        ("run.py", "method=mgretrieval", "method.ask.depth=2,3"),
        ("table.py", "memgas-77"),
        ("table.py", "--papers", "memgas"),
        ("table.py", "mgretrieval-1", "llm.main.variants=awq"),
        ("figure.py", "memgas-5-beta"),
        ("score.py", "a.jsonl", "--measures", "f1_locmo"),
        ("case.py", "memgas", "--conversation", "conv-47"),
        ("judge.py", "locomo/rag", "dataset.limit=3"),
        ("fetch.py", "longmemeval-x"),
        ("store.py", "prune", "--elder", "3"),
        ("x.py",),
    ],
)
def test_a_wrong_command_is_found(wrong: tuple[str, ...]) -> None:
    with pytest.raises((UserError, AssertionError)):
        check_script(*wrong)


# ------------------------------------------------------------------ settings in running text


def settings_in_text() -> list[tuple[str, str, str]]:
    """Page, key and value of each `key=value` in running text whose key is one of a run's."""
    run_keys = {*yaml.safe_load((CONFIGS / "run.yaml").read_text()), *groups()} - {"defaults"}
    found = []
    for page in pages():
        for key, value in re.findall(r"`([\w.@]+)=([^\s`…]+)", page.read_text(encoding="utf-8")):
            if re.split(r"[.@]", key)[0] in run_keys and value.strip(";:,"):
                found.append((page.name, key, value.rstrip(".;:,")))
    return sorted(set(found))


def groups() -> set[str]:
    return {path.name for path in CONFIGS.iterdir() if path.is_dir()}


def holds(config: Any, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(config, dict) or key not in config:
            return False
        config = config[key]
    return True


@pytest.mark.parametrize(("page", "key", "value"), settings_in_text())
def test_a_setting_in_running_text_exists(page: str, key: str, value: str) -> None:
    group, *keys = key.partition("@")[0].split(".")
    if not keys and group in groups():
        assert value == "NAME" or value in config_names(group), f"{page}: {key}={value}"
        return
    if group == "llm":  # llm.ROLE.KEY
        keys = keys[1:]
    places = [(CONFIGS / group).glob("*.yaml"), [CONFIGS / "run.yaml"]][group not in groups()]
    named = keys if group in groups() else [group, *keys]
    assert any(holds(yaml.safe_load(p.read_text("utf-8")), named) for p in places), f"{page}: {key}"


# ------------------------------------------------------------------ really run

QUICK = ("run.py --help", "table.py --list")
SLOWER = (
    "figure.py --list",
    "data.py check locomo",
    "data.py stats",
    "audit.py",
    "doctor.py",
    "store.py inspect",
    "store.py verify",
)


def start(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a documented script with results in a scratch folder and no benchmark files."""
    script, *arguments = script_of(words)
    if script == "audit.py":
        arguments += ["--out", str(folder)]
    if script in ("doctor.py", "store.py"):
        arguments += ["--results", str(folder)]
    hidden = {k: v for k, v in os.environ.items() if k != "MEMSYS_DATA"}
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        cwd=ROOT, env=hidden, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def starting(kinds: Sequence[str]) -> list[Command]:
    return [c for c in STARTED if " ".join(script_of(c.words)).startswith(tuple(kinds))]


@pytest.mark.parametrize("command", starting(QUICK), ids=ids(starting(QUICK)))
def test_what_takes_a_moment_is_run(command: Command, tmp_path: Path) -> None:
    done = start(command.words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 100


@pytest.mark.slow
@pytest.mark.parametrize("command", starting(SLOWER), ids=ids(starting(SLOWER)))
def test_what_takes_seconds_is_run(command: Command, tmp_path: Path) -> None:
    done = start(command.words, tmp_path)
    # the doctor says 2 where the machine lacks something, which is its answer and no fault
    assert done.returncode in ((0, 2) if "doctor" in command.text else (0,)), done.stderr
    assert done.stdout and "Traceback" not in done.stderr


RUNS = [c for c in STARTED if script_of(c.words)[0] == "run.py" and "--help" not in c.words]
FAKE = {"_target_": "fakes.FakeBackend"}
SMALL = ("dataset.sample=always", "dataset.max_conversations=1", "dataset.max_sessions=null",
         "dataset.limit=2", "shard=null", "wandb.mode=disabled")  # fmt: skip


async def made(overrides: Sequence[str], results: Path) -> Finished:
    """Make a run on a sample with stand-ins for all models, below a scratch folder."""
    FakeBackend.requests.clear()
    composed = compose([*overrides, *SMALL])
    values = {
        **composed.values,
        "llm": dict.fromkeys(("main", "auxiliary", "judge"), FAKE),
        "encoder": {"_target_": "shortsighted.ShortSighted", "limit": 165},
        "budget": {"usd": None, "tokens": None, "calls": None},
        "progress": "off",
        "paths": {"results": str(results), "stores": str(results / "stores")},
    }
    spec = RunSpec.of(RunConfig(values, composed.choices), Resources(), results)
    judging = Judging.of(spec)
    finished = await run(spec, PriceList({}), Board("off"), judging)
    score_run(finished, judging)
    return finished


@pytest.mark.slow
@pytest.mark.parametrize("command", RUNS, ids=ids(RUNS))
async def test_runs_are_made(command: Command, tmp_path: Path) -> None:
    """Each documented run answers questions of the samples, models that say nonsense in place."""
    overrides = without_launcher([a for a in script_of(command.words)[1:] if a != "-m"])
    if "dataset=diaries" in overrides:  # a file of the reader's: test_documented_extensions.py
        return
    assert sweep_size(overrides) <= 8
    for number, job in enumerate(jobs_to_check(overrides, sweep=True)):
        finished = await made(job, tmp_path / str(number))
        assert finished.asked and not finished.failed, command


LOOKING = ("compare.py", "case.py locomo/", "report.py", "store.py", "score.py results/")


@pytest.mark.slow
async def test_what_looks_at_runs_is_run(tmp_path: Path) -> None:
    """The commands about finished runs, in the order of the pages, on runs of the samples."""
    results = tmp_path / "results"
    for method in ("combination", "bm25", "memgas", "mgretrieval"):
        finished = await made(
            [f"method={method}", "stage=retrieve", "protocol=memgas", "metadata=dataset"], results
        )
        folder = finished.spec.folder.relative_to(tmp_path).as_posix()
        if method == "memgas":
            memgas = folder
    asked = finished.records[0]["id"]
    looking = starting(LOOKING)
    assert len(looking) > 15
    for command in looking:
        script, *arguments = script_of(command.words)
        arguments = [re.sub(r"^results/runs/.*FINGERPRINT$", memgas, a) for a in arguments]
        arguments = [re.sub(r"^conv-\d+_qa\d+$", asked, a) for a in arguments]
        if script != "score.py":
            arguments += ["--results", str(results)]
        done = subprocess.run(
            [sys.executable, str(SCRIPTS / script), *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
