"""LLM-based redundancy filtering (§2.4), for MemGAS and, as a control, for any other retriever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memsys.dialogue import Query
from memsys.memgas.calls import ask_text
from memsys.memgas.context import Excerpt, filtered_history, memories
from memsys.memgas.metadata import PROMPTS
from memsys.memgas.settings import Filter
from memsys.system import Answer, Recall, Tools


async def filter_and_answer(
    tools: Tools, settings: Filter, recall: Recall, excerpts: Sequence[Excerpt], query: Query
) -> Answer:
    """Filter the recalled sessions with one call, then answer with another.

    An empty filter reply leaves the context as it was recalled (counted as
    `memgas.filter:fallback`). With the filter off, or nothing recalled, this only answers.
    """
    trace: dict[str, str] = {}
    if settings.enabled and excerpts:
        kept = await ask_text(
            tools.chat,
            tools.prompts.get(PROMPTS, "filter"),
            cut="memories",
            max_tokens=settings.max_tokens,
            event="memgas.filter",
            retries=0,
            memories=memories(excerpts),
            question=query.text,
            question_date=query.date_text or "None",  # as the official code prints it
        )
        trace["filtered"] = kept
        if kept:
            context = filtered_history(excerpts, kept, settings.repeat_per_session)
            recall = replace(recall, context=context)
    text = await tools.answerer.answer(recall.context, query)
    return Answer(text, recall, trace)
