"""Replies for a dry run: of the form a prompt asks for, of the length its examples have.

What a reply says matters where it decides how many calls follow and how long the next prompts
are. A dry run is therefore made three times: with `lean` *yes* (every yes/no field says yes,
every choice takes its last value, replies are short), *no* (the opposite, replies are long) and
*even* (yes/no fields by their chances, choices all alike, replies of the expected length). Words
are taken from the prompt itself, so that keywords, summaries and search queries are about what it
is about.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from memsys.llm.chat import Request
from memsys.settings import Settings

Lean = Literal["yes", "even", "no"]
LEANS: tuple[Lean, ...] = ("yes", "even", "no")
Lengths = tuple[int, int, int]

_WORD = re.compile(r"[^\W\d_][\w'-]{2,}")
_STRING = {"yes": 2, "even": 4, "no": 12}  # words of a text field without any example
_SHORT = 2  # words: so short a field is a keyword or a name
_NAMES = {"yes": 0.0, "even": 0.5, "no": 1.0}  # of keywords: names occur in many memories
_LIST = {"yes": 1, "even": 3, "no": 6}  # entries of a list without any example


class VectorsTaken(Settings):
    """When a plan embeds with the encoder itself, and how much wider its ranges are otherwise.

    Shares below and above: `recall` for the prompts of questions, `clusters` for builds whose
    calls depend on vectors, those of methods with the setting `clustering` or that differ between
    dry runs; `own_…` with the encoder's vectors, where those of replies still differ.
    """

    most_tokens: int
    recall: tuple[float, float]
    own_recall: tuple[float, float]
    clusters: tuple[float, float]
    own_clusters: tuple[float, float]
    clustering: str


class Manners(Settings):
    """`configs/plan.yaml`: what replies are like, where prompts do not say so themselves."""

    text: Lengths
    texts: Mapping[str, Lengths] = {}
    fixed: Mapping[str, str] = {}
    chances: Mapping[str, float] = {}
    vectors: VectorsTaken | None = None
    light: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Manners:
        """Read the file of a config folder."""
        return cls.model_validate(yaml.safe_load((folder / "plan.yaml").read_text("utf-8")))


class Writer:
    """Writes the replies of one dry run; the same request always gets the same reply."""

    def __init__(self, manners: Manners, lean: Lean) -> None:
        """Reply as `manners` say, leaning as told."""
        self.manners = manners
        self.lean: Lean = lean

    def reply(self, request: Request, prompt: str) -> str:
        """Return a reply to a request whose prompt is called `prompt` (`folder/name`)."""
        words = _WORD.findall(request.messages[-1].content) or ["something"]
        draw = _Draw(
            f"{prompt}{request.messages[-1].content}{request.attempt}{request.sample}", words
        )
        examples = [m.content for m in request.messages[:-1] if m.role == "assistant"]
        if prompt in self.manners.fixed and request.schema is None:
            return self.manners.fixed[prompt]
        if request.schema is not None:
            models = [value for text in examples if (value := _json(text)) is not None]
            value = self._value(request.schema, request.schema, models, "", draw)
            return json.dumps(value, ensure_ascii=False)
        if examples:
            return self._like(examples, draw)
        low, expected, high = self.manners.texts.get(prompt, self.manners.text)
        tokens = {"yes": low, "even": expected, "no": high}[self.lean]
        return draw.words(max(1, round(0.75 * min(tokens, request.max_tokens))))

    def _like(self, examples: Sequence[str], draw: _Draw) -> str:
        """Return a reply like the worked examples: one of them, where they are fixed words."""
        if all(len(text.split()) == 1 for text in examples):
            return str(draw.one(examples))
        sizes = [len(text.split()) for text in examples]
        return draw.words(self._size(sizes, 2))

    def _size(self, seen: Sequence[int], spread: int) -> int:
        """Return a length between the examples' shortest and longest, and beyond if told to."""
        if self.lean == "yes":
            return max(1, min(seen))
        mean = sum(seen) / len(seen)
        return max(1, round(mean if self.lean == "even" else spread * max(seen)))

    def _value(
        self,
        schema: Mapping[str, Any],
        root: Mapping[str, Any],
        models: Sequence[Any],
        name: str,
        draw: _Draw,
    ) -> Any:
        """Return a value of `schema`, like the `models` that stand in its place in examples."""
        if "$ref" in schema:
            return self._value(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root, models,
                               name, draw)  # fmt: skip
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choice(list(schema["enum"]), draw)
        if "anyOf" in schema:
            kinds = list(schema["anyOf"])
            part = kinds[{"yes": 0, "even": draw.below(len(kinds)), "no": -1}[self.lean]]
            return self._value(part, root, [m for m in models if m is not None], name, draw)
        kind = schema.get("type", "object")
        if kind == "object":
            return {
                key: self._value(
                    part, root, [m[key] for m in models if isinstance(m, dict) and key in m],
                    key, draw.at(key),
                )
                for key, part in schema.get("properties", {}).items()
            }  # fmt: skip
        if kind == "array":
            return self._list(schema, root, [m for m in models if isinstance(m, list)], name, draw)
        if kind == "boolean":
            chance = self.manners.chances.get(name, 0.5)
            return {"yes": True, "even": draw.share < chance, "no": False}[self.lean]
        if kind in ("integer", "number"):
            numbers = [m for m in models if isinstance(m, int | float)]
            return draw.one(numbers) if numbers else schema.get("minimum", 0)
        return None if kind == "null" else self._text(schema, models, draw)

    def _list(
        self,
        schema: Mapping[str, Any],
        root: Mapping[str, Any],
        models: Sequence[Any],
        name: str,
        draw: _Draw,
    ) -> list[Any]:
        wanted = self._size([len(m) for m in models], 2) if models else _LIST[self.lean]
        if models and self.lean == "even" and not any(models):
            wanted = 0
        wanted = max(schema.get("minItems", 0), min(wanted, schema.get("maxItems", wanted)))
        entries = [entry for m in models for entry in m]
        places = [entries[i::1][:1] if i < len(entries) else entries for i in range(wanted)]
        return [
            self._value(schema.get("items", {"type": "string"}), root, places[i], name, draw.at(i))
            for i in range(wanted)
        ]

    def _choice(self, values: Sequence[Any], draw: _Draw) -> Any:
        if self.lean == "even":
            return draw.one(values)
        return values[-1] if self.lean == "yes" else values[0]

    def _text(self, schema: Mapping[str, Any], models: Sequence[Any], draw: _Draw) -> str:
        sizes = [len(m.split()) for m in models if isinstance(m, str)]
        words = self._size(sizes, 2) if sizes else _STRING[self.lean]
        if words <= _SHORT:
            return draw.name(words, _NAMES[self.lean])
        return draw.words(words)[: schema.get("maxLength", None)]


