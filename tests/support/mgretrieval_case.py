"""The worked example of MGRetrieval: thirteen memories under James, adventure and book."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from doubles import tools

from memsys.dialogue import Query, Session, Turn
from memsys.llm.chat import Request
from memsys.mgretrieval import MGRetrieval, MGRetrievalAsk, MGRetrievalBuild
from memsys.system import Tools

JAMES = {*range(1, 10), 10, 12}
ADVENTURE = {*range(1, 10), 11}
BOOK = {1, 2, 3, 10, 11, 13}
QUERY = Query("Which adventure book did James buy?")

Reply = Callable[[Request], str]


def keywords_of(item: int) -> list[str]:
    sets = {"James": JAMES, "adventure": ADVENTURE, "book": BOOK}
    return [keyword for keyword, items in sets.items() if item in items]


def sessions() -> list[Session]:
    """Thirteen turns in three sessions of five, four and four."""
    made, first = [], 1
    for number, size in enumerate((5, 4, 4), 1):
        turns = tuple(
            Turn(f"D{number}:{i}", ("James", "Ruth")[i % 2], f"This is memory {i:02d}.")
            for i in range(first, first + size)
        )
        made.append(Session(f"session_{number}", turns, datetime(2022, 4, number, 9, 30)))
        first += size
    return made


def last(request: Request) -> str:
    return request.messages[-1].content


def as_json(**values: Any) -> str:
    return json.dumps(values)


def extract_reply(request: Request) -> str:
    found = re.search(r"This is memory (\d+)", last(request))
    assert found
    return as_json(keywords=keywords_of(int(found[1])))


def match_reply(request: Request) -> str:
    new = last(request).split("New keywords:\n")[1].split("\n")
    return as_json(matches=[{"keyword": keyword, "canonical": None} for keyword in new])


def script(
    verdicts: Sequence[bool] = (),
    *,
    extract: Reply = extract_reply,
    match: Reply = match_reply,
    select: Reply = lambda request: as_json(keywords=["James", "adventure", "book"]),
    rewrite: Reply = lambda request: as_json(answer="26 April 2022"),
    critical: Callable[[int], list[str]] = lambda n: [f"statement {n}"],
) -> Callable[[Request, str, str], str]:
    """Script all five calls; verdicts beyond those given are "not sufficient"."""
    rounds = [0]

    def reply(request: Request, role: str, prompt: str) -> str:
        if prompt != "mgretrieval/round":
            answers = {
                "mgretrieval/extract": extract,
                "mgretrieval/match": match,
                "mgretrieval/select": select,
                "mgretrieval/rewrite_locomo": rewrite,
                "mgretrieval/rewrite_conversational": rewrite,
            }
            return answers[prompt](request)
        rounds[0] += 1
        n = rounds[0]
        sufficient = n <= len(verdicts) and verdicts[n - 1]
        return as_json(answer=f"draft {n}", critical_memories=critical(n), sufficient=sufficient)

    return reply


def system(lent: Tools | None = None, **ask: Any) -> MGRetrieval:
    build = {key: ask.pop(key) for key in list(ask) if key in MGRetrievalBuild.model_fields}
    settings = MGRetrievalBuild(**{"memory_unit": "turn", **build})
    return MGRetrieval(settings, MGRetrievalAsk(**ask), lent or tools(script()))
