"""`datasets/<name>/source.yaml`: where a benchmark's files come from and how to know them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from memsys.errors import UserError
from memsys.settings import Settings

DATASETS = Path(__file__).resolve().parents[2] / "datasets"


class FileSource(Settings):
    """One published file.

    `path` is where it lies below `$MEMSYS_DATA/<name>/` or `datasets/<name>/data/`. It comes from
    `url`, or from `file` in the Hugging Face data set `hub` at `revision`. An unknown `size` or
    `sha256` is left out: such a file can be read, but not verified. `also` lists other names under
    which it circulates.
    """

    key: str
    path: str
    url: str | None = None
    hub: str | None = None
    revision: str | None = None
    file: str | None = None
    size: int | None = None
    sha256: str | None = None
    also: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """Where a person downloads the file by hand."""
        if self.url is not None:
            return self.url
        return f"huggingface.co/datasets/{self.hub}, file {self.file or '(the one of split test)'}"


class Release(Settings):
    """One release of a benchmark: its files, and where they were published.

    `derived` files are no release of the benchmark itself, only parts to rebuild it from.
    """

    source: str
    derived: bool = False
    files: tuple[FileSource, ...]

    def file(self, key: str) -> FileSource:
        """Return the file with this key."""
        return next(file for file in self.files if file.key == key)


class Variant(Settings):
    """A file that circulates under the same name but is another: known by size and git blob id."""

    size: int
    git_blob: str | None = None
    what: str


class Source(Settings):
    """A benchmark's machine-readable card."""

    name: str
    title: str
    licence: str
    licence_note: str
    homepage: str
    citation: str
    releases: dict[str, Release]
    extras: dict[str, FileSource] = Field(default_factory=dict)
    variants: tuple[Variant, ...] = ()

    @property
    def folder(self) -> Path:
        """The benchmark's folder in this checkout."""
        return DATASETS / self.name


@cache
def load_source(name: str) -> Source:
    """Return the card of the benchmark in `datasets/<name>/`."""
    path = DATASETS / name / "source.yaml"
    try:
        return Source.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError:
        raise UserError(
            f"{path} is missing: run from a clone installed with `pip install -e .`."
        ) from None
    except (ValidationError, yaml.YAMLError) as error:
        raise UserError(f"{path} is not a valid source card: {error}") from None


def source_names() -> list[str]:
    """Return the names of all benchmarks that have a card."""
    return sorted(path.parent.name for path in DATASETS.glob("*/source.yaml"))
