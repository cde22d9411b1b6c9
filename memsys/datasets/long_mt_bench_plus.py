"""Long-MT-Bench+: eleven user-assistant conversations of about five sessions, 288 questions.

Pan et al., "SeCom: On Memory Construction and Retrieval for Personalized Conversational Agents",
ICLR 2025. It has no dates and marks no evidence: recall and NDCG are undefined on it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from memsys.datasets import mt_bench_parts
from memsys.datasets.base import Benchmark, Found, Rules, Sample
from memsys.datasets.fields import need, need_strings, read_json, read_json_lines
from memsys.datasets.files import FoundFile
from memsys.dialogue import Conversation, Question, Session, Turn
from memsys.errors import UserError

log = logging.getLogger(__name__)

_TURN_TAG = re.compile(r"\s*<Turn \d+>:\s*")
_HUMAN, _BOT = "[human]:", "[bot]:"
_ANSWER_TAG = re.compile(r"\s*Answer:\s*")


class LongMTBenchPlus(Benchmark):
    """Long-MT-Bench+ as published, or `rebuilt` from MT-Bench+'s parts.

    Rebuilding (`release=rebuilt`, file mtbenchplus.json of MemoChat) gives the right human turns
    and 54 of the 288 questions, without gold answers; **MemoChat's file has no assistant replies**,
    so what comes out is another data set and is labelled so.
    """

    name: ClassVar[str] = "long_mt_bench_plus"
    title: ClassVar[str] = "Long-MT-Bench+"
    version: ClassVar[int] = 1
    CATEGORY_NAMES: ClassVar[dict[str, str]] = {"open": "long-form question"}

    release: Literal["official", "rebuilt", "custom"] = "official"

    def release_name(self) -> str:
        """Return `official`, `rebuilt` or `custom`."""
        return self.release

    def keys(self) -> tuple[str, ...]:
        """Return the one file's key."""
        return ("conversations",)

    def read(self, found: Found, rules: Rules) -> Iterator[Sample]:
        """Yield the conversations in file order."""
        file = found.files["conversations"]
        records = _records(file)
        if self.release == "rebuilt" and not found.is_sample:
            rebuilt = mt_bench_parts.rebuild(records, file.path.name)
            log.warning("%s", rebuilt.describe())
            records = rebuilt.records
        elif self.release == "official" and not found.is_sample and len(records) != 11:
            log.warning("%s holds %d conversations; the paper has 11", file.path.name, len(records))
        for number, record in enumerate(records, 1):
            yield _sample(record, f"{file.path.name}, record {number}")


def parse_exchange(text: str) -> tuple[str, str | None]:
    """Return the human's and the bot's words of one exchange.

    An exchange may begin with `<Turn i>:`; roles are parsed by the first `[human]:` and the first
    `[bot]:` after it, because replies may hold both marks. The bot's part may be absent. Raises
    `ValueError` for a text without `[human]:` where it belongs.
    """
    tag = _TURN_TAG.match(text)
    body = text[tag.end() :] if tag else text.lstrip()
    if not body.startswith(_HUMAN):
        raise ValueError("an exchange should begin with '[human]:'")
    human, mark, bot = body.removeprefix(_HUMAN).partition(_BOT)
    return human.strip(), bot.strip() if mark and bot.strip() else None


def without_answer_tag(text: str) -> str:
    """Remove a literal leading `Answer:`; SeCom strips those *characters* from both ends."""
    tag = _ANSWER_TAG.match(text)
    return (text[tag.end() :] if tag else text).strip()


def _records(file: FoundFile) -> list[Any]:
    if file.path.suffix == ".jsonl":
        return [record for _, record in read_json_lines(file.path)]
    if file.path.suffix == ".parquet":
        return _parquet(file)
    records = read_json(file.path)
    if not isinstance(records, list):
        raise UserError(f"{file.path.name} should be a list of conversations.")
    return records


def _parquet(file: FoundFile) -> list[Any]:
    import pandas as pd

    try:
        frame = pd.read_parquet(file.path)
    except ImportError:
        raise UserError(
            f"{file.path.name} is a parquet file: `pip install pyarrow` to read it, or put the "
            "JSON export of the data set in its place."
        ) from None
    return list(_plain(frame.to_dict("records")))


def _plain(value: Any) -> Any:
    """Turn nested arrays, which parquet readers return for lists, into lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value.item() if hasattr(value, "item") else value
    return [_plain(item) for item in value]


def _sample(record: object, where: str) -> Sample:
    name = str(need(record, "conversation_id", (str, int), where))
    where = f"{where} ({name})"
    sessions: list[Session] = []
    for number, exchanges in enumerate(need(record, "sessions", list, where), 1):
        sessions.append(_session(exchanges, number, f"{where}, session {number}"))
    questions = need_strings(record, "questions", where)
    answers = need(record, "answers", list, where)
    if len(questions) != len(answers):
        raise UserError(
            f"{where}: {len(questions)} questions and {len(answers)} answers should be equally "
            "many."
        )
    return Sample(
        Conversation(name, tuple(sessions)),
        tuple(
            _question(name, index, text, answer)
            for index, (text, answer) in enumerate(zip(questions, answers, strict=True))
        ),
    )


def _question(name: str, index: int, text: str, answer: object) -> Question:
    raw = None if answer is None else str(answer)
    reference = None if raw is None else without_answer_tag(raw)
    changed = raw is not None and raw != reference
    return Question(
        conversation=name,
        index=index,
        id=f"{name}_q{index}",
        text=text.strip(),
        category="open",
        reference=reference,
        has_evidence=False,
        extra={"raw_answer": raw} if raw is not None and changed else {},
    )


def _session(exchanges: object, number: int, where: str) -> Session:
    if not isinstance(exchanges, list):
        raise UserError(f"{where}: expected a list of exchanges.")
    turns: list[Turn] = []
    for position, text in enumerate(exchanges, 1):
        if not isinstance(text, str):
            raise UserError(f"{where}, exchange {position}: expected a string.")
        try:
            human, bot = parse_exchange(text)
        except ValueError as error:
            raise UserError(f"{where}, exchange {position}: {error}.") from None
        first = f"session_{number}:{2 * position - 1}"
        turns.append(Turn(first, "user", human, role="user"))
        if bot is not None:
            second = f"session_{number}:{2 * position}"
            turns.append(Turn(second, "assistant", bot, role="assistant"))
    return Session(f"session_{number}", tuple(turns))
