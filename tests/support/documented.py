"""The commands that the documentation gives: those of bash blocks, and those in running text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ("python", ".venv/bin/python")
PROGRAMS = (
    *PYTHON,
    "make",
    "pip",
    "hf",
    "vllm",
    "apt-get",
    "git",
    "curl",
    "pytest",
    "transformers",
    "wandb",
)
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
_MESSAGE = re.compile(r"`` .+? ``")  # a quoted message with a command inside
_SPAN = re.compile(r"(?<!`)`([^`]+?)`(?!`)")


@dataclass(frozen=True)
class Command:
    """One command: where it stands, what is printed there, and its words."""

    page: str
    line: int
    text: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def pages() -> list[Path]:
    """Return the pages that people read."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [*found, *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("datasets/*/README.md"))]


def documented() -> list[Command]:
    """Return all commands of all pages."""
    return [
        command
        for path in pages()
        for command in commands_of(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]


def commands_of(page: str, text: str) -> Iterator[Command]:
    """Yield a page's commands in order: bash blocks first, then the running text."""
    for block in _FENCE.finditer(text):
        if block[1] == "bash":
            yield from _of_block(page, text.count("\n", 0, block.start(2)) + 1, block[2])
    prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    prose = _MESSAGE.sub("", prose)
    for span in _SPAN.finditer(prose):
        shown = " ".join(span[1].split())
        words = _without_gaps(shown)
        if words and "\n\n" not in span[1] and _starts_a_command(words):
            yield Command(page, prose.count("\n", 0, span.start()) + 1, shown, words)


def unmarked(page: str, text: str) -> Iterator[str]:
    """Yield the places of blocks that hold a command and are not marked as bash."""
    for block in _FENCE.finditer(text):
        if block[1] == "" and any(line.startswith(PROGRAMS) for line in block[2].splitlines()):
            yield f"{page}:{text.count(chr(10), 0, block.start()) + 1}"


def _of_block(page: str, line: int, block: str) -> Iterator[Command]:
    """Yield a block's commands; a quote or a backslash at a line's end carries on."""
    begun, gathered = line, ""
    for number, part in enumerate(block.splitlines(), line):
        begun = begun if gathered else number
        gathered += part + "\n"
        if part.endswith("\\"):
            continue
        try:
            words = tuple(shlex.split(gathered.replace("\\\n", " "), comments=True))
        except ValueError:  # a quotation that ends further below
            continue
        if words:
            yield Command(page, begun, " ".join(gathered.replace("\\\n", " ").split()), words)
        gathered = ""
    assert not gathered, f"{page}:{begun}: a command without an end"


def _starts_a_command(words: tuple[str, ...]) -> bool:
    script = words[0].startswith("scripts/") and words[0].endswith(".py") and len(words) > 1
    return script or words[0] == "make" or (words[0] in PROGRAMS and len(words) > 1)


def _without_gaps(shown: str) -> tuple[str, ...]:
    """Return the words of a command in running text; `…` stands for what the reader fills in."""
    try:
        words = shlex.split(shown)
    except ValueError:
        return ()
    return tuple(word for word in words if "…" not in word)
