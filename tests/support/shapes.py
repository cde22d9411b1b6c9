"""Shapes of replies that a schema has to bind: what the systems' own prompts ask for."""

from __future__ import annotations

from pydantic import BaseModel


class Keywords(BaseModel):
    keywords: list[str]


class Match(BaseModel):
    keyword: str
    canonical: str


class Matches(BaseModel):
    matches: list[Match]


class Verdict(BaseModel):
    answer: str
    critical_memories: list[str]
    sufficient: bool
