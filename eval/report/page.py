"""One HTML file: styles and scripts inline under a strict policy, data as inert JSON.

Data never becomes markup: it stands in `<script type="application/json">` with every `<` escaped,
and the page's script builds its nodes from text alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from memsys.stores.plain import dumps

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = (
    "dom.js", "format.js", "data.js", "route.js", "overview.js", "breakdown.js", "traces.js",
    "filters.js", "list.js", "question.js", "main.js",
)  # fmt: skip
"""The modules in the order in which they are joined."""


def script() -> str:
    """Return the page's whole script: every module inside one strict function."""
    parts = [(ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(["(() => {", '"use strict";', *parts, "})();"])


def style() -> str:
    """Return the page's style sheet."""
    return (ASSETS / "report.css").read_text(encoding="utf-8")


def policy(styles: str, scripts: str) -> str:
    """Return the content security policy: these very styles and scripts, data images, no else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src 'sha256-{_sha256(styles)}'",
            f"script-src 'sha256-{_sha256(scripts)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def json_block(name: str, value: Any) -> str:
    """Return a value as an inert block of JSON that no text in it can end or open.

    U+2028 and U+2029 are escaped as well, for readers that take JSON for JavaScript.
    """
    text = dumps(value).decode("utf-8")
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>\n'


def page(title: str, index: Any, chunks: Iterable[Any]) -> Iterator[str]:
    """Yield the file piece by piece; `index` is read at once, each of `chunks` when needed."""
    styles, scripts = style(), script()
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(styles, scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{styles}</style>\n</head>\n<body>\n"
        "<noscript>This report needs JavaScript; it loads nothing from any network.</noscript>\n"
        '<div id="app"></div>\n'
    )
    yield json_block("index", index)
    for number, chunk in enumerate(chunks):
        yield json_block(f"chunk-{number}", chunk)
    yield f"<script>{scripts}</script>\n</body>\n</html>\n"


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
