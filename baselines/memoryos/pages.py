"""Dialogue pages (user utterance Q, reply R, time T) and how turns become pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from memsys.dialogue import Session, Turn
from memsys.llm import ledger
from memsys.rendering import dated_text, plain_line
from memsys.system import Unit


@dataclass
class Page:
    """One page; either side may be empty. `chain` is the number of its chain of pages."""

    id: str
    time: str = ""  # ISO, or empty
    time_text: str = ""
    user: str = ""  # `Speaker: text`
    reply: str = ""
    user_turn: str = ""
    reply_turn: str = ""
    sessions: list[str] = field(default_factory=list)
    chain: int = -1
    keywords: list[str] = field(default_factory=list)
    analysed: bool = False

    @property
    def text(self) -> str:
        """Both sides, one a line."""
        return "\n".join(side for side in (self.user, self.reply) if side)

    def unit(self) -> Unit:
        """Return the page as a unit; its fields hold the whole page."""
        turns = tuple(turn for turn in (self.user_turn, self.reply_turn) if turn)
        text = dated_text(self.text.split("\n"), self.time_text)
        return Unit(self.id, text, turns, tuple(self.sessions), asdict(self))


def page_of(fields: Any) -> Page:
    """Return the page that a unit's fields hold."""
    copied: dict[str, Any] = {
        key: list(v) if isinstance(v, list | tuple) else v for key, v in fields.items()
    }
    return Page(**copied)


class Pager:
    """Turns sessions into pages, numbered from `made` on; `user` names the user's side."""

    def __init__(self, user: str, made: int) -> None:
        self.user = user
        self.made = made

    def pages(self, session: Session) -> list[Page]:
        """Pair an utterance of the user with the reply that follows it in its session.

        An utterance without a counterpart makes a page of its own: nothing is lost.
        """
        pages: list[Page] = []
        for turn in session.turns:
            if self._is_user(turn):
                pages.append(self._new(turn, session))
            elif pages and pages[-1].user and not pages[-1].reply:
                _set_reply(pages[-1], turn, session)
            else:
                pages.append(self._new(turn, session))
        return pages

    def official_pages(self, sessions: Sequence[Session], last: Page | None) -> list[Page]:
        """Pair as the authors' `eval/` does, beginning with the `last` page known, if any.

        A reply overwrites the reply before it, also across sessions; lost turns are counted.
        """
        pages = [last] if last else []
        for session in sessions:
            for turn in session.turns:
                if self._is_user(turn) or not pages:
                    pages.append(self._new(turn, session))
                else:
                    ledger.count("memoryos.turns_lost", bool(pages[-1].reply_turn))
                    _set_reply(pages[-1], turn, session)
        return pages

    def _is_user(self, turn: Turn) -> bool:
        return turn.role == "user" if turn.role else turn.speaker == self.user

    def _new(self, turn: Turn, session: Session) -> Page:
        time = session.date.isoformat() if session.date else ""
        page = Page(f"page-{self.made}", time, session.date_text)
        self.made += 1
        if self._is_user(turn):
            page.user, page.user_turn = plain_line(turn), turn.id
            page.sessions.append(session.id)
        else:
            _set_reply(page, turn, session)
        return page


def _set_reply(page: Page, turn: Turn, session: Session) -> None:
    page.reply, page.reply_turn = plain_line(turn), turn.id
    if session.id not in page.sessions:
        page.sessions.append(session.id)


def meet(sessions: Iterable[Session], user: str, assistant: str) -> tuple[str, str]:
    """Return the names of both sides, as far as `sessions` tell, keeping those already known.

    The user is who has that role, else the benchmark's speaker A, else who speaks first.
    """
    for session in sessions:
        for turn in session.turns:
            if turn.role != "assistant" and not user:
                user = turn.speaker if turn.role else session.speaker_a or turn.speaker
            if turn.role != "user" and turn.speaker != user and not assistant:
                assistant = turn.speaker
    return user, assistant
