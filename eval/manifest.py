"""The manifest: everything a reader needs to know how a run's numbers came about."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memsys
from eval.spec import RunSpec

if TYPE_CHECKING:
    from eval.judging import Judging

_PACKAGES = (
    "torch", "transformers", "sentence-transformers", "xgrammar", "openai", "hydra-core",
    "numpy", "scipy", "scikit-learn", "nltk", "rouge-score", "bert-score", "bm25s", "pydantic",
)  # fmt: skip


def write_manifest(spec: RunSpec, judging: Judging | None, *, finished: bool = False) -> None:
    """Write `manifest.json` when a run starts, and again, with its end, when it finishes.

    A run that has been finished stays so when failed questions are asked again.
    """
    path = spec.folder / "manifest.json"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    before = _before(path)
    ended = now if finished else _end(before, spec, judging)
    manifest = {
        "run": spec.fingerprint,
        "dataset": spec.dataset_name,
        "method": spec.method_name,
        "project": {"version": memsys.__version__, "commit": commit()},
        "identity": spec.identity,
        "needs": sorted(spec.needs),
        "dataset_info": spec.dataset.info().plain(),
        "judging": dict(judging.identity) if judging else None,
        "judge_fingerprint": judging.fingerprint if judging else None,
        "configuration": spec.config.without_paths(),
        "choices": dict(spec.config.choices),
        "packages": packages(),
        "python": platform.python_version(),
        "hardware": hardware(),
        "started": before.get("started") or now,
        "finished": ended,
        "encoder_stats": _encoder_stats(spec)
        if finished
        else ended and before.get("encoder_stats"),
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(manifest, indent=1, ensure_ascii=False, default=str) + "\n")
    draft.replace(path)


def _before(path: Path) -> dict[str, Any]:
    """Return the manifest that is there already, or nothing."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _end(before: dict[str, Any], spec: RunSpec, judging: Judging | None) -> str | None:
    """Return when the run was finished before, if it was, and nothing has been thrown away."""
    judged = judging is None or before.get("judge_fingerprint") == judging.fingerprint
    kept = spec.config.values["resume"] and judged
    return before.get("finished") if kept else None


def _encoder_stats(spec: RunSpec) -> dict[str, Any] | None:
    return dict(spec.system.tools.encoder.stats()) if "encoder" in spec.needs else None  # type: ignore[attr-defined]


@cache
def commit() -> str | None:
    """Return the checkout's commit, marked `+` where files differ from it; `None` without git."""
    root = Path(__file__).resolve().parent.parent
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


@cache
def packages() -> dict[str, str]:
    """Return the versions of the packages that can change a number."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Return the machine's processor, cores, memory, and CUDA devices if torch is loaded."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpus": _gpus(),
    }


def _gpus() -> list[str]:
    if "torch" not in sys.modules:  # a run that needs none of it never loads it just for this
        return []
    import torch  # waits where another thread is still loading it

    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None
