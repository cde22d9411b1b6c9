"""What a benchmark is: settings, the files behind them, and the samples that come out.

A *protocol* decides through `Rules` what the papers' own code and what is right disagree on; the
benchmark's settings say which file is read and how much of it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, PositiveInt

from memsys.datasets.cut import Cut, Sample
from memsys.datasets.files import FoundFile, described, locate, search_folders, verified
from memsys.datasets.manifest import FileSource, Source, load_source
from memsys.errors import UserError, suggest
from memsys.settings import Settings

log = logging.getLogger(__name__)

__all__ = ["Benchmark", "DatasetInfo", "Found", "Rules", "Sample"]


class Rules(Settings):
    """What a protocol decides about a benchmark's questions.

    `categories`: the only ones asked, by the benchmark's own codes; a benchmark that has none of
    them asks all. `evidence`: LoCoMo's faulty evidence ids repaired, or read as MemGAS's code
    reads them. `category5`: LoCoMo's adversarial questions left out, asked openly with the trap
    as gold (MemGAS), or posed as the official two-way choice whose order `seed` decides.
    `longmemeval_gold`: gold sessions as MemGAS or as LongMemEval's own code finds them.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)

    categories: tuple[str, ...] | None = None
    evidence: Literal["memgas", "repaired"] = "repaired"
    category5: Literal["exclude", "trap", "official"] = "exclude"
    longmemeval_gold: Literal["memgas", "official"] = "official"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The files in use, by key, and whether they are the committed synthetic sample."""

    files: Mapping[str, FoundFile]
    is_sample: bool

    def path(self, key: str) -> Path:
        """Return where the file with this key lies."""
        return self.files[key].path


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What a run's manifest says about its benchmark.

    `version` is raised whenever the loader's output may change; `label` is set where results must
    not stand in a paper's column (annotation metadata, a custom file).
    """

    name: str
    title: str
    release: str
    files: tuple[FoundFile, ...]
    licence: str
    citation: str
    is_sample: bool
    cut: str | None
    version: int
    metadata: str

    @property
    def label(self) -> str | None:
        """Return why the data is not the benchmark itself, or `None`."""
        if self.is_sample:
            return "synthetic sample"
        if self.release in ("custom", "rebuilt"):
            return f"{self.release} file"
        return "annotation metadata" if self.metadata == "dataset" else None

    def plain(self) -> dict[str, Any]:
        """Return the information as JSON values, without any path of this machine."""
        files = [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in self.files]
        names = ("name", "title", "release", "licence", "is_sample", "cut", "version", "metadata")
        return {name: getattr(self, name) for name in names} | {"files": files}


