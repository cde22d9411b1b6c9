"""HippoRAG 2's language-model calls: entities, triples, and the filter of recognised triples.

Replies are read by a JSON parser only: the authors' package evaluates them as Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from memsys.llm import ledger
from memsys.llm.fitting import render_to_fit
from memsys.llm.structured import ask_json
from memsys.system import Tools

PACKAGE = "baselines.hipporag2"
Triple = tuple[str, str, str]

_OTHER = re.compile(r"[^A-Za-z0-9 ]")


def _texts(value: Any) -> list[str]:
    """Read a list of texts, leaving out what is neither text nor number."""
    items = value if isinstance(value, list) else []
    return [str(x) for x in items if isinstance(x, str | int | float) and not isinstance(x, bool)]


def _threes(value: Any) -> list[list[str]]:
    """Read a list of triples, leaving out what has not three texts."""
    rows = [_texts(row) for row in value] if isinstance(value, list) else []
    return [row for row in rows if len(row) == 3]


class Entities(BaseModel):
    """What the entity call returns."""

    named_entities: list[str]

    _read = field_validator("named_entities", mode="before")(_texts)


class Triples(BaseModel):
    """What the triple call returns."""

    triples: list[list[str]]

    _read = field_validator("triples", mode="before")(_threes)


class Kept(BaseModel):
    """What the filter returns."""

    model_config = ConfigDict(extra="ignore")

    fact: list[list[str]]

    _read = field_validator("fact", mode="before")(_threes)


def normalise(text: str) -> str:
    """Lower the case and blank out all but A–Z, a–z, 0–9 and spaces (non-Latin text goes)."""
    return _OTHER.sub(" ", text.lower()).strip()


def clean(rows: Sequence[Sequence[str]]) -> list[Triple]:
    """Drop repeated rows, normalise, and drop triples left without subject or object (ours)."""
    distinct = dict.fromkeys((s, r, o) for s, r, o in rows)
    triples = [(normalise(s), normalise(r), normalise(o)) for s, r, o in distinct]
    kept = [triple for triple in triples if triple[0] and triple[2]]
    ledger.count("hipporag2.triples:empty", len(triples) - len(kept))
    return kept


async def extract(
    tools: Tools, passage: str, *, max_tokens: int, temperature: float
) -> tuple[list[str], list[Triple]]:
    """Return a passage's named entities and its normalised triples, in two calls."""
    prompts, chat = tools.prompts, tools.chat
    messages = render_to_fit(
        chat, prompts.get(PACKAGE, "entities"), cut="passage", role="main",
        max_tokens=max_tokens, event="hipporag2.entities", passage=passage,
    )  # fmt: skip
    named = await ask_json(
        chat, messages, Entities, role="main", max_tokens=max_tokens,
        event="hipporag2.entities", temperature=temperature, retries=0,
    )  # fmt: skip
    entities = list(dict.fromkeys(named.value.named_entities)) if named.value else []
    messages = render_to_fit(
        chat, prompts.get(PACKAGE, "triples"), cut="passage", role="main",
        max_tokens=max_tokens, event="hipporag2.triples", passage=passage,
        entities=json.dumps(entities, ensure_ascii=False),
    )  # fmt: skip
    found = await ask_json(
        chat, messages, Triples, role="main", max_tokens=max_tokens,
        event="hipporag2.triples", temperature=temperature, retries=0,
    )  # fmt: skip
    return entities, clean(found.value.triples if found.value else [])


async def recognise(
    tools: Tools,
    question: str,
    candidates: Sequence[Triple],
    *,
    max_tokens: int,
    temperature: float,
) -> list[int]:
    """Return the positions of the candidates that the filter keeps, ascending.

    A malformed reply keeps none. What comes back is matched to the nearest candidate.
    """
    messages = render_to_fit(
        tools.chat,
        tools.prompts.get(PACKAGE, "filter"),
        cut="facts",
        role="main",
        max_tokens=max_tokens,
        event="hipporag2.filter",
        question=question,
        facts=json.dumps({"fact": candidates}),
    )
    reply = await ask_json(
        tools.chat,
        messages,
        Kept,
        role="main",
        max_tokens=max_tokens,
        event="hipporag2.filter",
        temperature=temperature,
        retries=0,
    )
    facts = reply.value.fact if reply.value else []
    nearest = [nearest_triple((s, r, o), candidates) for s, r, o in facts]
    exact = sum(tuple(fact) in candidates for fact in facts)
    ledger.count("hipporag2.filter:matched_loosely", len(facts) - exact)
    ledger.count("hipporag2.filter:repeated", len(nearest) - len(set(nearest)))
    return sorted(set(nearest))


def nearest_triple(triple: Triple, candidates: Sequence[Triple]) -> int:
    """Return the position of the candidate whose text is most similar; the first of equals."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(str(triple))
    ratios = []
    for candidate in candidates:
        matcher.set_seq1(str(candidate))
        ratios.append(matcher.ratio())
    return ratios.index(max(ratios))
