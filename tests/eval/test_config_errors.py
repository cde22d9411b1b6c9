"""Bad input: one clear sentence with the nearest right name, exit status 2, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eval.config import compose, jobs_to_check
from eval.resources import Resources
from eval.spec import RunSpec
from eval.sweep import sweep_or_run
from eval.typed import resolve
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("methd=rag", "There is no setting 'methd'. Did you mean 'method'?"),
        (
            "method=memgass",
            "There is no config 'memgass' in group 'method'. Did you mean 'memgas'?",
        ),
        (
            "method.ask.lamda=0.1",
            "no setting 'method.ask.lamda'. Did you mean 'method.ask.lambda'?",
        ),
        ("dataset.max_sesions=2", "Did you mean 'dataset.max_sessions'?"),
        ("concurrency.question=2", "Did you mean 'concurrency.questions'?"),
        ("protocol=memgaz", "Did you mean 'memgas'?"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(override: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        compose([override])
    assert sentence in str(error.value)
    assert "\n" not in str(error.value).strip()


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("method.ask.propagation=pppr", "method.ask.propagation='pppr'"),
        ("method.ask.alpha=many", "method.ask.alpha='many'"),
        ("method.ask.alpha=0", "method.ask.alpha=0"),
        ("method.build.association.edge_rule=gmmm", "method.build.association.edge_rule='gmmm'"),
        ("+method.ask.alfa=3", "There is no setting 'method.ask.alfa'. Did you mean 'alpha'?"),
        ("dataset.captions=some", "dataset.captions='some'"),
        ("stage=anwser", "Did you mean 'answer'?"),
        ("protocol.rules.category5=trapp", "Did you mean 'trap'?"),
    ],
)
def test_wrong_values_are_refused_with_their_place(override: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        RunSpec.of(compose([override]), Resources(), ROOT)
    assert sentence in str(error.value)


def test_a_preset_stands_between_the_file_and_the_command_line() -> None:
    official = compose(["preset=official"]).values["method"]
    assert official["build"]["association"]["first_linked_session"] == 5
    mine = compose(["preset=official", "method.build.association.first_linked_session=2"])
    assert mine.values["method"]["build"]["association"]["first_linked_session"] == 2
    with pytest.raises(UserError, match="Did you mean 'official'"):
        compose(["preset=offical"])


def test_every_value_of_a_sweep_is_validated_before_its_first_run() -> None:
    assert jobs_to_check(["method.ask.alpha=1,2,3", "method=memgas"], sweep=True) == [
        ["method.ask.alpha=1", "method=memgas"],
        ["method.ask.alpha=2", "method=memgas"],
        ["method.ask.alpha=3", "method=memgas"],
    ]
    with pytest.raises(UserError, match="Did you mean 'method.ask.alpha'"):
        sweep_or_run(["-m", "method.ask.alfa=1,2"])
    with pytest.raises(UserError, match="method.ask.alpha='x'"):
        sweep_or_run(["-m", "method.ask.alpha=1,x"])
    with pytest.raises(UserError, match="Did you mean 'bm25'"):
        sweep_or_run(["method=bm25,bm52", "-m"])
    with pytest.raises(UserError, match="add -m to sweep"):
        sweep_or_run(["method=bm25,full"])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("concurrency.conversations=0", "concurrency.conversations=0"),
        ("concurrency.questions=-1", "concurrency.questions=-1"),
        ("~method", "A run needs a 'method'"),
        ("foo", "settings are given as key=value"),
    ],
)
def test_what_would_hang_or_crash_is_refused(override: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        sweep_or_run([override])
    assert sentence in str(error.value)


def test_a_target_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(UserError, match="cannot be imported"):
        resolve({"_target_": "no.such.Thing"}, "method")
    with pytest.raises(UserError, match="needs a '_target_'"):
        resolve({}, "method")


@pytest.mark.parametrize(
    "arguments",
    [
        ["methd=rag"],
        ["method.ask.alpha=many"],
        ["dataset.path=/nowhere/locomo10.json", "stage=retrieve"],
        ["shard=5/2", "stage=retrieve", "dataset.sample=always", "method=bm25"],
        [
            "llm@llm.main=openai",
            "llm.main.base_url=http://127.0.0.1:9/v1",
            "llm.main.tokenizer=null",
            "method=full",
            "judge=none",
            "dataset.sample=always",
        ],
    ],
)
def test_the_command_ends_with_status_2_and_no_traceback(
    arguments: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "run.py"), *arguments, f"paths.results={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "sk-not-a-key"},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr + done.stdout
    assert "sk-not-a-key" not in done.stderr + done.stdout
