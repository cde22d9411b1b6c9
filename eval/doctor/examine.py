"""Is this machine ready? Every line is fine, a warning or missing, with what mends it.

Torch is never imported and no model is loaded: the whole examination takes a few seconds.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from eval.config import ROOT
from eval.doctor.lines import Line, Status
from eval.measures.registry import parse
from memsys.datasets.files import BIG_FILE, CHECKSUMS, locate, search_folders, verified
from memsys.datasets.manifest import FileSource, Source, load_source, source_names
from memsys.errors import UserError

GIB = 2**30
DISK, MEMORY = 5 * GIB, 4 * GIB
"""What an embedded table takes: the packages and stores; SmolLM2 and the encoder in memory."""

_EXCLUSIVE = ("faiss-cpu", "faiss-gpu")
_LOOK = 1.0  # seconds spent on adding up the stores


def examine(profile: str, results: Path) -> Iterator[Line]:
    """Yield every line of the report for a profile."""
    from eval.doctor.models import keys, models

    yield from machine(results)
    yield from gpu(profile)
    yield from packages()
    yield from data()
    yield from measures()
    yield from models(profile)
    yield from keys(profile)
    yield from stores(results)


def machine(results: Path) -> Iterator[Line]:
    """Look at Python, disk and memory."""
    wanted = _project()["requires-python"]
    version = ".".join(str(part) for part in sys.version_info[:3])
    fits = Requirement(f"python{wanted}").specifier.contains(version, prereleases=True)
    mend = f"install Python {wanted}, then: make setup PYTHON=…"
    yield _needed("machine", f"Python {version}", fits, f"Python {wanted} is wanted: {mend}")
    free = shutil.disk_usage(_existing(results)).free
    yield Line(
        "machine",
        f"disk: {free / GIB:.0f} GiB free for results",
        "ok" if free >= DISK else "warn",
        "" if free >= DISK else f"free {DISK // GIB} GiB, or set paths.results elsewhere",
    )
    memory = memory_bytes()
    if memory is not None:
        yield Line(
            "machine",
            f"memory: {memory / GIB:.0f} GiB, {os.cpu_count()} cores",
            "ok" if memory >= MEMORY else "warn",
            "" if memory >= MEMORY else "llm.main.concurrency=2 takes less memory",
        )


def memory_bytes() -> int | None:
    """Return the machine's memory, or what a container allows of it."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    try:
        allowed = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return whole
    return min(whole, allowed)


def _needed(area: str, text: str, fine: bool, mend: str) -> Line:
    return Line(area, text, "ok" if fine else "missing", "" if fine else mend, needed=True)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.resolve().parents) if place.exists())


def gpu(profile: str) -> Iterator[Line]:
    """Look for CUDA devices and a torch that can use them."""
    built = torch_cuda()
    cards = _cards()
    needs = profile != "embedded"
    if not cards:
        text = "no CUDA GPU" + ("" if needs else ": none is needed here")
        mend = "encoders of a paper are slow without one; models may be served elsewhere"
        yield Line("gpu", text, "warn" if needs else "ok", mend if needs else "")
        return
    yield Line("gpu", f"CUDA: {', '.join(cards)}", "ok")
    mend = "" if built else "pip install torch from the CUDA index (pytorch.org/get-started)"
    text = f"torch is built for {f'CUDA {built}' if built else 'the CPU alone'}"
    yield Line("gpu", text, "ok" if built else "warn", mend)


def _cards() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=3, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def torch_cuda() -> str:
    """Return the CUDA version that torch was built for, read from its files; empty for none."""
    spec = find_spec("torch")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        try:
            text = (Path(place) / "version.py").read_text(encoding="utf-8")
        except OSError:
            continue
        if found := re.search(r"^cuda\b[^=]*=\s*'([^']+)'", text, re.MULTILINE):
            return found[1]
    return ""


