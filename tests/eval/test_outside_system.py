"""A system in a package of its own, made from the words of docs/add-a-system.md alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.tables.also import with_rows
from eval.tables.spec import load_table
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "add-a-system.md").read_text(encoding="utf-8")

FILL = """
import asyncio, sys
from eval.progress import Board
from eval.resources import Resources
from eval.tables import reproduce

whole = reproduce.load_table
def small(name):
    spec = whole(name)
    return spec.model_copy(update={"rows": tuple(r for r in spec.rows if r.method == "bm25")})
reproduce.load_table = small  # one quick row of the table is enough company
runs = reproduce.Runs(Resources(), Board("off"), parallel=2, ask=True)
settings = ["also=bookends", "dataset.sample=always", "progress=off"]
settings.append(f"paths.results={sys.argv[1]}")
table = asyncio.run(reproduce.filled_table("retrieval", "embedded", settings, runs))
for row in table.blocks[0].rows:
    print(row.row.label, row.reason, *(cell.value for cell in row.cells))
"""


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCS, flags=re.DOTALL)
    assert found, language
    return found[1]


def package(folder: Path) -> Path:
    """Write the documented package and return its folder."""
    place = folder / "my-bookends"
    configs = place / "bookends" / "configs" / "method"
    configs.mkdir(parents=True)
    (place / "pyproject.toml").write_text(block("toml"))
    (place / "bookends" / "__init__.py").write_text(block("python"))
    config = block("yaml").replace("baselines.bookends.Bookends", "bookends.Bookends")
    (configs / "bookends.yaml").write_text(config)
    return place


def run(site: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, cwd=ROOT, timeout=200,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package as an installer leaves it: on the path, with its entry point."""
    place = package(tmp_path)
    entry = re.search(r'memsys\.configs"\]\n(.*?)\n\n', block("toml"), flags=re.DOTALL)
    assert entry
    info = place / "my_bookends-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-bookends\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[memsys.configs]\n{entry[1].replace(chr(34), '')}\n")
    return place


def test_it_runs_and_is_listed(installed: Path, tmp_path: Path) -> None:
    assert "bookends" in run(installed, "scripts/run.py", "--help")
    results = tmp_path / "results"
    said = run(
        installed, "scripts/run.py", "method=bookends", "method.ask.top_k=2", "stage=retrieve",
        "dataset.sample=always", "progress=off", f"paths.results={results}",
    )  # fmt: skip
    assert "Recall@3" in said
    assert list((results / "runs" / "locomo" / "bookends").glob("*/scores.json"))


def test_it_appears_in_a_table_by_one_override(installed: Path, tmp_path: Path) -> None:
    lines = run(installed, "-c", FILL, str(tmp_path / "results")).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert list(rows) == ["BM25", "bookends"]
    assert len(rows["bookends"]) == len(load_table("retrieval").columns)
    assert all(0 <= float(value) <= 100 for value in rows["bookends"])


@pytest.mark.slow
def test_it_runs_when_pip_has_installed_it(tmp_path: Path) -> None:
    place, site = package(tmp_path), tmp_path / "site"
    run(
        tmp_path, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
        "--no-index", "--target", str(site), str(place),
    )  # fmt: skip
    said = run(
        site, "scripts/run.py", "method=bookends", "stage=retrieve", "dataset.sample=always",
        "progress=off", f"paths.results={tmp_path / 'results'}",
    )  # fmt: skip
    assert "Recall@3" in said


def test_a_package_without_its_folder_is_named(installed: Path, tmp_path: Path) -> None:
    (installed / "bookends" / "configs").rename(tmp_path / "elsewhere")
    done = subprocess.run(
        [sys.executable, "scripts/run.py", "method=bm25"],
        capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "The package 'bookends' says that it brings configs" in done.stderr
    assert "Traceback" not in done.stderr


def test_rows_of_a_table() -> None:
    spec = load_table("retrieval")
    added, rest = with_rows(spec, ["dataset.limit=3", "also=rag,full", "also=bm25"])
    assert rest == ["dataset.limit=3"]
    new = added.rows[len(spec.rows) :]
    assert [(row.label, row.method, row.ours) for row in new] == [
        ("rag", "rag", True), ("full", "full", True), ("bm25", "bm25", True),
    ]  # fmt: skip
    assert with_rows(spec, []) == (spec, [])
    with pytest.raises(UserError, match="Did you mean 'rag'"):
        with_rows(spec, ["also=ragg"])
