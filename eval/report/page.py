"""One HTML file: styles and scripts inline under a strict policy, data as packed, inert JSON.

Data never becomes markup: it stands in `<script type="application/gzip">` as base64 of gzipped
JSON, where no text of it can be seen, and the page's script builds its nodes from text alone. A
browser unpacks the index when the page opens and any other block when it is looked at.
"""

from __future__ import annotations

import base64
import gzip
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
    """Return the page's whole script: every module inside one strict, asynchronous function."""
    parts = [(ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(["(async () => {", '"use strict";', *parts, "})();"])


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


def packed_block(name: str, value: Any) -> str:
    """Return a value as an inert block: JSON, gzipped, in base64 (`base64 -d | gunzip` reads it).

    The same value gives the same block: no time is written into it.
    """
    packed = base64.b64encode(gzip.compress(dumps(value), compresslevel=9, mtime=0))
    return f'<script type="application/gzip" id="{html.escape(name)}">{packed.decode()}</script>\n'


def page(title: str, index: Any, blocks: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the file piece by piece; `index` is read at once, the named blocks on demand."""
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
    yield packed_block("index", index)
    for name, value in blocks:
        yield packed_block(name, value)
    yield f"<script>{scripts}</script>\n</body>\n</html>\n"


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
