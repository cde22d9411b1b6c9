"""MemGAS's binary judge (GPT4o-J): one prompt for every benchmark and question type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval.judge.base import Combine, Scores, TemplateJudge, choice_schema, reference_of, response_of
from memsys.dialogue import Conversation, Question
from memsys.llm.chat import ChatModel, Messages
from memsys.llm.prompts import Prompts

YES, NO = "[[yes]]", "[[no]]"


def read_label(reply: str) -> float | None:
    """Return 1 iff the reply holds `[[yes]]` and not `[[no]]`; `None` for an empty reply.

    Exactly so, case included: a bare `yes` is 0.
    """
    if not reply.strip():
        return None
    return float(YES in reply and NO not in reply)


class MemgasJudge(TemplateJudge):
    """Scores `correct` 0 or 1 by comparing the raw response with the reference."""

    name: ClassVar[str] = "memgas"
    templates: ClassVar[tuple[str, ...]] = ("memgas",)

    def __init__(
        self,
        prompts: Prompts,
        max_tokens: int = 4000,  # official code
        temperature: float = 0.0,  # official code
        structured: bool = False,
        repeats: int = 1,  # paper: judged once
        combine: Combine = "mean",  # of repeated verdicts; ours
    ) -> None:
        """See `TemplateJudge`."""
        super().__init__(prompts, max_tokens, temperature, structured, repeats, combine)

    @property
    def schema(self) -> Mapping[str, Any]:
        """One of the two labels."""
        return choice_schema((YES, NO))

    async def messages(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        record: Mapping[str, Any],
    ) -> Messages:
        """Show question, reference and raw response."""
        return self.prompts["memgas"].render(
            question=question.text,
            reference=reference_of(question, self.name),
            response=response_of(record),
        )

    def read(self, reply: str) -> Scores | None:
        """Read the label."""
        label = read_label(reply)
        return None if label is None else {"correct": label}
