"""GVD, MemoryBank's evaluation data: 15 users, ten days with an assistant, 100 probing questions.

Zhong et al., "MemoryBank: Enhancing Large Language Models with Long-Term Memory", AAAI 2024. There
is no gold answer and no evidence: only a judge who reads the history can score.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from memsys.datasets.base import Benchmark, Found, Rules, Sample
from memsys.datasets.dates import iso_day
from memsys.datasets.fields import need, read_json, read_json_lines
from memsys.datasets.files import FoundFile
from memsys.dialogue import Conversation, Question, Session, Turn
from memsys.errors import UserError

ASSISTANT = "Assistant"
_QUOTES = {'"': '"', "“": "”"}


class GVD(Benchmark):
    """GVD in one `language`: `en` (the default of both papers' tables here) or `cn`.

    A day of conversation is a session named `day_<n>`, n counting all days of the history; a day
    without a single exchange is no session, for there is nothing to remember in it (English:
    one, so 149 sessions of 150 days). The simulated user's profile is never shown.
    """

    name: ClassVar[str] = "gvd"
    title: ClassVar[str] = "GVD"
    version: ClassVar[int] = 1
    CATEGORY_NAMES: ClassVar[dict[str, str]] = {"probing": "probing question"}

    release: Literal["official", "custom"] = "official"
    language: Literal["en", "cn"] = "en"

    def release_name(self) -> str:
        """Return `official` or `custom`."""
        return self.release

    def keys(self) -> tuple[str, ...]:
        """Return the keys of the history and of the questions in this language."""
        return (f"{self.language}.histories", f"{self.language}.questions")

    def read(self, found: Found, rules: Rules) -> Iterator[Sample]:
        """Yield the users in file order."""
        histories_file, questions_file = (found.files[key] for key in self.keys())
        users = _histories(histories_file)
        questions = _probes(questions_file)
        if strangers := sorted(set(users) ^ set(questions)):
            raise UserError(
                f"{histories_file.path.name} and {questions_file.path.name} disagree about the "
                f"user '{strangers[0]}'."
            )
        for name, history in users.items():
            conversation = _conversation(name, history, f"{histories_file.path.name}, user {name}")
            yield Sample(
                conversation,
                tuple(
                    Question(
                        conversation=name,
                        index=index,
                        id=f"{name}_q{index}",
                        text=unquoted(text),
                        category="probing",
                        has_evidence=False,
                    )
                    for index, text in enumerate(questions[name])
                ),
            )


def unquoted(text: str) -> str:
    """Strip the quote characters that wrap a whole question (23 English ones), nothing else."""
    text = text.strip()
    closing = _QUOTES.get(text[:1])
    if closing is None or len(text) < 2 or text[-1] != closing:
        return text
    inner = text[1:-1]
    return text if text[0] in inner or closing in inner else inner.strip()


def _histories(file: FoundFile) -> dict[str, dict[str, Any]]:
    """Return each user's history by stripped name: four English keys carry stray spaces."""
    content = read_json(file.path)
    if not isinstance(content, dict):
        raise UserError(f"{file.path.name} should be an object of users.")
    users: dict[str, dict[str, Any]] = {}
    for key, user in content.items():
        users[key.strip()] = need(user, "history", dict, f"{file.path.name}, user {key.strip()}")
    return users


def _probes(file: FoundFile) -> dict[str, list[str]]:
    probes: dict[str, list[str]] = {}
    for number, record in read_json_lines(file.path):
        where = f"{file.path.name}, line {number}"
        if not isinstance(record, dict):
            raise UserError(f"{where}: expected an object, found {type(record).__name__}.")
        for name, questions in record.items():
            if not isinstance(questions, list) or not all(isinstance(q, str) for q in questions):
                raise UserError(f"{where}: the questions of '{name}' should be a list of strings.")
            probes[name.strip()] = questions
    return probes


def _conversation(name: str, history: dict[str, Any], where: str) -> Conversation:
    days = sorted(history, key=lambda day: iso_day(day, where))
    sessions: list[Session] = []
    for number, day in enumerate(days, 1):
        exchanges = need(history, day, list, where)
        turns: list[Turn] = []
        for position, exchange in enumerate(exchanges):
            place = f"{where}, {day}, exchange {position + 1}"
            query = need(exchange, "query", str, place)
            response = need(exchange, "response", str, place)
            first = f"day_{number}:{2 * position + 1}"
            second = f"day_{number}:{2 * position + 2}"
            turns.append(Turn(first, name, query, role="user"))
            turns.append(Turn(second, ASSISTANT, response, role="assistant"))
        if turns:
            sessions.append(Session(f"day_{number}", tuple(turns), iso_day(day, where), "day"))
    return Conversation(name, tuple(sessions))
