"""LongMemEval: 500 questions, each over its own haystack of dated user-assistant sessions.

Wu et al., "LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory", ICLR 2025.
Files of up to 2.7 GB are streamed: memory is bounded by the largest haystack.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from memsys.datasets.base import Benchmark, Found, Rules, Sample
from memsys.datasets.dates import longmemeval_date
from memsys.datasets.fields import need, need_strings
from memsys.datasets.json_stream import no_collection, stream_records
from memsys.datasets.manifest import FileSource
from memsys.datasets.sharing import Sharing
from memsys.dialogue import Conversation, Question, Session, Turn
from memsys.errors import UserError

log = logging.getLogger(__name__)

ABSTENTION = "_abs"
PREFERENCE = "single-session-preference"
_ROLES: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}


class LongMemEval(Benchmark):
    """LongMemEval in one `variant` and `release`.

    `s`: about 50 sessions a haystack, `m`: about 500, `oracle`: the evidence alone. MemGAS used
    the `original` release of October 2024 (its code opens the file without extension; its 50.2
    sessions do not fit the `cleaned` one's 47.7); `oracle` is the same in both.
    """

    name: ClassVar[str] = "longmemeval"
    title: ClassVar[str] = "LongMemEval"
    version: ClassVar[int] = 1
    CATEGORY_NAMES: ClassVar[dict[str, str]] = {
        "single-session-user": "single-session (user)",
        "single-session-assistant": "single-session (assistant)",
        "single-session-preference": "single-session (preference)",
        "multi-session": "multi-session",
        "knowledge-update": "knowledge update",
        "temporal-reasoning": "temporal reasoning",
    }

    variant: Literal["s", "m", "oracle"] = "s"
    release: Literal["original", "cleaned", "custom"] = "original"

    def release_name(self) -> str:
        """Return `original`, `cleaned` or `custom`."""
        return self.release

    def keys(self) -> tuple[str, ...]:
        """Return the variant: one file each."""
        return (self.variant,)

    def sample_path(self, file: FileSource) -> str:
        """Return the one synthetic file, which serves all variants."""
        return "longmemeval_sample.json"

    def read(self, found: Found, rules: Rules) -> Iterator[Sample]:
        """Yield the haystacks in file order, each with its one question.

        What the haystacks share is logged at the end.
        """
        path = found.path(self.variant)
        sharing = Sharing()
        for number, record in enumerate(stream_records(path), 1):
            with no_collection():
                sample = _sample(record, rules, f"{path.name}, record {number}")
            sharing.add(sample.conversation.sessions)
            yield sample
        log.info("%s %s: %s", self.title, self.variant, sharing.describe())


@dataclass(frozen=True, slots=True)
class _Placed:
    """A session of the haystack at its place in time, with the labels that no system may see."""

    raw_id: str
    session: Session
    marked: tuple[Turn, ...]


def _sample(record: object, rules: Rules, where: str) -> Sample:
    name = need(record, "question_id", str, where)
    where = f"{where} ({name})"
    placed = _haystack(record, where)
    conversation = Conversation(name, tuple(item.session for item in placed))
    return Sample(conversation, (_question(record, name, placed, rules, where),))


def _haystack(record: object, where: str) -> list[_Placed]:
    """Return the sessions in time order under neutral ids.

    An `answer_` in a session's id gives the evidence away, and an `_abs` the abstention; ids also
    repeat within a haystack. So a session is named by its place in time, `session_1` first.
    """
    ids = need_strings(record, "haystack_session_ids", where)
    dates = [longmemeval_date(d, where) for d in need_strings(record, "haystack_dates", where)]
    sessions: list[object] = need(record, "haystack_sessions", list, where)
    if not len(ids) == len(dates) == len(sessions):
        raise UserError(
            f"{where}: {len(sessions)} sessions, {len(ids)} session ids and {len(dates)} dates "
            "should be equally many."
        )
    # stable: two sessions of one minute keep the file's order
    order = sorted(range(len(ids)), key=dates.__getitem__)
    placed = [
        _session(sessions[i], ids[i], dates[i], number, f"{where}, session {i + 1}")
        for number, i in enumerate(order, 1)
    ]
    names = {item.session.id for item in placed}
    assert len(names) == len(placed), f"{where}: masked session ids are not unique"
    return placed


def _session(turns: object, raw_id: str, date: datetime, number: int, where: str) -> _Placed:
    if not isinstance(turns, list):
        raise UserError(f"{where}: expected a list of turns, found {type(turns).__name__}.")
    name = f"session_{number}"
    made: list[Turn] = []
    marked: list[Turn] = []
    for position, item in enumerate(turns, 1):
        try:
            role, text = _ROLES[item["role"]], item["content"]
        except (KeyError, TypeError):
            role, text = None, None
        if role is None or not isinstance(text, str):
            raise _turn_error(item, f"{where}, turn {position}")
        # `has_answer` stays behind: a turn has no room for it
        turn = Turn(f"{name}:{position}", role, text, None, role)
        made.append(turn)
        if item.get("has_answer") is True:
            marked.append(turn)
    return _Placed(raw_id, Session(name, tuple(made), date), tuple(marked))


def _turn_error(item: object, where: str) -> UserError:
    """Say what is wrong with a turn; apart, because millions of turns are right."""
    try:
        need(item, "role", str, where)
        need(item, "content", str, where)
    except UserError as error:
        return error
    return UserError(f"{where}: the role should be 'user' or 'assistant'.")


def _question(
    record: object, name: str, placed: list[_Placed], rules: Rules, where: str
) -> Question:
    category = need(record, "question_type", str, where)
    if category not in LongMemEval.CATEGORY_NAMES:
        raise UserError(f"{where}: unknown question_type '{category}'.")
    raw_gold = need_strings(record, "answer_session_ids", where)
    if lost := sorted(set(raw_gold) - {item.raw_id for item in placed}):
        raise UserError(f"{where}: the evidence session '{lost[0]}' is not in the haystack.")
    abstention = name.endswith(ABSTENTION)
    turns, sessions, marked = _gold(placed, rules.longmemeval_gold)
    kind = "explanation" if abstention else "rubric" if category == PREFERENCE else "answer"
    return Question(
        conversation=name,
        index=0,
        id=name,
        text=need(record, "question", str, where).strip(),
        category=category,
        date=longmemeval_date(need(record, "question_date", str, where), where),
        # 32 gold answers are numbers
        reference=str(need(record, "answer", (str, int, float), where)).strip(),
        evidence_turns=turns,
        evidence_sessions=sessions,
        has_evidence=not abstention and (marked or rules.longmemeval_gold == "memgas"),
        abstention=abstention,
        extra={"reference_kind": kind, "raw_evidence_sessions": " ".join(raw_gold)},
    )


def _gold(
    placed: list[_Placed], rule: Literal["memgas", "official"]
) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return gold turns, gold sessions and whether any turn is marked, under the rule.

    `memgas`: sessions with a marked turn of either role; only abstention is skipped (470 of 500
    count). `official`: a session whose id contains `answer`, with a marked *user* turn; questions
    without one are skipped too (419 count).
    """
    turns: list[str] = []
    sessions: list[str] = []
    for item in placed:
        marked = item.marked
        if rule == "official":
            named = "answer" in item.raw_id
            marked = tuple(turn for turn in marked if named and turn.role == "user")
        turns.extend(turn.id for turn in marked)
        if marked:
            sessions.append(item.session.id)
    return tuple(turns), tuple(sessions), bool(turns)
