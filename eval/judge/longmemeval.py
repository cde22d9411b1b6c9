"""LongMemEval's judge (Wu et al., 2024): an instruction of its own for each question type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval.judge.base import Combine, Scores, TemplateJudge, choice_schema, reference_of, response_of
from memsys.dialogue import Conversation, Question
from memsys.llm.chat import ChatModel, Messages
from memsys.llm.prompts import Prompts

_TEMPLATE = {
    "single-session-user": "longmemeval_fact",
    "single-session-assistant": "longmemeval_fact",
    "multi-session": "longmemeval_fact",
    "temporal-reasoning": "longmemeval_temporal",
    "knowledge-update": "longmemeval_update",
    "single-session-preference": "longmemeval_preference",
}
_ABSTENTION = "longmemeval_abstention"


def template_of(question: Question) -> str:
    """Return the template for a question: abstention first, then its type.

    Types of other benchmarks are judged as facts.
    """
    if question.abstention:
        return _ABSTENTION
    return _TEMPLATE.get(question.category, "longmemeval_fact")


class LongMemEvalJudge(TemplateJudge):
    """Scores `correct` 1 if the reply says yes, else 0."""

    name: ClassVar[str] = "longmemeval"
    templates: ClassVar[tuple[str, ...]] = (*dict.fromkeys(_TEMPLATE.values()), _ABSTENTION)

    def __init__(
        self,
        prompts: Prompts,
        max_tokens: int = 10,  # official code
        temperature: float = 0.0,  # official code
        structured: bool = False,
        repeats: int = 1,  # official code: judged once
        combine: Combine = "mean",  # of repeated verdicts; ours
    ) -> None:
        """See `TemplateJudge`."""
        super().__init__(prompts, max_tokens, temperature, structured, repeats, combine)

    @property
    def schema(self) -> Mapping[str, Any]:
        """Yes or no."""
        return choice_schema(("yes", "no"))

    async def messages(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        record: Mapping[str, Any],
    ) -> Messages:
        """Show question, reference (answer, rubric or explanation) and raw response."""
        return self.prompts[template_of(question)].render(
            question=question.text,
            reference=reference_of(question, self.name),
            response=response_of(record),
        )

    def read(self, reply: str) -> Scores | None:
        """Return 1 if "yes" occurs in the lower-cased reply; no verdict for an empty one."""
        return {"correct": float("yes" in reply.lower())} if reply.strip() else None
