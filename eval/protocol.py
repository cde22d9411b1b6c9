"""Protocols: what belongs together in one paper's evaluation.

A protocol binds the questions and evidence rules, the one answer prompt that all systems share,
the measures and the judge: those of the two papers, LoCoMo's own, and a strict one of ours.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from memsys.datasets.base import Rules
from memsys.llm.prompts import Prompt, Prompts
from memsys.settings import Settings


class Protocol(Settings):
    """One evaluation protocol; raise `version` whenever its numbers may change."""

    PROMPT_PACKAGE: ClassVar[str] = "eval.answering"

    name: str
    version: int
    rules: Rules
    answer_prompt: str
    answer_max_tokens: int = Field(gt=0)
    retrieval_measures: tuple[str, ...] = ()
    answer_measures: tuple[str, ...] = ()
    keep_context: bool = False  # records keep the text that was read, for judges that need it

    def answer_template(self, prompts: Prompts) -> Prompt:
        """Return the answer prompt in force."""
        return prompts.get(self.PROMPT_PACKAGE, self.answer_prompt)