class _Draw:
    """Choices by the hash of a seed: the same at every place and time."""

    def __init__(self, seed: str, words: Sequence[str]) -> None:
        self._seed = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
        self._words = words

    def at(self, step: object) -> _Draw:
        """Return the choices of a part of the reply."""
        return _Draw(f"{self._seed}.{step}", self._words)

    @property
    def share(self) -> float:
        """A number in [0, 1)."""
        return int(self._seed[:13], 16) / 16.0**13

    def below(self, most: int) -> int:
        """A whole number below `most`."""
        return int(self.share * most)

    def one(self, values: Sequence[Any]) -> Any:
        """One of some values."""
        return values[self.below(len(values))]

    def name(self, count: int, names_share: float) -> str:
        """A keyword: words from the prompt's end, where questions stand, names in so many cases."""
        late = self._words[-max(12, len(self._words) // 3) :]
        names = [word for word in late if word[0].isupper()]
        chosen = names if names and self.share < names_share else late
        start = self.at("name").below(len(chosen))
        return " ".join(chosen[(start + i) % len(chosen)] for i in range(count))

    def words(self, count: int) -> str:
        """So many consecutive words of the prompt, from a place in it."""
        start = self.below(len(self._words))
        size = len(self._words)
        return " ".join(self._words[(start + i) % size] for i in range(count))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
