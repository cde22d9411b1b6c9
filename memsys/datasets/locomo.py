"""LoCoMo-10: ten dated conversations between two people, 1,986 questions in five categories.

Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", ACL 2024.
Category codes: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial (the official
table's counts 282 / 321 / 96 / 841 / 446 settle the order).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, ClassVar, Literal

from memsys.datasets import locomo_audit, locomo_evidence
from memsys.datasets.base import Benchmark, Found, Rules, Sample
from memsys.datasets.dates import locomo_date
from memsys.datasets.fields import need, need_strings, read_json
from memsys.datasets.files import locate, search_folders, verified
from memsys.datasets.notes import with_notes
from memsys.dialogue import Conversation, Question, Session, Turn
from memsys.errors import UserError

ADVERSARIAL = "5"
NOT_MENTIONED = "Not mentioned in the conversation"
_SESSION = re.compile(r"session_(\d+)")


class LoCoMo(Benchmark):
    """LoCoMo-10. `captions`: which shared images are described to the systems.

    `all`: every machine caption (1,226 turns; MemGAS, MemoryOS), `with_url`: only where the
    image's address is given too (910; A-Mem), `none`. The image search words are never used:
    some gold answers leak from them. `labels=audited` keeps the questions whose labels a public
    audit found sound: a second figure, never the main one.
    """

    name: ClassVar[str] = "locomo"
    title: ClassVar[str] = "LoCoMo-10"
    version: ClassVar[int] = 1
    has_notes: ClassVar[bool] = True
    CATEGORY_NAMES: ClassVar[dict[str, str]] = {
        "1": "multi-hop",
        "2": "temporal",
        "3": "open-domain",
        "4": "single-hop",
        "5": "adversarial",
    }

    release: Literal["official", "custom"] = "official"
    captions: Literal["all", "with_url", "none"] = "all"
    labels: Literal["original", "audited"] = "original"

    def release_name(self) -> str:
        """Return `official` or `custom`."""
        return self.release

    def keys(self) -> tuple[str, ...]:
        """Return the one file's key."""
        return ("conversations",)

    def read(self, found: Found, rules: Rules) -> Iterator[Sample]:
        """Yield the conversations in file order."""
        path = found.path("conversations")
        records = read_json(path)
        if not isinstance(records, list):
            raise UserError(
                f"{path} holds an {type(records).__name__}, not LoCoMo's list of samples."
            )
        audit = self._audit(found) if self.labels == "audited" else None
        for position, record in enumerate(records):
            where = f"{path.name}, sample {position + 1}"
            name = need(record, "sample_id", str, where)
            conversation = self._conversation(record, name, f"{where} ({name})")
            questions = list(_questions(record, conversation, rules, f"{where} ({name})"))
            if audit is not None:
                questions = list(audit.apply(position, questions, conversation))
            yield Sample(conversation, tuple(questions))

    def _conversation(self, record: object, name: str, where: str) -> Conversation:
        content: dict[str, Any] = need(record, "conversation", dict, where)
        # sessions are the keys that hold lists: conv-26 has 16 dates without a session
        names = [_SESSION.fullmatch(key) for key, value in content.items() if type(value) is list]
        numbers = sorted(int(match[1]) for match in names if match)
        sessions = [self._session(content, number, where) for number in numbers]
        if self.metadata == "dataset":
            summaries: dict[str, Any] = need(record, "session_summary", dict, where)
            texts = [need(summaries, f"{s.id}_summary", str, where) for s in sessions]
            return Conversation(name, with_notes(sessions, texts))
        return Conversation(name, tuple(sessions))

    def _session(self, content: dict[str, Any], number: int, where: str) -> Session:
        name = f"session_{number}"
        where = f"{where}, {name}"
        date = locomo_date(need(content, f"{name}_date_time", str, where), where)
        turns = tuple(
            self._turn(turn, f"{where}, turn {position}")
            for position, turn in enumerate(content[name], 1)
        )
        return Session(name, turns, date, speaker_a=content.get("speaker_a"))

    def _turn(self, record: object, where: str) -> Turn:
        text = need(record, "text", str, where)
        caption: str | None = None
        if isinstance(record, dict) and "blip_caption" in record and self.captions != "none":
            shown = self.captions == "all" or "img_url" in record
            caption = need(record, "blip_caption", str, where) if shown else None
        speaker = need(record, "speaker", str, where)
        return Turn(need(record, "dia_id", str, where), speaker, text, caption)

    def _audit(self, found: Found) -> locomo_audit.Audit:
        if found.is_sample or self.release == "custom":
            raise UserError("labels=audited covers the official LoCoMo file only.")
        card = self.source.extras["audit"]
        folders = [*([self.path.parent] if self.path else []), *search_folders(self.source)]
        place = locate(card, folders)
        if place is None:
            raise UserError(
                f"labels=audited needs {card.path} from {card.origin} in "
                f"{' or '.join(str(folder) for folder in folders)}: run "
                "`python scripts/fetch.py locomo-audit`."
            )
        return locomo_audit.read(verified(place, card, self.source).path)


def _questions(
    record: object, conversation: Conversation, rules: Rules, where: str
) -> Iterator[Question]:
    """Yield the questions under the rules; `index` is the position in the file's own list."""
    turn_ids = {turn.id for session in conversation.sessions for turn in session.turns}
    items: list[object] = need(record, "qa", list, where)
    for index, item in enumerate(items):
        place = f"{where}, question {index}"
        category = str(need(item, "category", (int, str), place))
        raw = need_strings(item, "evidence", place)
        evidence = (
            locomo_evidence.memgas(raw)
            if rules.evidence == "memgas"
            else locomo_evidence.repaired(raw, turn_ids)
        )
        question = Question(
            conversation=conversation.id,
            index=index,
            id=f"{conversation.id}_qa{index}",
            text=need(item, "question", str, place).strip(),
            category=category,
            evidence_turns=evidence.turns,
            evidence_sessions=evidence.sessions,
            has_evidence=evidence.counts,
        )
        if category != ADVERSARIAL:
            # 6 gold answers are numbers
            yield replace(question, reference=_text(item, "answer", place))
        elif rules.category5 != "exclude":
            yield _adversarial(question, item, rules, place)


def _adversarial(question: Question, item: object, rules: Rules, where: str) -> Question:
    """Return an adversarial question: its trap as gold (MemGAS), or the official choice.

    Two items also carry an `answer`; both modes score against the trap all the same, as the
    papers' code does, and `extra` keeps it.
    """
    trap = _text(item, "adversarial_answer", where)
    extra = {}
    if isinstance(item, dict) and "answer" in item:
        extra["answer"] = _text(item, "answer", where)
    if rules.category5 == "trap":
        return replace(question, reference=trap, trap=trap, adversarial=True, extra=extra)
    options = [NOT_MENTIONED, trap]
    # the official script tosses an unseeded coin: here the order hangs on seed and question alone
    Random(f"{rules.seed}/{question.id}").shuffle(options)
    choice_a, choice_b = options
    extra |= {"plain_question": question.text, "choice_a": choice_a, "choice_b": choice_b}
    text = f"{question.text}\nChoose one: (a) {choice_a} (b) {choice_b}"
    return replace(
        question, text=text, reference=NOT_MENTIONED, trap=trap, adversarial=True, extra=extra
    )


def _text(item: object, field: str, where: str) -> str:
    return str(need(item, field, (str, int), where)).strip()
