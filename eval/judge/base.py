"""What a judge is, and what all judges of ours share: one prompt, one reply, one retry.

An answer may be judged several times (`repeats`): each sample is a call of its own, and the
verdict is their mean, or the value that most of them gave.

A reply that cannot be read is asked for once more as a new `attempt`; after that there is no
verdict: the question is left out of the mean and counted, never scored 0. Judges see the raw
response, whatever post-processing a protocol's text measures use.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from memsys.dialogue import Conversation, Question
from memsys.errors import UserError
from memsys.llm import ledger
from memsys.llm.chat import ChatModel, Messages
from memsys.llm.prompts import Prompt, Prompts

Scores = dict[str, float]
Combine = Literal["mean", "majority"]
ATTEMPTS = 2


class Judge(Protocol):
    """What a run sees of a judge."""

    @property
    def name(self) -> str:
        """The judge's name, under which its verdicts are kept."""

    @property
    def needs_context(self) -> bool:
        """Whether it reads the text that the answering model read, `record["context"]`."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """All of this judge but its model that can change a verdict, as JSON."""

    async def judge(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        record: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Judge one answered question; see `Verdict.plain` for what comes back.

        Raises `ChatFailure` if a call fails, `UserError` for a benchmark it cannot judge.
        """


@dataclass(frozen=True, slots=True)
class Sample:
    """One judgement: its scores, or `None` if no attempt could be read."""

    scores: Scores | None
    reply: str
    attempts: int
    model: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgements of one question; repeated ones are combined over those with a verdict."""

    samples: tuple[Sample, ...]
    prompt: str
    combine: Combine = "mean"

    @property
    def scores(self) -> Scores | None:
        """Each score combined, or `None` without any verdict.

        `mean` averages; `majority` takes the most frequent value, of equally frequent ones the
        least, so that a tie of yes and no is a no.
        """
        valid = [s.scores for s in self.samples if s.scores is not None]
        if not valid:
            return None
        return {name: _combined([s[name] for s in valid], self.combine) for name in valid[0]}

    def plain(self) -> dict[str, Any]:
        """Return `{"scores", "model", "prompts", "combine", "samples"}` as JSON values."""
        return {
            "scores": self.scores,
            "model": self.samples[0].model,
            "prompts": [self.prompt],
            "combine": self.combine,
            "samples": [
                {"scores": s.scores, "reply": s.reply, "attempts": s.attempts} for s in self.samples
            ],
        }


def _combined(values: Sequence[float], how: Combine) -> float:
    if how == "mean":
        return sum(values) / len(values)
    return min(set(values), key=lambda value: (-values.count(value), value))


class TemplateJudge(ABC):
    """A judge that renders one template and reads one reply."""

    name: ClassVar[str]
    version: ClassVar[int] = 2  # 2: an empty response is shown as such
    needs_context: ClassVar[bool] = False
    templates: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        prompts: Prompts,
        max_tokens: int,
        temperature: float,
        structured: bool,
        repeats: int,
        combine: Combine = "mean",
    ) -> None:
        """Load the templates.

        `structured` sends a schema that allows valid verdicts only, for models too small to keep
        to a format; `repeats` judges every answer so many times, and `combine` makes one verdict
        of them. Samples differ where `temperature` is above 0 or the service is not repeatable.
        """
        if max_tokens < 1 or repeats < 1:
            raise UserError("judge.max_tokens and judge.repeats must be at least 1.")
        self.prompts: dict[str, Prompt] = {
            name: prompts.get("eval.judge", name) for name in self.templates
        }
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.structured = structured
        self.repeats = repeats
        self.combine: Combine = combine

    @property
    def identity(self) -> Mapping[str, Any]:
        """Name, version, settings, and the hashes of the templates in force."""
        repeated = {} if self.repeats == 1 else {"combine": self.combine}
        return {
            "judge": self.name,
            "version": self.version,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "structured": self.structured,
            "repeats": self.repeats,
            **repeated,
            "prompts": {prompt.id: prompt.hash for prompt in self.prompts.values()},
        }

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema that allows valid verdicts only."""

    @abstractmethod
    async def messages(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        record: Mapping[str, Any],
    ) -> Messages:
        """Render the prompt for one answered question."""

    @abstractmethod
    def read(self, reply: str) -> Scores | None:
        """Return the scores that a reply gives, or `None` for a reply that gives none."""

    async def judge(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        record: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Judge one answered question, `repeats` times."""
        messages = await self.messages(chat, question, conversation, record)
        samples = await asyncio.gather(
            *(self._sample(chat, messages, number) for number in range(self.repeats))
        )
        return Verdict(tuple(samples), messages.prompt, self.combine).plain()

    async def _sample(self, chat: ChatModel, messages: Messages, number: int) -> Sample:
        for attempt in range(ATTEMPTS):
            reply = await chat.reply(
                messages,
                role="judge",
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                schema=self.schema if self.structured else None,
                attempt=attempt,
                sample=number,
            )
            scores = self.read(reply.text)
            if scores is not None:
                return Sample(scores, reply.text, attempt + 1, reply.model)
            ledger.count(f"judge_{self.name}:unreadable")
        ledger.count(f"judge_{self.name}:no_verdict")
        return Sample(None, reply.text, ATTEMPTS, reply.model)


def choice_schema(choices: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of `{"label": one of choices}`."""
    return {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": list(choices)}},
        "required": ["label"],
        "additionalProperties": False,
    }


def response_of(record: Mapping[str, Any]) -> str:
    """Return the raw response; an empty one in words, since templates drop an empty line."""
    answer = str(record.get("answer") or "")
    return answer if answer.strip() else "(empty)"


def reference_of(question: Question, judge: str) -> str:
    """Return the gold answer, or raise `UserError` where the benchmark has none."""
    if question.reference is None:
        raise UserError(
            f"Judge '{judge}' compares with a reference answer, and question {question.id} has"
            " none: choose another judge, or judge=none."
        )
    return question.reference
