"""Finding a benchmark's files and making sure that they are the published ones."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from memsys.datasets.manifest import FileSource, Source
from memsys.errors import UserError

BIG_FILE = 64 * 2**20
"""Files above this size (bytes) have their checksum remembered between runs."""

CHECKSUMS = Path("results/stores/checksums.json")
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in use: its role, its name as published, and what it is."""

    key: str
    name: str
    size: int
    sha256: str
    path: Path = field(compare=False)


def search_folders(source: Source) -> list[Path]:
    """Return where a benchmark's files are looked for: `$MEMSYS_DATA/<name>`, then the checkout."""
    folders = [source.folder / "data"]
    if root := os.environ.get("MEMSYS_DATA"):
        folders.insert(0, Path(root).expanduser() / source.name)
    return folders


def locate(file: FileSource, folders: Iterable[Path]) -> Path | None:
    """Return the file's place in the first folder that has it (by path, bare name, other name)."""
    for folder in folders:
        for candidate in (folder / n for n in (file.path, Path(file.path).name, *file.also)):
            if candidate.is_file():
                return candidate
    return None


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256, remembered while its size, time and inode stay the same."""
    stat = path.stat()
    return _sha256(path.resolve(), stat.st_size, stat.st_mtime_ns, stat.st_ino)


def verified(path: Path, file: FileSource, source: Source) -> FoundFile:
    """Return the file at `path` if it is the published `file`, or raise a `UserError`.

    A file of which no checksum was published is taken as it is; its own is recorded.
    """
    found = described(path, file)
    if file.sha256 is not None and found.sha256 != file.sha256:
        raise UserError(f"{path} is not {file.path} as published: {_explain(found, file, source)}")
    return found


def described(path: Path, file: FileSource) -> FoundFile:
    """Return the file at `path` with its size and checksum, unverified."""
    try:
        return FoundFile(file.key, file.path, path.stat().st_size, sha256_of(path), path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None


def known_release(sha256: str, source: Source) -> tuple[str, FileSource] | None:
    """Return the release and file that have this checksum, if any."""
    for name, release in source.releases.items():
        for file in release.files:
            if file.sha256 == sha256:
                return name, file
    return None


def _explain(found: FoundFile, file: FileSource, source: Source) -> str:
    """Say what the file is instead."""
    if known := known_release(found.sha256, source):
        release, other = known
        return f"it is {other.path} of the release '{release}' (set dataset.release={release})."
    with found.path.open("rb") as stream:
        start = stream.read(512).lstrip()
    if start[:1] == b"<":
        return "it is a web page; download the raw file."
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer; download the file itself."
    for variant in source.variants:
        if variant.size == found.size and _has_blob(found.path, variant.git_blob):
            return f"it is {variant.what}"
    if file.size is not None and found.size < file.size:
        return (
            f"it has {found.size:,} of {file.size:,} bytes, so the download broke off; "
            f"run `python scripts/fetch.py {source.name}`."
        )
    return (
        f"its sha256 is {found.sha256[:16]}…, expected {(file.sha256 or '')[:16]}… "
        f"({found.size:,} bytes, expected {file.size or 0:,}); an altered copy can be read "
        "with dataset.release=custom and dataset.path, and its results say so."
    )


def _has_blob(path: Path, prefix: str | None) -> bool:
    """Tell whether the file's git blob id starts with `prefix`."""
    if prefix is None:
        return True
    data = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return blob.hexdigest().startswith(prefix)


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, mtime_ns: int, inode: int) -> str:
    if size < BIG_FILE:
        return hash_file(path)
    key = f"{size}:{mtime_ns}:{inode}"
    remembered = _remembered()
    if remembered.get(str(path), "").startswith(f"{key}="):
        return remembered[str(path)].split("=", 1)[1]
    digest = hash_file(path)
    _remember({**remembered, str(path): f"{key}={digest}"})
    return digest


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _remembered() -> dict[str, str]:
    try:
        content = json.loads(CHECKSUMS.read_text(encoding="utf-8"))
        return {str(key): str(value) for key, value in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _remember(checksums: Mapping[str, str]) -> None:
    """Store checksums; a read-only checkout only costs the time to compute them again."""
    try:
        CHECKSUMS.parent.mkdir(parents=True, exist_ok=True)
        temporary = CHECKSUMS.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(checksums, indent=1), encoding="utf-8")
        temporary.replace(CHECKSUMS)
    except OSError:
        return
