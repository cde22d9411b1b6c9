"""The three calls of the auxiliary model: extraction A1, matching A2, query keywords A3."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.llm.chat import Messages
from memsys.llm.structured import ask_json, read_json
from memsys.mgretrieval.index import KeywordIndex, candidates, distinct, normal_form
from memsys.mgretrieval.items import Item
from memsys.system import Tools

PACKAGE = "memsys.mgretrieval"
EXTRACT_TOKENS, MATCH_TOKENS, SELECT_TOKENS = 128, 256, 128  # completion caps (our choice)
EXTRACTED = 6  # A1 asks for 2-6 keywords
LONGEST = 80  # characters; what is longer is a sentence and no keyword

# Bounds go into the schema only: where a back end cannot enforce them, a longer reply is still read
Word = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST})]


class Keywords(BaseModel):
    """Reply of A1 and A3."""

    keywords: Annotated[list[Word], Field(json_schema_extra={"maxItems": EXTRACTED})]


class Match(BaseModel):
    """One extracted keyword and the vocabulary entry that means the same, if there is one."""

    keyword: Word
    canonical: Word | None


class Matches(BaseModel):
    """Reply of A2."""

    matches: Annotated[list[Match], Field(json_schema_extra={"maxItems": EXTRACTED})]


@dataclass(frozen=True, slots=True)
class Selection:
    """Q, the ordered query keywords, and how much of the vocabulary A3 was shown."""

    keywords: tuple[str, ...]
    vocabulary: int
    shown: int
    fallback: bool


async def extract(tools: Tools, item: Item) -> list[str]:
    """A1: return the keywords of one memory, without repeats.

    A memory without any keyword (an unreadable reply twice, or an empty list) gets the names of
    its speakers, so that level 1 can still reach it.
    """
    prompt = tools.prompts.get(PACKAGE, "extract")
    speakers = ", ".join(item.speakers)
    fixed = tools.chat.message_tokens(prompt.render(memory="", speakers=speakers), "auxiliary")
    completion = tools.chat.completion_limit("auxiliary", EXTRACT_TOKENS)
    room = tools.chat.context_window("auxiliary") - completion - fixed
    text = tools.chat.cut(item.unit.text, max(room, 0), "auxiliary")
    if text != item.unit.text:
        ledger.count("mgretrieval.extract:cut")
    messages = prompt.render(memory=text, speakers=speakers)
    found = await _ask_keywords(
        tools, messages, EXTRACT_TOKENS, EXTRACTED, event="mgretrieval.extract"
    )
    keywords = _usable(found or [], "mgretrieval.extract:dropped")[: 2 * EXTRACTED]
    if found is not None and not keywords:
        ledger.count("mgretrieval.extract:empty")
    return keywords or distinct(item.speakers)


async def match(
    tools: Tools,
    index: KeywordIndex,
    keywords: Sequence[str],
    budget: int,
    tokens: Callable[[str], int],
) -> list[str]:
    """A2: map each keyword to the vocabulary entry that means the same, or leave it as new.

    A keyword whose normal form is in the vocabulary is that entry, whatever the reply says (ours:
    a name must not wander off to another entry). A reply that cannot be read, or names an entry
    that does not exist, matches nothing: the keyword is new.
    """
    shown = candidates(index, " ".join(keywords), budget, tokens)
    if shown.truncated:
        ledger.count("mgretrieval.match:vocabulary_truncated")
    messages = tools.prompts.get(PACKAGE, "match").render(
        vocabulary=_lines(shown.entries), keywords=_lines(keywords)
    )
    reply = await ask_json(
        tools.chat,
        messages,
        Matches,
        role="auxiliary",
        max_tokens=MATCH_TOKENS,
        event="mgretrieval.match",
        retries=0,
    )
    canonical: dict[str, str] = {}
    for pair in reply.value.matches if reply.value else ():
        entry = index.find(pair.canonical) if pair.canonical else None
        if entry is not None:
            canonical.setdefault(normal_form(pair.keyword), entry)
        elif pair.canonical:
            ledger.count("mgretrieval.match:unknown")
    matched = []
    for keyword in keywords:
        entry = canonical.get(normal_form(keyword))
        exact = index.find(keyword)
        if exact and entry and entry != exact:
            ledger.count("mgretrieval.match:overruled")
        matched.append(exact or entry or keyword)
    return matched


async def select(
    tools: Tools,
    index: KeywordIndex,
    query: Query,
    depth: int,
    budget: int,
    tokens: Callable[[str], int],
) -> Selection:
    """A3: choose at most `depth` vocabulary entries for a question, most important first.

    After two unreadable replies, or a reply that names no entry of the vocabulary, the entries
    that stand literally in the question are taken, longest first. An empty list is an answer: the
    question has no keyword.
    """
    shown = candidates(index, query.text, budget, tokens)
    if shown.truncated:
        ledger.count("mgretrieval.select:vocabulary_truncated")
    messages = tools.prompts.get(PACKAGE, "select").render(
        vocabulary=_lines(shown.entries), depth=str(depth), question=query.text
    )
    found = await _ask_keywords(tools, messages, SELECT_TOKENS, depth, event="mgretrieval.select")
    entries = [index.find(keyword) for keyword in found or []]
    known = distinct([entry for entry in entries if entry is not None])[:depth]
    ledger.count("mgretrieval.select:unknown", sum(entry is None for entry in entries))
    fallback = not known and (found is None or bool(entries))
    if fallback:
        ledger.count("mgretrieval.select:literal")
        known = literal(index.vocabulary, query.text)[:depth]
    return Selection(tuple(known), len(index.vocabulary), len(shown.entries), fallback)


def literal(vocabulary: Sequence[str], text: str) -> list[str]:
    """Return the entries that occur in a text, longest first, ties in the vocabulary's order."""
    searched = normal_form(text)
    return sorted(
        (e for e in vocabulary if _occurs(normal_form(e), searched)), key=lambda e: -len(e)
    )


