from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def no_data(monkeypatch):
    """No real file anywhere but in datasets/*/data."""
    monkeypatch.delenv("MEMSYS_DATA", raising=False)


@pytest.fixture
def save(tmp_path):
    def write(content: object, name: str = "file.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def real():
    """The real file of this path below MEMSYS_DATA, or a skip that says what is missing."""

    def find(path: str) -> Path:
        root = os.environ.get("MEMSYS_DATA")
        if root is None or not (Path(root) / path).exists():
            pytest.skip(f"{path} is not under MEMSYS_DATA")
        return Path(root) / path

    return find


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fetch_script():
    return script("fetch")


@pytest.fixture
def data_script():
    return script("data")
