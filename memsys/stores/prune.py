"""Taking things out of the stores: chosen beforehand, shown, and only then removed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from memsys.stores.memories import DRAFT, MemoryStore
from memsys.stores.segments import SegmentStore
from memsys.stores.survey import Entry

_OLD_DRAFT = 3600.0  # seconds; a younger draft may be some process's memory in the making


def prune(folder: Path, entries: Iterable[Entry]) -> list[Path]:
    """Remove `entries` from the stores under `folder`.

    Returns the segments of replies that were left alone, as a running process writes to them.
    """
    chosen = list(entries)
    busy: list[Path] = []
    replies = {entry.key for entry in chosen if entry.store == "replies"}
    if replies:
        busy = SegmentStore(folder / "replies").drop(replies)
    memories = MemoryStore(folder / "memories")
    for entry in chosen:
        if entry.store == "memories":
            shutil.rmtree(memories.path(entry.key))
        elif entry.store == "vectors":
            shutil.rmtree(folder / "vectors" / entry.key)
    return busy


def mend(folder: Path) -> list[Path]:
    """Remove what is damaged or torn, so that a check is clean; nothing sound is touched.

    Damaged vectors stay: they count as absent, and their texts are embedded once more. Returns
    the segments that were left alone.
    """
    busy = SegmentStore(folder / "replies").drop(())
    memories = MemoryStore(folder / "memories")
    for key in list(memories.all_keys()):
        if not memories.sound(key):
            shutil.rmtree(memories.path(key))
    for draft in memories.folder.glob(f"??/{DRAFT}*"):
        if draft.stat().st_mtime < time.time() - _OLD_DRAFT:
            shutil.rmtree(draft)
    return busy
