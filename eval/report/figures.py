"""The figures of `results/figures`, as images that cannot run a script."""

from __future__ import annotations

import base64
from pathlib import Path

_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
_LIMIT = 4_000_000  # bytes: a larger figure is named, not embedded


def read_figures(folder: Path) -> list[dict[str, str]]:
    """Return each figure once, its SVG before its PNG, as a data URI; a large one as a note.

    A page shows them through `<img>`, where browsers run no script of an SVG and load nothing.
    """
    found: dict[str, dict[str, str]] = {}
    for suffix, kind in _KINDS.items():
        for path in sorted(folder.glob(f"*{suffix}")):
            if path.stem in found:
                continue
            content = path.read_bytes()
            if len(content) > _LIMIT:
                found[path.stem] = {"name": path.stem, "note": f"{path.name} is too large to embed"}
                continue
            encoded = base64.b64encode(content).decode("ascii")
            found[path.stem] = {"name": path.stem, "src": f"data:{kind};base64,{encoded}"}
    return [found[name] for name in sorted(found)]
