"""The benchmarks' date formats, read without the machine's locale into timezone-free datetimes."""

from __future__ import annotations

import re
from datetime import datetime

from memsys.dialogue import MONTHS
from memsys.errors import UserError

_MONTH_NUMBERS = {name.lower(): number for number, name in enumerate(MONTHS, 1)}
_LOCOMO = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m) on (\d{1,2}) ([A-Za-z]+), (\d{4})", re.I)
# the weekday in parentheses is skipped by pattern: %a would follow the machine's locale
_LONGMEMEVAL = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})\s*(?:\([^)]*\))?\s*(\d{1,2}):(\d{2})")
_ISO_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")


def locomo_date(text: str, where: str) -> datetime:
    """Read `1:56 pm on 8 May, 2023` (12-hour clock: 12 am is midnight, 12 pm noon)."""
    match = _LOCOMO.fullmatch(text.strip())
    month = _MONTH_NUMBERS.get(match[5].lower()) if match else None
    if match is None or month is None or not 1 <= int(match[1]) <= 12:
        raise UserError(f"{where}: '{text}' is no date like '1:56 pm on 8 May, 2023'.")
    hour = int(match[1]) % 12 + (12 if match[3].lower() == "pm" else 0)
    return _build(text, where, int(match[6]), month, int(match[4]), hour, int(match[2]))


def longmemeval_date(text: str, where: str) -> datetime:
    """Read `2023/05/30 (Tue) 23:40`."""
    match = _LONGMEMEVAL.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{where}: '{text}' is no date like '2023/05/30 (Tue) 23:40'.")
    return _build(text, where, *(int(part) for part in match.groups()))


def iso_day(text: str, where: str) -> datetime:
    """Read `2023-04-27`, as midnight of that day (its precision is the day)."""
    match = _ISO_DAY.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{where}: '{text}' is no date like '2023-04-27'.")
    return _build(text, where, *(int(part) for part in match.groups()))


def _build(text: str, where: str, *parts: int) -> datetime:
    try:
        year, month, day, hour, minute = (*parts, 0, 0)[:5]
        return datetime(year, month, day, hour, minute)
    except ValueError as error:
        raise UserError(f"{where}: '{text}' is no date ({error}).") from None
