"""What MemoryOS's structured calls return, read leniently."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, model_validator

_NOTHING = {"", "none", "n/a", "null", "-"}
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return str(value).strip() if isinstance(value, str | int | float) else ""


def read_lines(value: Any) -> list[str]:
    """Read entries, one a line or list item; bullets and entries like "none" are dropped."""
    items = value if isinstance(value, list) else _text(value).splitlines()
    lines = (_BULLET.sub("", _text(item)).strip() for item in items)
    return [line for line in lines if line.strip(". ").casefold() not in _NOTHING]


def read_keywords(value: Any) -> list[str]:
    """Read at most three keywords from a comma-separated line or a list."""
    words = value.split(",") if isinstance(value, str) else read_lines(value)
    return [w.strip(" .\"'\n") for w in words if w.strip(" .\"'\n").casefold() not in _NOTHING][:3]


class Theme(BaseModel):
    """One topic of the evicted text."""

    theme: Annotated[str, BeforeValidator(_text)] = ""
    keywords: Annotated[list[str], BeforeValidator(read_lines)] = Field(default_factory=list)
    content: Annotated[str, BeforeValidator(_text)]


class Themes(BaseModel):
    """At most two topics. A bare array, or one bare topic, is read as such."""

    themes: Annotated[list[Theme], Field(json_schema_extra={"minItems": 1, "maxItems": 2})]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {"themes": value}
        if isinstance(value, dict) and "themes" not in value and "content" in value:
            return {"themes": [value]}
        return value


class Persona(BaseModel):
    """What some pages say about the user: a profile, and facts."""

    profile: Annotated[str, BeforeValidator(_text)]
    facts: Annotated[list[str], BeforeValidator(read_lines)]


class Facts(BaseModel):
    """What some pages say about the other side."""

    facts: Annotated[list[str], BeforeValidator(read_lines)]


def read_flag(text: str) -> bool | None:
    """Read `true` or `false`, whichever stands first; `None` for neither."""
    found = re.search(r"\b(true|false)\b", text.lower())
    return found.group(1) == "true" if found else None
