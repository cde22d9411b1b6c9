"""docs/troubleshooting.md quotes messages that the program can print, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| (`.+?`) \| ", PAGE, flags=re.MULTILINE)


def source() -> str:
    """All code with adjacent string literals joined and formatted values cut out."""
    files = [
        p
        for room in ("memsys", "eval", "baselines", "scripts")
        for p in (ROOT / room).rglob("*.py")
    ]
    text = "\n".join(p.read_text(encoding="utf-8") for p in [*files, ROOT / "setup.py"])
    text = re.sub(r'"\s*\n\s*f?"', "", text)
    return re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|%s", "…", text)


SOURCE = source()


def pieces(message: str) -> list[str]:
    plain = message.strip("`").replace(r"\`", "`")
    parts = re.split(r"…|` *`|`", plain)
    return [part.strip(" '.:=") for part in parts if len(part.strip(" '.:=")) > 3]


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 50


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_can_be_printed(message: str) -> None:
    assert pieces(message)
    for piece in pieces(message):
        assert piece in SOURCE, piece
