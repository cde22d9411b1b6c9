"""Judging inside a run: each answered question's verdict, kept beside the records.

Judgements have a file of their own for each judge, so that another judge model or prompt never
touches the answers, and a run can be judged again without being asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eval.judge.base import Judge
from eval.records import Record
from eval.spec import RunSpec
from eval.typed import resolve
from memsys.dialogue import Conversation, Question
from memsys.errors import ChatFailure
from memsys.llm import ledger
from memsys.llm.chat import ChatModel


@dataclass(frozen=True)
class Judging:
    """A judge and the model that plays it."""

    judge_: Judge
    identity: Mapping[str, Any]

    @classmethod
    def of(cls, spec: RunSpec) -> Judging | None:
        """Return the judging that a configuration asks for, if any."""
        config = spec.config.values["judge"] or {}
        if config.get("_target_") is None or spec.stage != "answer":
            return None
        judge: Judge = resolve(config, "judge", given=("prompts",)).make(prompts=spec.prompts)
        model = dict(spec.backends["judge"].identity)
        return cls(judge, {"judge": judge.identity, "model": model})

    @cached_property
    def fingerprint(self) -> str:
        """The first 12 hex digits of the SHA-256 of judge, prompts and model."""
        text = json.dumps(self.identity, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    async def judge(
        self, chat: ChatModel, question: Question, conversation: Conversation, record: Record
    ) -> Record:
        """Return the judgement of one record; a failed call is a judgement without verdict."""
        verdicts: Mapping[str, Any] = {"scores": None}
        error = None
        with ledger.scope("judge") as account:
            try:
                verdicts = await self.judge_.judge(chat, question, conversation, record)
            except ChatFailure as failure:
                error = f"{type(failure).__name__}: {failure}"
        return {
            "conversation": question.conversation,
            "index": question.index,
            "id": question.id,
            "judge": self.judge_.name,
            "verdicts": dict(verdicts),
            "counts": dict(account.counts),
            "calls": [call.plain() for call in account.calls],
            "error": error,
        }