def read_keywords(text: str) -> tuple[list[str] | None, bool]:
    """Read a keyword reply: JSON, fenced JSON, a bare JSON list, a comma list; else `None`.

    The flag says whether it was valid as it stood.
    """
    value, clean = read_json(text, Keywords)
    if value is not None:
        return value.keywords, clean
    bare = re.sub(r"^```\w*|```$", "", text.strip()).strip()
    try:
        listed = json.loads(bare)
    except ValueError:
        return _comma_list(bare), False
    if isinstance(listed, list) and all(isinstance(entry, str) for entry in listed):
        return listed, False
    return None, False


def _comma_list(text: str) -> list[str] | None:
    if re.search(r'[\n{}\[\]":;!?]', text.removeprefix("Keywords:")):
        return None
    parts = [part.strip(" .'") for part in re.split("[,、]", text.removeprefix("Keywords:"))]
    short = all(0 < len(part) <= 40 and len(part.split()) <= 3 for part in parts)
    return parts if 2 <= len(parts) <= 12 and short else None


async def _ask_keywords(
    tools: Tools, messages: Messages, max_tokens: int, limit: int, *, event: str
) -> list[str] | None:
    schema = Keywords.model_json_schema()
    schema["properties"]["keywords"]["maxItems"] = limit
    for attempt in (0, 1):
        if attempt:
            ledger.count(f"{event}:retried")
        reply = await tools.chat.reply(
            messages, role="auxiliary", max_tokens=max_tokens, schema=schema, attempt=attempt
        )
        found, clean = read_keywords(reply.text)
        if found is not None:
            if not clean:
                ledger.count(f"{event}:repaired")
            return found
    ledger.count(f"{event}:fallback")
    return None


def _usable(keywords: Sequence[str], event: str) -> list[str]:
    fit = [keyword for keyword in keywords if 0 < len(normal_form(keyword)) <= LONGEST]
    ledger.count(event, len(keywords) - len(fit))
    return distinct(fit)


def _occurs(entry: str, text: str) -> bool:
    if not entry.isascii():  # scripts without spaces have no word borders
        return entry in text
    return re.search(rf"(?<!\w){re.escape(entry)}(?!\w)", text) is not None


def _lines(entries: Sequence[str]) -> str:
    return "\n".join(entries) or "(none)"
