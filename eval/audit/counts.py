"""Our own counts of the benchmarks, where their files are here; the reason where they are not."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from eval.measures.f1_set import F1Set
from memsys.datasets.base import Benchmark, Rules, Sample
from memsys.datasets.configured import configured
from memsys.datasets.statistics import Statistics, collect
from memsys.datasets.tokens import MEND, Counter, o200k
from memsys.dialogue import Session
from memsys.errors import UserError
from memsys.rendering import (
    Span,
    dated_text,
    exchanges,
    pair_text,
    plain_line,
    single_turns,
    span_text,
    turn_pairs,
)

OPEN_RULES = Rules(evidence="memgas", category5="trap")
"""Every question as MemGAS's code reads it."""

FOUR = Rules(categories=("1", "2", "3", "4"))
"""MGRetrieval's questions: LoCoMo without the adversarial ones."""


@dataclass(frozen=True)
class Missing:
    """A benchmark that cannot be counted here."""

    reason: str


class Counts:
    """Everything counted of one benchmark under both papers' rules; nothing of it is kept."""

    def __init__(self, benchmark: Benchmark, counter: Counter | None) -> None:
        """Count `benchmark` with `counter` for tokens (`None`: no token count)."""
        self._benchmark = benchmark
        self.counter = counter

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """The conversations with all their questions."""
        return list(self._benchmark.load(OPEN_RULES))

    @cached_property
    def four_categories(self) -> Sequence[Sample]:
        """The conversations with MGRetrieval's questions."""
        return list(self._benchmark.load(FOUR))

    @cached_property
    def statistics(self) -> Statistics:
        """Conversations, sessions, questions, and o200k tokens as MemGAS lays the text out."""
        return collect(self.samples, {"o200k": self.counter} if self.counter else None)

    @cached_property
    def tokens(self) -> Sequence[Fraction]:
        """The o200k tokens of a conversation in MemGAS's layout; empty without a vocabulary.

        The official code embeds turn pairs, so the text may have been counted whole or by pairs.
        """
        if self.counter is None:
            return ()
        pairs = (
            pair_text(pair)
            for sample in self.samples
            for session in sample.conversation.sessions
            for pair in turn_pairs(session)
        )
        totals = (self.statistics.tokens["o200k"], sum(self.counter(text) for text in pairs))
        return [Fraction(total, self.statistics.conversations) for total in totals]

    def item_tokens(self) -> Fraction | None:
        """Return the tokens of one exchange with its date, on average."""
        if self.counter is None:
            return None
        texts = [
            span_text(span, session.date_text)
            for sample in self.samples
            for session in sample.conversation.sessions
            for span in exchanges(session)
        ]
        return Fraction(sum(map(self.counter, texts)), len(texts))

    @property
    def most_sessions(self) -> int:
        """The most sessions of any conversation."""
        return max(len(sample.conversation.sessions) for sample in self.samples)

    def gold_sessions(self) -> Tally[int]:
        """Return how many questions have 0, 1, 2, … gold sessions, as MemGAS's code reads them."""
        return Tally(len(set(q.evidence_sessions)) for s in self.samples for q in s.questions)

    def items(self, spans: Callable[[Session], Sequence[Span]]) -> int:
        """Return the number of memory items under a way to cut sessions."""
        return sum(len(spans(session)) for s in self.samples for session in s.conversation.sessions)

    def questions(self) -> int:
        """Return the number of MGRetrieval's questions."""
        return sum(len(sample.questions) for sample in self.four_categories)

    def full_tokens(self, text: Callable[[Sample], str]) -> Fraction | None:
        """Return the tokens of a whole conversation, averaged over MGRetrieval's questions."""
        if self.counter is None:
            return None
        total = sum(self.counter(text(s)) * len(s.questions) for s in self.four_categories)
        return Fraction(total, self.questions())

    def raw_text(self, sample: Sample) -> str:
        """Return a conversation as the benchmark's own file has it: a JSON dump."""
        found = {raw["sample_id"]: raw["conversation"] for raw in self._raw}
        return json.dumps(found[sample.conversation.id], ensure_ascii=False)

    @cached_property
    def _raw(self) -> list[dict[str, Any]]:
        path = self._benchmark.find().path("conversations")
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return found


def session_dated(sample: Sample) -> str:
    """Return a conversation as text: a date above each session."""
    return "\n".join(
        dated_text([plain_line(turn) for turn in session.turns], session.date_text)
        for session in sample.conversation.sessions
    )


def turn_dated(sample: Sample) -> str:
    """Return a conversation as text with the date on every turn."""
    return "\n".join(
        f"[{session.date_text}] {plain_line(turn)}"
        for session in sample.conversation.sessions
        for turn in session.turns
    )


def mentioning(
    counts: Counts, conversation: str, words: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Return, for exchanges and for turns, how many of one conversation mention all of `words`.

    Each value is (mentioning, all); a speaker's name counts as mentioned by what they say.
    """
    ways: dict[str, Callable[[Session], Sequence[Span]]] = {
        "exchange": exchanges,
        "turn": single_turns,
    }
    sample = next(s for s in counts.samples if s.conversation.id == conversation)
    found = {}
    for name, way in ways.items():
        spans = [span for session in sample.conversation.sessions for span in way(session)]
        texts = ["\n".join(plain_line(turn) for turn in span.turns).lower() for span in spans]
        hits = sum(all(word.lower() in text for word in words) for text in texts)
        found[name] = (hits, len(spans))
    return found


def agreement_with_gold(
    counts: Counts, conversation: str, evidence: str, answer: str
) -> float | None:
    """Return the set F1 of an answer against the gold of the question with this evidence."""
    for sample in counts.samples:
        for question in sample.questions:
            here = question.conversation == conversation and evidence in question.evidence_turns
            if here and question.reference is not None and not question.adversarial:
                return F1Set().score(answer, question.reference)
    return None


def count(name: str) -> Counts | Missing:
    """Return the counts of a benchmark, or why there are none (only real files count)."""
    try:
        benchmark = configured(name, ["sample=never"])
        benchmark.info()
    except UserError as error:
        return Missing(_short(error))
    return Counts(benchmark, _vocabulary())


@cache
def _vocabulary() -> Counter | None:
    return o200k()


def no_tokens() -> str:
    """Return the reason of a missing token count."""
    return f"no o200k vocabulary here ({MEND})"


def _short(error: UserError) -> str:
    first = " ".join(str(error).split()).partition(", or put")[0].partition(". ")[0]
    return f"needs the file: {first}"