def _project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def packages() -> Iterator[Line]:
    """Compare what is installed with the bounds of pyproject.toml."""
    project = _project()
    wanted = [Requirement(text) for text in project["dependencies"]]
    faults = list(_faults(wanted))
    if not faults:
        yield Line("packages", f"{len(wanted)} packages, all within their bounds", "ok")
    for fault in faults:
        yield Line("packages", fault, "missing", "pip install -e .", needed=True)
    there: list[str] = []
    absent: list[str] = []
    for extra, texts in project["optional-dependencies"].items():
        bad = list(_faults(Requirement(text) for text in texts))
        (absent if bad else there).append(extra)
    if any(extra in there for extra in _EXCLUSIVE):
        absent = [extra for extra in absent if extra not in _EXCLUSIVE]
    yield Line("packages", f"extras: {', '.join(there) or 'none'}", "ok")
    if absent:
        mend = f'pip install -e ".[{absent[0]}]", where you want it'
        yield Line("packages", f"extras not installed: {', '.join(absent)}", "warn", mend)


def _faults(wanted: Iterable[Requirement]) -> Iterator[str]:
    for requirement in wanted:
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield f"{requirement.name} is not installed"
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} {version}, wanted {requirement.specifier}"


def data() -> Iterator[Line]:
    """Look for the real files of every benchmark, release by release."""
    for name in source_names():
        source = load_source(name)
        lines = []
        for release, of in source.releases.items():
            places = {file.key: locate(file, search_folders(source)) for file in of.files}
            found = [_file(source, release, f, p) for f in of.files if (p := places[f.key])]
            if not of.derived:
                lines += _summed(found, f"{source.title}, {release}: {len(found)} files verified")
        mend = f"python scripts/fetch.py {name}"
        nothing = Line("data", f"{source.title}: the synthetic sample only", "warn", mend)
        yield from lines or [nothing]


def _summed(lines: list[Line], text: str) -> list[Line]:
    """Return one line for several files that are all in order."""
    if len(lines) > 1 and all(line.text.endswith(": verified") for line in lines):
        return [Line("data", text, "ok")]
    return lines


def _file(source: Source, release: str, file: FileSource, place: Path) -> Line:
    told = f"{source.title}, {release}: {file.path}"
    size = place.stat().st_size
    if size >= BIG_FILE and size == file.size and not _hashed(place):
        return Line("data", f"{told}: right size, checksum not computed yet", "ok")
    try:
        verified(place, file, source)
    except UserError as error:
        return Line("data", f"{told}: {error}", "missing", f"python scripts/fetch.py {source.name}")
    state = "verified" if file.sha256 else "found; no checksum was published"
    return Line("data", f"{told}: {state}", "ok")


def _hashed(place: Path) -> bool:
    """Whether a big file's checksum is remembered, so that asking for it takes no time."""
    try:
        return str(place.resolve()) in json.loads(CHECKSUMS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def measures() -> Iterator[Line]:
    """Look for what some measures need beside the packages."""
    for name in ("meteor", "bertscore"):
        measure = parse(name)
        reason = measure.unavailable()
        status: Status = "warn" if reason else "ok"
        yield Line("measures", measure.label, status, reason or "")


def stores(results: Path) -> Iterator[Line]:
    """Look at what is written: the results folder and the stores in it."""
    place = _existing(results)
    writable = os.access(place, os.W_OK)
    mend = "make it writable, or set paths.results to another folder"
    yield _needed(
        "results", f"{results}: {'writable' if writable else 'read-only'}", writable, mend
    )
    runs = len(list((results / "runs").glob("*/*/*/manifest.json")))
    sizes = []
    for name in ("replies", "memories", "vectors"):
        size, whole = _size(results / "stores" / name)
        sizes.append(f"{name} {'' if whole else 'over '}{size / 2**20:,.0f} MiB")
    yield Line("results", f"{runs} runs; stores: {', '.join(sizes)}", "ok")


def _size(folder: Path) -> tuple[int, bool]:
    """Return the bytes below a folder, and whether all of it was added up in time."""
    total, end = 0, time.monotonic() + _LOOK
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except OSError:
                continue  # removed meanwhile
        if time.monotonic() > end:
            return total, False
    return total, True
