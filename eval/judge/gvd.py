"""The judge of MGRetrieval's Table 2: GVD answers, on the scales of MemoryBank's human raters.

GVD has no gold answers: the judge reads the user's whole history beside the retrieved memories
and the response, and gives memory retrieval accuracy (`acc`), response correctness (`corr`) and
contextual coherence (`cohe`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from eval.judge.base import Combine, Scores, TemplateJudge, response_of
from memsys.concurrency import compute
from memsys.dialogue import Conversation, Question
from memsys.errors import UserError
from memsys.llm import ledger
from memsys.llm.chat import ChatModel, Messages
from memsys.llm.prompts import Prompts
from memsys.rendering import dated_text, plain_line

_MARGIN = 32  # tokens kept free: joining texts can add a few to their sum


def history_text(conversation: Conversation) -> str:
    """Return every session under its date; sessions without turns are left out."""
    return "\n\n".join(
        dated_text([plain_line(turn) for turn in session.turns], session.date_text)
        for session in conversation.sessions
        if session.turns
    )


def last_object(text: str) -> dict[str, Any] | None:
    """Return the last outermost JSON object of a text, or `None`."""
    decoder, found, at = json.JSONDecoder(), None, text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found = value
        at = text.find("{", end)
    return found


class GvdJudge(TemplateJudge):
    """Scores `acc`, `corr` and `cohe` from one JSON reply; a value off its scale is no verdict."""

    name: ClassVar[str] = "gvd"
    needs_context: ClassVar[bool] = True
    templates: ClassVar[tuple[str, ...]] = ("gvd",)

    def __init__(
        self,
        prompts: Prompts,
        acc: tuple[float, ...] = (0, 1),  # MemoryBank (arXiv 2305.10250), by way of the spec
        corr: tuple[float, ...] = (0, 0.5, 1),  # the same
        cohe: tuple[float, ...] = (0, 0.5, 1),  # the same
        max_tokens: int = 4096,  # ours: DeepSeek-R1 thinks before it replies
        temperature: float = 0.0,  # ours; the paper states none
        structured: bool = False,
        repeats: int = 1,
        combine: Combine = "mean",  # of repeated verdicts; ours
    ) -> None:
        """See `TemplateJudge`; `acc`, `corr` and `cohe` are the values each score may take."""
        super().__init__(prompts, max_tokens, temperature, structured, repeats, combine)
        given = {"acc": acc, "corr": corr, "cohe": cohe}
        # whole numbers stay whole (0, not 0.0), wherever the scale came from
        self.scales = {n: tuple(int(v) if v == int(v) else v for v in s) for n, s in given.items()}
        for name, scale in self.scales.items():
            if not scale or any(not 0 <= value <= 1 for value in scale):
                raise UserError(f"judge.{name} must list values between 0 and 1.")

    @property
    def identity(self) -> Mapping[str, Any]:
        """As every judge's, with the scales."""
        return {**super().identity, "scales": {n: list(s) for n, s in self.scales.items()}}

    @property
    def schema(self) -> Mapping[str, Any]:
        """The three scores on their scales."""
        return {
            "type": "object",
            "properties": {name: {"enum": list(scale)} for name, scale in self.scales.items()},
            "required": list(self.scales),
            "additionalProperties": False,
        }

    async def messages(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        record: Mapping[str, Any],
    ) -> Messages:
        """Show history, question, retrieved memories and raw response.

        Where the model's window is too small for the whole history its oldest part is cut, and
        the cut is counted.
        """
        context = record.get("context")
        if context is None:
            raise UserError(
                f"Judge 'gvd' needs the retrieved memories' text, and the record of question"
                f" {question.id} has no 'context': ask it again with judge=gvd."
            )
        return await compute(self._render, chat, question, conversation, context, record)

    def _render(
        self,
        chat: ChatModel,
        question: Question,
        conversation: Conversation,
        context: str,
        record: Mapping[str, Any],
    ) -> Messages:
        texts = {"history": history_text(conversation), "memories": context}
        fixed = {
            "question": question.text,
            "response": response_of(record),
            **{f"{name}_scale": _options(scale) for name, scale in self.scales.items()},
        }
        prompt = self.prompts["gvd"]
        empty = prompt.render(**fixed, history="", memories="")
        room = chat.context_window("judge") - chat.completion_limit("judge", self.max_tokens)
        room -= chat.message_tokens(empty, "judge") + _MARGIN
        sizes = {name: chat.count_tokens(text, "judge") for name, text in texts.items()}
        if sum(sizes.values()) > room:
            ledger.count("judge_gvd:cut")
            memories = min(sizes["memories"], room // 2)
            texts["memories"] = chat.cut(context, memories, "judge")
            texts["history"] = chat.cut(texts["history"], room - memories, "judge", keep="end")
        return prompt.render(**fixed, **texts)

    def read(self, reply: str) -> Scores | None:
        """Read the last JSON object; all three scores must lie on their scales."""
        found = last_object(reply)
        if found is None:
            return None
        values = {name: found.get(name) for name in self.scales}
        for name, value in values.items():
            # a boolean is no score, though Python counts True as 1
            if type(value) not in (int, float) or value not in self.scales[name]:
                return None
        return {name: float(value) for name, value in values.items() if value is not None}


def _options(scale: tuple[float, ...]) -> str:
    return " or ".join(f"{value:g}" for value in scale)
