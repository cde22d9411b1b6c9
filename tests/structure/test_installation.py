"""The editable install must not shadow Hugging Face's `datasets`, and no wheel may be built."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_folder_of_ours_is_importable_as_datasets(tmp_path: Path) -> None:
    """`memsys` is found from anywhere; the bare folder `datasets` beside it is not."""
    code = (
        "import importlib.util, memsys, eval, baselines;"
        "spec = importlib.util.find_spec('datasets');"
        "places = list(spec.submodule_search_locations or []) if spec else [];"
        "print([p for p in places if p.startswith(%r)])" % str(ROOT)
    )
    assert python(code, tmp_path) == "[]"


def test_pytest_runs_without_the_checkout_on_the_path() -> None:
    found = importlib.util.find_spec("datasets")
    places = list(found.submodule_search_locations or []) if found else []
    assert not any(place.startswith(str(ROOT)) for place in places)


@pytest.mark.slow
def test_a_wheel_is_refused_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import setuptools.build_meta as b; b.build_wheel(%r)" % str(tmp_path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert "pip install -e ." in done.stderr + done.stdout


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "scripts").glob("*.py")))
def test_help_is_quick_and_loads_no_torch(script: str) -> None:
    code = (
        "import sys, runpy; sys.argv = [%r, '--help']\n"
        "try: runpy.run_path(%r, run_name='__main__')\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    ) % (script, str(ROOT / "scripts" / script))
    assert "usage" in python(code, ROOT).lower() or script == "run.py"
