"""What a measure is: a value that compares, hashes and prints its own definition.

A measure gives one value a question (`per_item`) or, if it is a *corpus* measure, counts a
question that are summed before anything is divided. Aggregation lives in `eval.scoring`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from eval.measures.item import Item
from eval.measures.postprocess import POSTPROCESS
from memsys.errors import UserError

Need = Literal["answer", "ranking", "judgement"]
Counts = tuple[int, ...]


@dataclass(frozen=True)
class Measure(ABC):
    """One metric; values lie on the 0–1 scale.

    `needs` is what it reads of an item; `lattice` says that each question scores 0 or 1, so that
    every mean is a whole number of questions over their count. Raise `version` whenever the
    numbers may change.
    """

    needs: ClassVar[Need]
    heading: ClassVar[str]
    detail: ClassVar[str] = ""
    lattice: ClassVar[bool] = False
    higher_is_better: ClassVar[bool] = True
    version: ClassVar[int] = 1

    @property
    @abstractmethod
    def name(self) -> str:
        """The short name, as commands and files use it."""

    @property
    def label(self) -> str:
        """What papers print over the column."""
        return self.heading

    @property
    def definition(self) -> str:
        """What distinguishes this measure from others of the same label."""
        return self.convention

    @property
    def convention(self) -> str:
        """The computation's conventions; a fixed `detail`, unless they have parameters."""
        return self.detail

    @property
    def title(self) -> str:
        """The whole definition."""
        return f"{self.label} ({self.definition})"

    def describe(self, items: Sequence[Item], n: int) -> str:
        """Return the title with what only the scored items tell, such as the denominator."""
        found = "".join(f"; {kind}: {what}" for kind, what in self.resources().items())
        count = f"k/{n}" if self.lattice else f"n={n}"
        return f"{self.label} ({self.definition}{found}; {count})"

    def unavailable(self) -> str | None:
        """Return why this machine cannot compute the measure, and what mends it."""
        return None

    def resources(self) -> dict[str, str]:
        """Return which optional data the numbers rest on, for the run's metadata."""
        return {}

    @abstractmethod
    def expects(self, item: Item) -> bool:
        """Whether the item has the gold that this measure needs, be it answered or not."""

    @abstractmethod
    def per_item(self, items: Sequence[Item]) -> list[float | None]:
        """Return a value an item; `None` where the measure does not apply or the item failed."""

    def __str__(self) -> str:
        """Return the short name."""
        return self.name


@dataclass(frozen=True)
class ItemMeasure(Measure):
    """A measure of single questions."""

    @abstractmethod
    def value(self, item: Item) -> float | None:
        """Score one item that is expected and has not failed."""

    def per_item(self, items: Sequence[Item]) -> list[float | None]:
        """Score each item on its own."""
        return [None if i.failed or not self.expects(i) else self.value(i) for i in items]


@dataclass(frozen=True)
class CorpusMeasure(Measure):
    """A measure of all questions together, computed from summed counts, never averaged."""

    @abstractmethod
    def counts(self, items: Sequence[Item]) -> list[Counts | None]:
        """Return the counts of each item; `None` where the measure does not apply."""

    @abstractmethod
    def empty_counts(self, item: Item) -> Counts:
        """Return the counts of an empty answer to this item."""

    @abstractmethod
    def from_counts(self, total: Counts) -> float:
        """Return the measure for summed counts."""

    def per_item(self, items: Sequence[Item]) -> list[float | None]:
        """Return `None` for each item: there is no value for a single question."""
        return [None] * len(items)


@dataclass(frozen=True)
class TextMeasure(Measure):
    """A measure that compares the answer with the reference, after its post-processing."""

    needs: ClassVar[Need] = "answer"
    base_name: ClassVar[str]

    post: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a post-processing that does not exist."""
        if self.post and self.post not in POSTPROCESS:
            raise UserError(f"There is no post-processing '{self.post}' of answers.")

    @property
    def short_name(self) -> str:
        """The name without its prefix."""
        return self.base_name

    @property
    def name(self) -> str:
        """The short name, with the post-processing as its prefix."""
        return f"{self.post}:{self.short_name}" if self.post else self.short_name

    @property
    def definition(self) -> str:
        """The conventions, and the post-processing of answers."""
        after = f"; answers after {self.post} post-processing" if self.post else ""
        return self.convention + after

    def expects(self, item: Item) -> bool:
        """Whether there is a reference, and answering was tried."""
        return item.reference is not None and (item.asked or item.failed)

    def prediction(self, item: Item) -> str:
        """Return the post-processed answer; a null answer is an empty one."""
        text = item.answer or ""
        return POSTPROCESS[self.post](text) if self.post else text


@dataclass(frozen=True)
class PairMeasure(TextMeasure, ItemMeasure):
    """A text measure of one (answer, reference) pair."""

    @abstractmethod
    def score(self, prediction: str, reference: str) -> float:
        """Compare two texts."""

    def value(self, item: Item) -> float | None:
        """Compare the item's answer with its reference."""
        return self.score(self.prediction(item), item.reference or "")