class Benchmark(Settings, ABC):
    """A benchmark: where its files lie and how much of them is read.

    `path` names a file or folder instead of the usual places. `sample=auto` reads the committed
    synthetic sample where no real file is found, `never` refuses to. `metadata=dataset` hands a
    benchmark's own session annotations to the systems (LoCoMo only, and labelled).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[int]
    CATEGORY_NAMES: ClassVar[Mapping[str, str]]
    has_notes: ClassVar[bool] = False

    path: Path | None = None
    sample: Literal["auto", "always", "never"] = "auto"
    metadata: Literal["llm", "dataset"] = "llm"
    max_conversations: PositiveInt | None = None
    max_sessions: PositiveInt | None = None
    limit: PositiveInt | None = None
    conversation: str | None = None  # one conversation alone, by its id
    question: str | None = None  # one question alone, by its id

    @property
    def source(self) -> Source:
        """The benchmark's machine-readable card."""
        return load_source(self.name)

    @property
    def cut(self) -> Cut:
        """How much of the benchmark is read."""
        return Cut(
            self.max_conversations,
            self.max_sessions,
            self.limit,
            self.conversation,
            self.question,
        )

    @abstractmethod
    def release_name(self) -> str:
        """Return the release that the settings ask for, `custom` for a user's own file."""

    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Return the keys, in `source.yaml`, of the files that the settings need."""

    @abstractmethod
    def read(self, found: Found, rules: Rules) -> Iterator[Sample]:
        """Yield every conversation with its questions, before categories and cut are applied."""

    def load(self, rules: Rules) -> Iterator[Sample]:
        """Yield the benchmark one conversation at a time, questions chosen by the rules and cut.

        Raises `UserError` for missing, altered or malformed files, naming the file and record.
        """
        self._check()
        wanted = self._wanted(rules)
        yield from self.cut.apply(
            replace(sample, questions=tuple(q for q in sample.questions if q.category in wanted))
            for sample in self.read(self.find(), rules)
        )

    def info(self) -> DatasetInfo:
        """Return what the manifest records; raises `UserError` where the data is not in order."""
        self._check()
        found = self.find()
        return DatasetInfo(
            name=self.name,
            title=self.title,
            release="sample" if found.is_sample else self.release_name(),
            files=tuple(found.files.values()),
            licence="Apache-2.0 (our own invention)" if found.is_sample else self.source.licence,
            citation=self.source.citation,
            is_sample=found.is_sample,
            cut=self.cut.describe(),
            version=self.version,
            metadata=self.metadata,
        )

    def find(self) -> Found:
        """Return the verified files, or the sample's; raises `UserError` if neither can be used."""
        wanted = self.wanted_files()
        if self.sample == "always":
            return self._sample(wanted)
        places = {file.key: self._place(file) for file in wanted}
        missing = [file for file in wanted if places[file.key] is None]
        if not missing:
            check = described if self.release_name() == "custom" else self._verified
            return Found({f.key: check(places[f.key] or Path(), f) for f in wanted}, False)
        if len(missing) == len(wanted) and self.path is None and self.sample == "auto":
            self._refuse_other_release()
            _say_sample(self.title)
            return self._sample(wanted)
        raise UserError(self._what_to_put_where(missing))

    def wanted_files(self) -> tuple[FileSource, ...]:
        """Return the cards of the files that the settings need."""
        name = self.release_name()
        releases = self.source.releases
        release = releases[name] if name in releases else next(iter(releases.values()))
        return tuple(release.file(key) for key in self.keys())

    def sample_path(self, file: FileSource) -> str:
        """Return where the synthetic stand-in of `file` lies below the sample folder."""
        return file.path

    def _verified(self, path: Path, file: FileSource) -> FoundFile:
        return verified(path, file, self.source)

    def _place(self, file: FileSource) -> Path | None:
        if self.path is None:
            return locate(file, search_folders(self.source))
        if self.path.is_file() and len(self.keys()) == 1:
            return self.path
        return locate(file, [self.path])

    def _sample(self, wanted: tuple[FileSource, ...]) -> Found:
        folder = self.source.folder / "sample"
        files = {f.key: described(folder / self.sample_path(f), f) for f in wanted}
        return Found(files, True)

    def _refuse_other_release(self) -> None:
        """Refuse to fall back to the sample where another release of the benchmark lies."""
        asked = self.release_name()
        for name, release in self.source.releases.items():
            for key in self.keys():
                file = next((f for f in release.files if f.key == key), None)
                place = file and locate(file, search_folders(self.source))
                if name != asked and place and not release.derived:
                    raise UserError(
                        f"{self.title}: {place} is of the release '{name}', but '{asked}' is asked "
                        f"for; set dataset.release={name}, or fetch the other."
                    )

    def _what_to_put_where(self, missing: list[FileSource]) -> str:
        if self.path is not None:
            names = ", ".join(file.path for file in missing)
            return f"{self.title}: dataset.path={self.path} does not hold {names}."
        folders = " or ".join(str(folder) for folder in search_folders(self.source))
        files = "; ".join(f"{file.path} from {file.origin}" for file in missing)
        return (
            f"{self.title} is not here: run `python scripts/fetch.py {self.name}`, or put {files} "
            f"into {folders} (or set MEMSYS_DATA), or allow the synthetic sample with "
            "dataset.sample=auto."
        )

    def _check(self) -> None:
        if self.metadata == "dataset" and not self.has_notes:
            raise UserError(
                f"{self.title} ships no session annotations: metadata=dataset works with LoCoMo "
                "only; use metadata=llm."
            )
        if self.release_name() == "custom" and self.path is None:
            raise UserError(f"{self.title}: dataset.release=custom needs dataset.path.")

    def _wanted(self, rules: Rules) -> set[str]:
        """Return the categories to ask: the rules' where the benchmark has them, else all."""
        known = set(self.CATEGORY_NAMES)
        asked = set(rules.categories or ())
        if not asked & known:
            return known
        if strange := sorted(asked - known):
            raise UserError(
                f"{self.title} has no category '{strange[0]}'.{suggest(strange[0], known)}"
            )
        return asked


@cache
def _say_sample(title: str) -> None:
    """Say once, not once a run, that a benchmark's sample stands in."""
    log.warning("%s is not here: the synthetic sample is read instead", title)
