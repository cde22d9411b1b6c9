"""Answer rewriting R (MGRetrieval §3.2, call M2): the form of an answer, never its evidence.

Other systems use it for control rows ("FULL + rewrite"): MGRetrieval alone would otherwise give
its answers the form that LoCoMo's references have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.llm.structured import read_json
from memsys.system import Tools

PACKAGE = "memsys.mgretrieval"
REWRITE_TOKENS = 96  # completion cap of M2 (our choice)

RewriteStyle = Literal["locomo", "conversational"]
"""`locomo`: shortest form, calendar dates; `conversational`: a friendly free-form reply (GVD)."""


class Rewritten(BaseModel):
    """Reply of M2; its bound goes into the schema only."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    answer: Annotated[str, Field(json_schema_extra={"maxLength": 300})]


async def rewrite(
    tools: Tools,
    query: Query,
    answer: str,
    evidence: Sequence[str],
    style: RewriteStyle,
    *,
    system: str = "mgretrieval",
) -> str:
    """Return a* : the answer in the wanted form, from `answer` and the evidence it rests on.

    Makes one call of the main model; none for an empty answer. A reply that cannot be read leaves
    the answer as it is. Evidence that does not fit the model's window loses its beginning. Events
    are counted under `system`.
    """
    if not answer.strip():
        ledger.count(f"{system}.rewrite:nothing_to_rewrite")
        return answer
    prompt = tools.prompts.get(PACKAGE, f"rewrite_{style}")
    question = f"{query.text} (asked on {query.date_text})" if query.date_text else query.text
    values = {"question": question, "answer": answer}
    fixed = tools.chat.message_tokens(prompt.render(evidence="(none)", **values), "main")
    completion = tools.chat.completion_limit("main", REWRITE_TOKENS)
    room = max(0, tools.chat.context_window("main") - completion - fixed)
    text = "\n".join(evidence)
    fitting = tools.chat.cut(text, room, "main", keep="end")
    if fitting != text:
        ledger.count(f"{system}.rewrite:evidence_cut")
    reply = await tools.chat.reply(
        prompt.render(evidence=fitting or "(none)", **values),
        role="main",
        max_tokens=REWRITE_TOKENS,
        schema=Rewritten.model_json_schema(),
    )
    rewritten = read_rewritten(reply.text)
    if rewritten is None:
        ledger.count(f"{system}.rewrite:fallback")
        return answer
    return rewritten


def read_rewritten(text: str) -> str | None:
    """Read a reply of M2: JSON, or one line of bare text; `None` for anything else."""
    value, _ = read_json(text, Rewritten)
    found = value.answer.strip() if value else text.strip()
    broken = value is None and any(mark in found for mark in ("{", "}", "```", "\n"))
    return found if found and not broken else None
