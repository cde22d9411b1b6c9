"""Exports: runs, and what the stores hold of them, in one file that another machine can take in.

An export is a zip file: `memsys-export.json` says what is in it, `runs/…` are the runs' files,
`replies.seg` a segment, `memories/<key>/…` the memories' files, `vectors/<shelf>/…` the shelves.
Nothing in it is executed or unpickled on import; names are checked against what an export may hold,
contents against their checksums, and what is already here is never overwritten.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memsys.errors import UserError
from memsys.llm.replies import read_reply
from memsys.stores.memories import MemoryStore, read_memory
from memsys.stores.segments import SegmentStore, parse_line, read_segment, segment_line
from memsys.stores.vectors import Shelf, VectorStore, rows_of_bytes

INDEX = "memsys-export.json"
FORMAT = 1
_RUN_FILES = {".json", ".jsonl", ".csv", ".md", ".txt", ".yaml"}
_RUN = re.compile(r"runs(?:/[A-Za-z0-9][\w.=+-]*){2,6}")
_MEMORY = re.compile(r"memories/([0-9a-f]{16,64})/(units\.jsonl|arrays\.npz|meta\.json)")
_SHELF = re.compile(r"vectors/([0-9a-f]{32})/(identity\.json|rows)")
_REPLY_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Cargo:
    """What to export: run folders, keys of replies and memories, shelves of vectors."""

    runs: Sequence[Path] = ()
    replies: frozenset[str] = frozenset()
    memories: frozenset[str] = frozenset()
    shelves: Sequence[Shelf] = ()


@dataclass
class Taken:
    """What an import did: how many of each kind were new, here already, different, or damaged."""

    new: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def export(
    target: Path, cargo: Cargo, *, stores: Path, results: Path, secrets: Mapping[str, str]
) -> Counter[str]:
    """Write `cargo` to the zip file `target`; returns how many of each kind are in it.

    Raises `UserError`, and leaves no file, if any content holds one of `secrets` (values by name).
    """
    count: Counter[str] = Counter()
    if target.exists():
        raise UserError(f"{target} is there already: name another file.")
    draft = target.with_name(f".{target.name}.draft")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for name, kind, chunks in _contents(cargo, stores, results):
                with archive.open(name, "w", force_zip64=True) as file:
                    for chunk in chunks:
                        _refuse_secrets(name, chunk, secrets)
                        file.write(chunk)
                        count[kind] += kind == "replies"
                count[kind] += kind != "replies"
            note = {"format": FORMAT, "holds": dict(count)}
            archive.writestr(INDEX, json.dumps(note, indent=1))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return count


def take_in(source: Path, *, stores: Path, results: Path) -> Taken:
    """Import an export; raises `UserError` if it is none, or holds what no export may hold."""
    taken = Taken()
    try:
        with zipfile.ZipFile(source) as archive:
            names = _checked_names(archive, source)
            free = shutil.disk_usage(_existing(stores)).free
            if sum(info.file_size for info in archive.infolist()) > free:
                raise UserError(f"{source} would not fit on the disk of {stores}.")
            _take_replies(archive, names, SegmentStore(stores / "replies"), taken)
            _take_memories(archive, names, MemoryStore(stores / "memories"), taken)
            _take_vectors(archive, names, VectorStore(stores / "vectors"), taken)
            _take_runs(archive, names, results, taken)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise UserError(f"{source} cannot be taken in: {error}.") from error
    return taken


def _contents(
    cargo: Cargo, stores: Path, results: Path
) -> Iterator[tuple[str, str, Iterable[bytes]]]:
    for run in cargo.runs:
        for path in sorted(run.iterdir()):
            if path.is_file() and path.suffix in _RUN_FILES and not path.name.startswith("."):
                yield path.relative_to(results).as_posix(), "run files", [path.read_bytes()]
    if cargo.replies:
        yield "replies.seg", "replies", _reply_lines(stores / "replies", cargo.replies)
    memories = MemoryStore(stores / "memories")
    for key in sorted(cargo.memories):
        if memories.sound(key):
            for path in sorted(memories.path(key).iterdir()):
                yield f"memories/{key}/{path.name}", "memory files", [path.read_bytes()]
    for shelf in cargo.shelves:
        label = json.dumps(shelf.label, sort_keys=True).encode()
        yield f"vectors/{shelf.folder.name}/identity.json", "shelves", [label]
        yield f"vectors/{shelf.folder.name}/rows", "shelf files", shelf.rows_as_bytes()


def _reply_lines(folder: Path, wanted: frozenset[str]) -> Iterator[bytes]:
    left = set(wanted)
    for segment in SegmentStore(folder).segments():
        for line in read_segment(segment):
            if line.value is not None and line.key in left:
                left.discard(line.key)
                yield segment_line(line.key, line.value)


def _refuse_secrets(name: str, content: bytes, secrets: Mapping[str, str]) -> None:
    for variable, value in secrets.items():
        if len(value) >= 8 and value.encode() in content:
            raise UserError(f"Nothing was exported: {name} holds the value of {variable}.")


def _checked_names(archive: zipfile.ZipFile, source: Path) -> list[str]:
    names = archive.namelist()
    if INDEX not in names or len(set(names)) < len(names):
        raise UserError(f"{source} is no export of this project (scripts/store.py export).")
    if json.loads(archive.read(INDEX)).get("format") != FORMAT:
        raise UserError(f"{source} has another format: export it again with this version.")
    for name in names:
        kinds = (_RUN, _MEMORY, _SHELF)
        known = name in (INDEX, "replies.seg") or any(kind.fullmatch(name) for kind in kinds)
        if not known or ".." in name or (name.startswith("runs/") and not _is_run_file(name)):
            raise UserError(f"{source} holds {name!r}, which no export has: nothing was taken in.")
    return names


def _is_run_file(name: str) -> bool:
    return Path(name).suffix in _RUN_FILES


def _take_replies(
    archive: zipfile.ZipFile, names: list[str], store: SegmentStore, taken: Taken
) -> None:
    if "replies.seg" not in names:
        return
    with archive.open("replies.seg") as lines:
        for raw in lines:
            line = parse_line(raw)
            if line.value is None or not _REPLY_KEY.fullmatch(line.key) or not _sound(line.value):
                taken.damaged.append("a reply")
                continue
            here = store.get(line.key)
            if here is None:
                store.put(line.key, line.value)
                taken.new["replies"] += 1
            elif here["text"] == line.value["text"]:
                taken.same["replies"] += 1
            else:
                taken.differing.append(f"reply {line.key[:16]}")
    store.close()


def _sound(value: Any) -> bool:
    try:
        read_reply("", value)
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _take_memories(
    archive: zipfile.ZipFile, names: list[str], store: MemoryStore, taken: Taken
) -> None:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name in names:
        if match := _MEMORY.fullmatch(name):
            found[match[1]][match[2]] = name
    for key, files in found.items():
        contents = {part: archive.read(name) for part, name in files.items()}
        try:
            read_memory(contents)
        except ValueError:
            taken.damaged.append(f"memory {key[:16]}")
            continue
        here = store.path(key)
        if not store.sound(key):
            store.put_files(key, contents)
            taken.new["memories"] += 1
        elif all((here / part).read_bytes() == content for part, content in contents.items()):
            taken.same["memories"] += 1
        else:
            taken.differing.append(f"memory {key[:16]}")


def _take_vectors(
    archive: zipfile.ZipFile, names: list[str], store: VectorStore, taken: Taken
) -> None:
    for name in names:
        match = _SHELF.fullmatch(name)
        if match is None or match[2] != "rows":
            continue
        try:
            label = json.loads(archive.read(f"vectors/{match[1]}/identity.json"))
            shelf = store.shelf(label["identity"], int(label["dimension"]))
            keys, vectors, tokens = rows_of_bytes(archive.read(name), shelf.dimension)
        except (KeyError, TypeError, ValueError):
            taken.damaged.append(f"vectors {match[1]}")
            continue
        if shelf.folder.name != match[1]:
            taken.damaged.append(f"vectors {match[1]}")
            continue
        before = len(shelf)
        shelf.put(keys, vectors, tokens)
        taken.new["vectors"] += len(shelf) - before
        taken.same["vectors"] += len(keys) - (len(shelf) - before)
    store.close()


def _take_runs(archive: zipfile.ZipFile, names: list[str], results: Path, taken: Taken) -> None:
    runs: dict[str, dict[str, bytes]] = defaultdict(dict)
    for name in names:
        if name.startswith("runs/"):
            folder, _, file = name.rpartition("/")
            runs[folder][file] = archive.read(name)
    for folder, files in runs.items():
        if not all(_parses(name, content) for name, content in files.items()):
            taken.damaged.append(folder)
            continue
        here = {p.name: p.read_bytes() for p in (results / folder).glob("*") if p.name in files}
        if any(files[name] != content for name, content in here.items()):
            taken.differing.append(folder)
        elif here == files:
            taken.same["runs"] += 1
        else:
            _write_run(results / folder, {k: v for k, v in files.items() if k not in here})
            taken.new["runs"] += 1


def _parses(name: str, content: bytes) -> bool:
    try:
        if name.endswith(".json"):
            json.loads(content)
        elif name.endswith(".jsonl"):
            for line in content.splitlines():
                json.loads(line)
    except ValueError:
        return False
    return True


def _write_run(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # the manifest last: a folder with one is a run
    for name in sorted(files, key=lambda name: name == "manifest.json"):
        draft = folder / f"{name}.draft"
        draft.write_bytes(files[name])
        draft.replace(folder / name)


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)
