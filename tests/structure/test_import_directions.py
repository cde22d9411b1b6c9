"""The house's arrows: who may import whom (docs/architecture.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {"memsys": {"baselines", "eval", "scripts"}, "baselines": {"eval", "scripts"}}
SYSTEMS = {"memsys.mgretrieval", "memsys.memgas"}


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("room", FORBIDDEN)
def test_lower_rooms_do_not_import_upper_ones(room: str) -> None:
    for path in modules(room):
        tops = {name.partition(".")[0] for name in imports(path)}
        assert not tops & FORBIDDEN[room], f"{path.relative_to(ROOT)} imports {tops}"


def test_eval_never_imports_a_concrete_system() -> None:
    for path in modules("eval"):
        for name in imports(path):
            assert not name.startswith(("baselines", *SYSTEMS)), f"{path.name} imports {name}"


def test_the_ground_does_not_know_the_two_systems_that_stand_on_it() -> None:
    for path in modules("memsys"):
        inside = ".".join(path.relative_to(ROOT).parts[:2])
        if inside in SYSTEMS:
            continue
        for name in imports(path):
            assert not name.startswith(tuple(SYSTEMS)), f"{path.relative_to(ROOT)} imports {name}"


def test_the_two_systems_do_not_know_each_other() -> None:
    for system, other in (("mgretrieval", "memgas"), ("memgas", "mgretrieval")):
        for path in modules(f"memsys/{system}"):
            assert not any(n.startswith(f"memsys.{other}") for n in imports(path)), path.name


def test_there_are_no_circles_between_rooms_of_the_ground() -> None:
    rooms: dict[str, set[str]] = {}
    for path in modules("memsys"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        own = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        rooms[own] = {n for n in imports(path) if n.startswith("memsys")}
    names = set(rooms)
    graph = {room: {n for n in found if n in names and n != room} for room, found in rooms.items()}
    for found in graph.values():  # `from package import module` needs the module alone
        found -= {n for n in found if any(other.startswith(f"{n}.") for other in found)}
    done: set[str] = set()

    def visit(room: str, trail: tuple[str, ...]) -> None:
        assert room not in trail, " → ".join([*trail, room])
        if room not in done:
            for nearer in graph[room]:
                visit(nearer, (*trail, room))
            done.add(room)

    for room in sorted(graph):
        visit(room, ())
