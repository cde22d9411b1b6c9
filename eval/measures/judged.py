"""Measures that read a judge's verdict from the record; judging itself is `eval.judge`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from eval.agreement import Agreement, of_verdicts
from eval.measures.base import ItemMeasure, Need
from eval.measures.item import Item


@dataclass(frozen=True)
class Judged(ItemMeasure):
    """One score of one judge; a question without a verdict is excluded and counted.

    `judge` names the judge in `Item.judgements`, `score` the entry of its `scores`.
    """

    short_name: str
    judge: str
    score: str
    column: str
    scale: str

    needs: ClassVar[Need] = "judgement"

    @property
    def name(self) -> str:
        """The short name."""
        return self.short_name

    @property
    def label(self) -> str:
        """What papers print over the column."""
        return self.column

    @property
    def convention(self) -> str:
        """The judge and its scale."""
        return self.scale

    def describe(self, items: Sequence[Item], n: int) -> str:
        """Return the title with the judging models, their prompts, and the denominator."""
        verdicts = [i.judgements[self.judge] for i in items if self.judge in i.judgements]
        models = sorted({str(v["model"]) for v in verdicts if v.get("model")})
        prompts = sorted({str(p) for v in verdicts for p in v.get("prompts", ())})
        count = f"k/{n}" if self.lattice and not _repeated(verdicts) else f"n={n}"
        by = [", ".join(models) or "unknown model", ", ".join(prompts) or "unknown prompt"]
        by += _repetition(verdicts, self.agreement(items))
        return f"{self.label} ({'; '.join([self.definition, *by, count])})"

    def agreement(self, items: Sequence[Item]) -> Agreement | None:
        """Return how repeated verdicts on the same answers agree; `None` if none were repeated."""
        verdicts = [i.judgements[self.judge] for i in items if self.judge in i.judgements]
        return of_verdicts(verdicts, self.score, "nominal" if self.lattice else "ordinal")

    def expects(self, item: Item) -> bool:
        """Every question can be judged."""
        return item.asked or item.failed

    def value(self, item: Item) -> float | None:
        """Return the verdict's score, or `None` without a verdict."""
        scores = item.judgements.get(self.judge, {}).get("scores") or {}
        found = scores.get(self.score)
        return None if found is None else float(found)


def _repeated(verdicts: Sequence[Mapping[str, Any]]) -> bool:
    return any(len(v.get("samples", ())) > 1 for v in verdicts)


def _repetition(verdicts: Sequence[Mapping[str, Any]], found: Agreement | None) -> list[str]:
    """Say how often each answer was judged, how one verdict was made of it, and how they agree."""
    if found is None:
        return []
    times = sorted({len(v.get("samples", ())) for v in verdicts})
    how = sorted({str(v.get("combine", "mean")) for v in verdicts})
    samples = "–".join(str(n) for n in dict.fromkeys((times[0], times[-1])))
    return [f"{'/'.join(how)} of {samples} verdicts, {found.words()}"]


@dataclass(frozen=True)
class BinaryJudged(Judged):
    """A verdict of 0 or 1."""

    lattice: ClassVar[bool] = True


_GVD = "MGRetrieval, GVD"
MEASURES = {
    found.name: partial(
        type(found), found.name, found.judge, found.score, found.column, found.scale
    )
    for found in (
        BinaryJudged("judge_memgas", "memgas", "correct", "GPT4o-J", "MemGAS's binary judge"),
        BinaryJudged(
            "judge_longmemeval", "longmemeval", "correct", "Accuracy", "LongMemEval's judge"
        ),
        BinaryJudged("judge_gvd_acc", "gvd", "acc", "Acc.", f"{_GVD}: memories retrieved, 0/1"),
        Judged("judge_gvd_corr", "gvd", "corr", "Corr.", f"{_GVD}: answer right, 0/0.5/1"),
        Judged("judge_gvd_cohe", "gvd", "cohe", "Cohe.", f"{_GVD}: coherence, 0/0.5/1"),
    )
}
