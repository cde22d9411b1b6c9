"""What the three memory calls return, read leniently; an unreadable reply changes nothing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(filter(None, (_text(item) for item in value)))
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _texts(value: Any) -> list[str]:
    """A comma-separated text counts as a list."""
    items = value.split(",") if isinstance(value, str) else value
    return [t for t in map(_text, items if isinstance(items, list) else []) if t]


def _slots(value: Any) -> list[str]:
    """Like `_texts`, but an empty place stays a place: what follows belongs to later notes."""
    return [_text(item) for item in value] if isinstance(value, list) else _texts([value])


def _tag_lists(value: Any) -> list[list[str]]:
    return [_texts(item) for item in value] if isinstance(value, list) else []


def _numbers(value: Any) -> list[int]:
    items = value if isinstance(value, list) else [value]
    whole = (str(item).strip() for item in items if not isinstance(item, bool))
    return [int(text) for text in whole if text.isascii() and text.isdigit() and len(text) < 10]


def _words(value: Any) -> list[str]:
    return [text.lower() for text in _texts(value)]


def _flag(value: Any) -> bool:
    return value.strip().lower() in ("true", "yes") if isinstance(value, str) else value is True


def _all_required(schema: dict[str, Any]) -> None:
    schema["required"] = list(schema["properties"])


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[list[str], BeforeValidator(_texts)]


class Analysis(BaseModel):
    """The note call: what a turn is about. A cut-off reply keeps what it has."""

    model_config = ConfigDict(json_schema_extra=_all_required)

    keywords: Texts
    context: Text = ""
    tags: Texts = Field(default_factory=list)


class Evolution(BaseModel):
    """The evolution call: links of the new note, and what changes in its neighbours.

    All fields are asked for; a reply that leaves some out changes nothing there.
    """

    model_config = ConfigDict(json_schema_extra=_all_required)

    should_evolve: Annotated[bool, BeforeValidator(_flag)]
    actions: Annotated[list[str], BeforeValidator(_words)] = Field(default_factory=list)
    suggested_connections: Annotated[list[int], BeforeValidator(_numbers)] = Field(
        default_factory=list
    )
    tags_to_update: Texts = Field(default_factory=list)
    new_context_neighborhood: Annotated[list[str], BeforeValidator(_slots)] = Field(
        default_factory=list
    )
    new_tags_neighborhood: Annotated[list[list[str]], BeforeValidator(_tag_lists)] = Field(
        default_factory=list
    )


class Keywords(BaseModel):
    """The query call: the question as a comma-separated keyword string."""

    keywords: Text
