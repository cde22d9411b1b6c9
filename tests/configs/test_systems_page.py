"""docs/systems.md names every system, preset and setting as they are, and its commands compose."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from eval.config import CONFIGS, ROOT, compose

PAGE = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
METHODS = sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml"))
SECTIONS = {
    part.partition("\n")[0].strip(): part for part in re.split(r"^## ", PAGE, flags=re.M)[1:]
}
SECTION_OF = {
    "MGRetrieval": ["mgretrieval"], "MemGAS": ["memgas"], "RAG": ["rag"], "MemR3": ["memr3"],
    "FULL and Full History": ["full", "full_history"], "MemoryBank": ["memorybank"],
    "A-Mem": ["amem"], "MemoryOS": ["memoryos"], "Dense retrieval": ["dense"],
    "Single granularities and Combination": [
        "session", "turn", "summary", "keyword", "combination",
    ],
    "LLM-Rsum": ["llm_rsum"], "MPC": ["mpc"], "SeCom": ["secom"], "HippoRAG 2": ["hipporag2"],
    "RAPTOR": ["raptor"], "Controls": ["no_memory", "oracle", "bm25", "eq5", "turn_max"],
}  # fmt: skip


def config(method: str) -> dict[str, Any]:
    text = (CONFIGS / "method" / f"{method}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text.replace("${metadata}", "llm")))


def test_every_system_has_its_section() -> None:
    assert SECTION_OF.keys() == SECTIONS.keys()
    assert sorted(name for names in SECTION_OF.values() for name in names) == METHODS
    for title, names in SECTION_OF.items():
        assert all(f"`{name}`" in PAGE for name in names), title


@pytest.mark.parametrize("title", sorted(SECTION_OF))
def test_the_settings_and_presets_that_it_names_exist(title: str) -> None:
    methods = [config(name) for name in SECTION_OF[title]]
    for part, key in re.findall(r"`(build|ask)\.([\w.]+)[`:]", SECTIONS[title]):
        place: Any = next((m[part] for m in methods if key.partition(".")[0] in m[part]), None)
        assert place is not None, f"{part}.{key}"
        for name in key.split("."):
            assert isinstance(place, dict) and name in place, f"{part}.{key}"
            place = place[name]
    for method in methods:
        for preset in method.get("presets", {}):
            assert f"`{preset}`" in SECTIONS[title], preset


def test_its_commands_compose() -> None:
    commands = re.findall(r"^python scripts/run\.py (.+)$", PAGE, flags=re.M)
    assert len(commands) == 3
    for command in commands:
        compose(command.split())
