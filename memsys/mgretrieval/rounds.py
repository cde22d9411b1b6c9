"""Reflective rounds: retrieve along the path, answer, filter, assess (MGRetrieval §3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.llm.structured import ask_json, read_json
from memsys.mgretrieval.pyramid import Group
from memsys.mgretrieval.settings import MGRetrievalAsk
from memsys.system import Tools, Unit

PACKAGE = "memsys.mgretrieval"
ROUND_TOKENS = 512  # completion cap of M1 (our choice)
CONTEXT_RESERVE = 2000  # tokens kept free of memories by default (our choice)

Stop = Literal["sufficient", "max_rounds", "exhausted", "no_memory"]

# Bounds go into the schema only: where a back end cannot enforce them, a longer reply is still read
Statement = Annotated[str, Field(json_schema_extra={"maxLength": 300})]


class Draft(BaseModel):
    """Reply of M1: answer a, critical memories C, verdict z."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    answer: Annotated[str, Field(json_schema_extra={"maxLength": 400})]
    critical_memories: Annotated[list[Statement], Field(json_schema_extra={"maxItems": 10})]
    sufficient: bool


class _AnswerAlone(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    answer: str


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in one round; all that Table 5 and Figures 3, 4 and 7 need of it.

    `new` are the ids of N, `shown` how many memories the prompt held, `cut` how many the length
    guard left out, `memory_tokens` the length of the memories and critical memories in the prompt.
    """

    group: tuple[str, ...]
    new: tuple[str, ...]
    shown: int
    cut: int
    memory_tokens: int
    answer: str
    critical: tuple[str, ...]
    sufficient: bool
    fallback: bool
    memory_text: str

    def plain(self, number: int) -> dict[str, Any]:
        """Return the round as JSON values."""
        return {
            "round": number,
            "level": len(self.group),
            "keywords": list(self.group),
            "new": list(self.new),
            "new_count": len(self.new),
            "shown": self.shown,
            "cut": self.cut,
            "memory_tokens": self.memory_tokens,
            "answer": self.answer,
            "critical_memories": list(self.critical),
            "sufficient": self.sufficient,
            "fallback": self.fallback,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rounds of one question and why they ended; the last round's answer stands."""

    rounds: tuple[Round, ...]
    stop: Stop


async def reflective_rounds(
    tools: Tools,
    query: Query,
    units: Sequence[Unit],
    path: Sequence[Group],
    ask: MGRetrievalAsk,
) -> Outcome:
    """Walk the path until the model is satisfied, the rounds are used up or the path ends.

    A group that adds nothing is skipped without a call (`skip_empty`). Without redundant memory
    removal the prompt holds everything retrieved so far in place of what is new. A question that
    reaches no memory gets one round with an empty prompt.
    """
    rounds: list[Round] = []
    seen: set[int] = set()
    stop: Stop = "exhausted"
    for group in path:
        if not group.new and ask.skip_empty:
            continue
        seen.update(group.new)
        shown = group.new if ask.rmr else sorted(seen)
        last = await _round(tools, query, units, group, shown, rounds, ask)
        rounds.append(last)
        if last.sufficient:
            stop = "sufficient"
            break
        if len(rounds) == ask.max_rounds:
            stop = "max_rounds"
            break
    if not rounds:
        ledger.count("mgretrieval.no_memory")
        nothing = Group((), (), ())
        rounds.append(await _round(tools, query, units, nothing, (), rounds, ask))
        stop = "no_memory"
    return Outcome(tuple(rounds), stop)


async def _round(
    tools: Tools,
    query: Query,
    units: Sequence[Unit],
    group: Group,
    shown: Sequence[int],
    before: Sequence[Round],
    ask: MGRetrievalAsk,
) -> Round:
    """M1: from new memories N, critical memories C, the query and the previous answer."""
    critical = before[-1].critical if before else ()
    previous = before[-1].answer if before else ""
    prompt = tools.prompts.get(PACKAGE, "round")
    values = {
        "critical": "\n".join(f"- {statement}" for statement in critical) or "(none)",
        "previous": previous or "(none)",
        "question": question_text(query),
    }
    fixed = tools.chat.message_tokens(prompt.render(memories="(none)", **values), "main")
    room = memory_room(tools, fixed, ask.max_round_tokens)
    kept = keep_latest(tools, [units[i].text for i in shown], room)
    memories = "\n\n".join(kept) or "(none)"
    reply = await ask_json(
        tools.chat,
        prompt.render(memories=memories, **values),
        Draft,
        role="main",
        max_tokens=ROUND_TOKENS,
        event="mgretrieval.round",
    )
    memory_text = "\n\n".join([*kept, "\n".join(critical)]).strip()
    draft = reply.value
    return Round(
        group=group.keywords,
        new=tuple(units[i].id for i in group.new),
        shown=len(kept),
        cut=len(shown) - len(kept),
        memory_tokens=tools.chat.count_tokens(memory_text, "main"),
        answer=draft.answer.strip() if draft else _raw_answer(reply.text),
        critical=_update(critical, draft.critical_memories, ask) if draft else critical,
        sufficient=draft.sufficient if draft else False,
        fallback=draft is None,
        memory_text=memory_text,
    )


def question_text(query: Query) -> str:
    """Return the question, and when it is asked if the benchmark says so."""
    return f"{query.text} (asked on {query.date_text})" if query.date_text else query.text


def memory_room(tools: Tools, fixed: int, limit: int | None) -> int:
    """Return how many tokens of memories fit beside a prompt of `fixed` tokens and its completion.

    `limit` is `max_round_tokens`; `None` means the main model's context less 2,000 tokens.
    """
    window = tools.chat.context_window("main")
    free = window - tools.chat.completion_limit("main", ROUND_TOKENS) - fixed
    wanted = limit if limit is not None else max(window - CONTEXT_RESERVE, window // 2)
    return max(0, min(free, wanted))


def keep_latest(tools: Tools, texts: Sequence[str], room: int) -> list[str]:
    """Return the latest texts that fit `room` tokens together, in time order; count the others.

    A latest text that is too long on its own is cut at its end, so that something is shown.
    """
    kept: list[str] = []
    for text in reversed(texts):
        size = tools.chat.count_tokens(f"{text}\n\n", "main")
        if size > room:
            break
        room -= size
        kept.append(text)
    if texts and not kept and room > 0:
        ledger.count("mgretrieval.round:item_cut")
        kept = [tools.chat.cut(texts[-1], room, "main")]
    ledger.count("mgretrieval.round:items_left_out", len(texts) - len(kept))
    return kept[::-1]


def _update(old: tuple[str, ...], returned: Sequence[str], ask: MGRetrievalAsk) -> tuple[str, ...]:
    kept = old if ask.critical_update == "union" else ()
    stated = (" ".join(statement.split()) for statement in returned)
    return tuple(dict.fromkeys([*kept, *(statement for statement in stated if statement)]))


def _raw_answer(text: str) -> str:
    """The answer of a reply that could not be read: its `answer`, if it has one, else all of it."""
    value, _ = read_json(text, _AnswerAlone)
    return (value.answer if value else text).strip()
