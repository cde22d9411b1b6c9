"""A hook of mkdocs: `<!-- card: NAME -->` becomes the card datasets/NAME/README.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DATASETS = Path(__file__).resolve().parents[1] / "datasets"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the cards in, one heading lower."""

    def card(found: re.Match[str]) -> str:
        text = (DATASETS / found[1] / "README.md").read_text(encoding="utf-8")
        return re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)

    return re.sub(r"<!-- card: (\w+) -->", card, markdown)
