"""Answers of which we know how a judge must take them, made from a benchmark's own gold by rule.

The reference and a paraphrase of it are right; the reference of another question, a date or
number off by one, a vague answer and an empty one are wrong. Nothing is drawn at random.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal

from memsys.dialogue import MONTHS, Question

Wanted = Literal["accept", "reject"]

CONTROLS: dict[str, Wanted] = {
    "reference": "accept",
    "paraphrase": "accept",
    "wrong_entity": "reject",
    "off_by_one": "reject",
    "vague": "reject",
    "empty": "reject",
}
"""Every control, and what a sound judge does with it."""

RUBRICS = frozenset({"single-session-preference"})
"""Categories whose reference describes good answers rather than being one (LongMemEval)."""

_VAGUE = {
    "when": "Some time ago, if I remember rightly.",
    "where": "Somewhere they like to be.",
    "who": "Someone they know.",
    "how many": "Quite a few.",
    "how long": "For a while now.",
    "how": "In their own way.",
    "why": "They had their reasons.",
}
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen",
)  # fmt: skip
_MONTH = "|".join(MONTHS)
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}}) ({_MONTH}),? (\d{{4}})\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b({_MONTH}) (\d{{1,2}}),? (\d{{4}})\b", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_MONTH_YEAR = re.compile(rf"\b({_MONTH}),? (\d{{4}})\b", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"(?<![\d.,:])\d{1,6}(?![\d:]|[.,]\d)")
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_NUMBERS[:-1])})\b", re.IGNORECASE)


def usable(question: Question) -> bool:
    """Whether the question's reference is an answer, so that controls can be made from it."""
    contested = question.abstention or question.adversarial or question.category in RUBRICS
    return not contested and bool((question.reference or "").strip())


def control_answers(question: Question, others: Sequence[tuple[Question, str]]) -> dict[str, str]:
    """Return the control answers to a question, by name.

    `others` are other questions of the conversation with what answers them. Without a reference
    only what needs none is made; `off_by_one` needs a date or number in the reference.
    """
    found = {"vague": vague(question.text), "empty": ""}
    if (wrong := wrong_entity(question, others)) is not None:
        found["wrong_entity"] = wrong
    if question.reference:
        found["reference"] = question.reference
        found["paraphrase"] = paraphrase(question.reference)
        if (shifted := off_by_one(question.reference)) is not None:
            found["off_by_one"] = shifted
    return {name: found[name] for name in CONTROLS if name in found}


def vague(text: str) -> str:
    """Return an answer to a question that says nothing."""
    start = text.lower()
    fits = (answer for word, answer in _VAGUE.items() if start.startswith(f"{word} "))
    return next(fits, "It was something that they talked about.")


def wrong_entity(question: Question, others: Sequence[tuple[Question, str]]) -> str | None:
    """Return what answers another question and shares no word with this one's reference.

    The next question of the same category is preferred, then the next of any.
    """
    own = _words(question.reference or "")
    after = sorted(others, key=lambda o: (o[0].index <= question.index, o[0].index))
    for same in (True, False):
        for other, answer in after:
            if other.key == question.key or (other.category == question.category) != same:
                continue
            if answer.strip() and not own & _words(answer):
                return answer
    return None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - {"the", "a", "an", "and", "of", "in", "to"}


def off_by_one(reference: str) -> str | None:
    """Return the reference with its first date a day, month or year later, or a number one more.

    `None` where it has neither.
    """
    for shift in (_day_later, _month_later, _number_more):
        if (found := shift(reference)) is not None:
            return found
    return None


def paraphrase(reference: str) -> str:
    """Return the reference in other words: dates and numbers written another way, in a sentence.

    A list of things is given in another order.
    """
    text = _other_date(reference)
    if text is None:
        text = _other_number(reference)
    if text is None:
        text = _other_order(reference) or reference
    return f"That would be {text.strip().rstrip('.')}."


_Found = tuple[re.Match[str], date]


def _first_date(text: str) -> _Found | None:
    """Return the first full date of a text, and where it stands."""
    places = ((_ISO, (1, 2, 3)), (_DAY_FIRST, (3, 2, 1)), (_MONTH_FIRST, (3, 1, 2)))
    for pattern, (year, month, day) in places:
        match = pattern.search(text)
        if match and (found := _date(match[year], match[month], match[day])) is not None:
            return match, found
    return None


def _day_later(text: str) -> str | None:
    found = _first_date(text)
    if found is None:
        return None
    match, day = found
    return _put(text, match, _written(day + timedelta(days=1), match.re))


def _written(day: date, style: re.Pattern[str]) -> str:
    """Write a date in the style that a pattern reads."""
    month = MONTHS[day.month - 1]
    if style is _ISO:
        return day.isoformat()
    return (
        f"{day.day} {month} {day.year}" if style is _DAY_FIRST else f"{month} {day.day}, {day.year}"
    )


def _put(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def _date(year: str, month: str, day: str) -> date | None:
    number = int(month) if month.isdigit() else MONTHS.index(month.capitalize()) + 1
    try:
        return date(int(year), number, int(day))
    except ValueError:
        return None


def _month_later(text: str) -> str | None:
    match = _MONTH_YEAR.search(text)
    if match is None:
        return None
    month = MONTHS.index(match[1].capitalize()) + 1
    return _put(text, match, f"{MONTHS[month % 12]} {int(match[2]) + month // 12}")


def _number_more(text: str) -> str | None:
    if match := _WHOLE_NUMBER.search(text):
        return _put(text, match, str(int(match[0]) + 1))
    if match := _NUMBER_WORD.search(text):
        return _put(text, match, _NUMBERS[_NUMBERS.index(match[0].lower()) + 1])
    return None


def _other_date(text: str) -> str | None:
    found = _first_date(text)
    if found is None:
        return None
    match, day = found
    return _put(text, match, _written(day, _MONTH_FIRST if match.re is _DAY_FIRST else _DAY_FIRST))


def _other_number(text: str) -> str | None:
    if match := _WHOLE_NUMBER.search(text):
        number = int(match[0])
        return _put(text, match, _NUMBERS[number]) if number < len(_NUMBERS) else None
    if match := _NUMBER_WORD.search(text):
        return _put(text, match, str(_NUMBERS.index(match[0].lower())))
    return None


def _other_order(text: str) -> str | None:
    parts = [part for part in re.split(r",\s*(?:and\s+)?|\s+and\s+", text) if part.strip()]
    if len(parts) < 2 or any(len(part.split()) > 4 for part in parts):
        return None  # a sentence rather than a list
    return f"{', '.join(parts[1:])} and {parts[0]}" if len(parts) > 2 else " and ".join(parts[::-1])
