"""Sweeps through every launcher: each job leaves a note, and the command tells how all went."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from served import end, run_command, serve, start

from eval.records import read_records
from eval.sweep import _worst

ROOT = Path(__file__).resolve().parents[2]
RETRIEVE = [
    "method=bm25", "stage=retrieve", "dataset.sample=always", "metadata=dataset", "progress=off",
]  # fmt: skip
PLUGINS = {
    "cores": "hydra_plugins.hydra_joblib_launcher",
    "slurm_here": "hydra_plugins.hydra_submitit_launcher",
    "ray_here": "hydra_plugins.hydra_ray_launcher",
}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/run.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip


def there(plugin: str) -> bool:
    try:
        return importlib.util.find_spec(plugin) is not None
    except ModuleNotFoundError:
        return False


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_trouble_goes_before_failed_questions() -> None:
    assert _worst([0, 3, 2]) == 2 and _worst([0, 3]) == 3 and _worst([]) == 0


@pytest.mark.parametrize(
    ("more", "failed"), [(["dataset.limit=3"], [3]), (["-m", "dataset.limit=3,4"], [3, 4])]
)
def test_failed_questions_are_the_exit_status(more, failed, tmp_path: Path) -> None:
    """Of one run, and of a sweep in this process, whose later jobs still run."""
    with serve(faults={"500": 1.0}) as server:
        code, out, err = end(start(run_command(server, tmp_path, *more)))
        assert code == 3, err
        assert [n for n in failed if f"{n} questions failed" in out] == failed
        server.faults = {}
        code, out, err = end(start(run_command(server, tmp_path, *more)))
        assert code == 0 and "questions failed" not in out, err


def test_a_launcher_that_is_not_there_is_one_sentence() -> None:
    done = command("-m", "hydra/launcher=cloud", "method=bm25,turn", *RETRIEVE[1:])
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "There is no launcher 'cloud' here" in done.stderr and "[launchers]" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("launcher", PLUGINS)
def test_shards_through_a_launcher_merge_into_the_unsharded_records(launcher, tmp_path) -> None:
    if not there(PLUGINS[launcher]):
        pytest.skip(f"the launcher's plugin is not installed ({PLUGINS[launcher]})")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert command(*RETRIEVE, f"paths.results={whole}").returncode == 0
    done = command(
        "-m", f"hydra/launcher={launcher}", "shard=1/2,2/2", *RETRIEVE, f"paths.results={parts}"
    )
    assert done.returncode == 0, done.stderr
    notes = [json.loads(p.read_text()) for p in sorted(parts.glob("sweeps/*/job-*.json"))]
    assert [note["status"] for note in notes] == [0, 0]
    assert done.stdout.count("done: ") == 2
    merged = command(*RETRIEVE, f"paths.results={parts}")
    assert merged.returncode == 0 and "asked 0," in merged.stdout
    apart = ("seconds",)
    records = [
        [{k: v for k, v in r.items() if k not in apart} for r in read_records(file)]
        for file in (only(p, "runs/*/*/*/records.jsonl") for p in (whole, parts))
    ]
    assert records[0] == records[1] and len(records[0]) == 20


@pytest.mark.slow
@pytest.mark.skipif(not there(PLUGINS["cores"]), reason="joblib's launcher is not installed")
def test_a_job_that_fails_elsewhere_is_told_and_the_others_are_kept(tmp_path) -> None:
    missing = tmp_path / "none.json"
    done = command(
        "-m", "hydra/launcher=cores", f"dataset.path=null,{missing}", "dataset.sample=auto",
        "method=bm25", "stage=retrieve", "metadata=dataset", f"paths.results={tmp_path}/results",
    )  # fmt: skip
    assert done.returncode == 2
    assert "done: " in done.stdout or str(missing) in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
