"""What is in the stores, thing by thing: for people, for pruning, and for exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memsys.stores.health import Health
from memsys.stores.memories import MemoryStore
from memsys.stores.segments import SegmentStore, read_segment
from memsys.stores.vectors import Shelf, VectorStore

StoreName = Literal["replies", "memories", "vectors"]
NAMES: tuple[StoreName, ...] = ("replies", "memories", "vectors")


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored thing: a reply, a memory, or the shelf of one encoder's vectors.

    `model` is who made it (the chat models of a memory's build, joined by `+`), `at` when it was
    written (Unix seconds), `calls` what making it took, as ledger calls.
    """

    store: StoreName
    key: str
    model: str
    size: int
    at: float
    items: int
    calls: tuple[Mapping[str, Any], ...] = ()

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens that making it took."""
        return sum(int(c["prompt_tokens"]) + int(c["completion_tokens"]) for c in self.calls)


def survey(folder: Path, stores: tuple[StoreName, ...] = NAMES) -> Iterator[Entry]:
    """Yield everything sound that the stores under `folder` hold; each reply once."""
    if "replies" in stores:
        yield from _replies(folder / "replies")
    if "memories" in stores:
        yield from _memories(MemoryStore(folder / "memories"))
    if "vectors" in stores:
        yield from map(_shelf, VectorStore(folder / "vectors").shelves())


def verify(folder: Path) -> dict[StoreName, Health]:
    """Read and check every byte of the stores under `folder`."""
    return {
        "replies": SegmentStore(folder / "replies").verify(),
        "memories": MemoryStore(folder / "memories").verify(),
        "vectors": VectorStore(folder / "vectors").verify(),
    }


def _replies(folder: Path) -> Iterator[Entry]:
    seen: set[str] = set()
    for segment in SegmentStore(folder).segments():
        written = segment.stat().st_mtime
        for line in read_segment(segment):
            if line.value is None or line.key in seen:
                continue
            seen.add(line.key)
            model = model_name(line.value["model"])
            call = {"model": model, **line.value["usage"]}
            at = float(line.value.get("at", written))
            yield Entry("replies", line.key, model, line.size, at, 1, (call,))


def _memories(store: MemoryStore) -> Iterator[Entry]:
    for key in store.all_keys():
        found = store.read(key) if store.sound(key) else None
        if found is None:
            continue
        calls = tuple({**call, "model": model_name(call["model"])} for call in found[1].calls)
        models = "+".join(sorted({call["model"] for call in calls})) or "no chat model"
        files = [path.stat() for path in store.path(key).iterdir()]
        size, at = sum(f.st_size for f in files), max(f.st_mtime for f in files)
        yield Entry("memories", key, models, size, at, 1, calls)


def _shelf(shelf: Shelf) -> Entry:
    identity = shelf.label["identity"]
    at = max((path.stat().st_mtime for path in shelf.folder.glob("*")), default=0.0)
    model = str(identity.get("model", "?"))
    return Entry("vectors", shelf.folder.name, model, shelf.size_bytes(), at, len(shelf))


def model_name(told: str) -> str:
    """Return a model's id without the fingerprint that its server told along with it."""
    return told.partition(" ")[0] or "?"
