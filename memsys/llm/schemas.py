"""JSON schemas narrowed for those who must obey them: pure functions, no engine.

`tighten` fits a schema to a number of tokens, for grammar-constrained decoding. `strict` writes it
the way OpenAI's strict mode demands. Both only narrow: what they allow, the original allows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

CHARS_PER_TOKEN = 3  # of JSON with its quotes and commas; English prose alone has about 4
_STRING = 24  # characters of a short string value, a keyword or a name
_NOTES = ("$defs", "title", "description", "default")  # these allow and forbid nothing
_SHORT = 6  # characters of a number, a boolean, `null`


def tighten(schema: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return a schema whose replies fit about `tokens` tokens, all of them valid for `schema`.

    References are resolved, unnamed properties forbidden, and each string gets a `maxLength`,
    each list a `maxItems`, that share the characters left over by keys and punctuation. Limits
    that `schema` already has are kept where they are narrower, and never undercut a minimum.
    """
    plain = _resolve(schema, schema.get("$defs", {}), ())
    return _tighten(plain, tokens * CHARS_PER_TOKEN)


def _resolve(node: Any, definitions: Mapping[str, Any], open_: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_resolve(item, definitions, open_) for item in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:
        name = str(node["$ref"]).rsplit("/", 1)[-1]
        if name in open_:
            raise ValueError(f"Schema refers to itself through '{name}'.")
        return _resolve(definitions[name], definitions, (*open_, name))
    made = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {k: _resolve(v, definitions, open_) for k, v in value.items()}
        elif key not in _NOTES:
            made[key] = _resolve(value, definitions, open_)
    return made


def _size(node: Mapping[str, Any]) -> int:
    """Characters of a short value of this schema."""
    if "enum" in node:
        return max(len(json.dumps(value)) for value in node["enum"])
    if "const" in node:
        return len(json.dumps(node["const"]))
    if "anyOf" in node:
        return max(_size(option) for option in node["anyOf"])
    kind = node.get("type")
    if kind == "object":
        parts = node.get("properties", {})
        return 2 + sum(len(name) + 6 + _size(part) for name, part in parts.items())
    if kind == "array":
        return 2 + _size(node.get("items", {})) * max(1, int(node.get("minItems", 0)))
    return _STRING if kind == "string" else _SHORT


def _grows(node: Mapping[str, Any]) -> bool:
    """Whether a value of this schema can be made longer at will."""
    if "enum" in node or "const" in node:
        return False
    if "anyOf" in node:
        return any(_grows(option) for option in node["anyOf"])
    if node.get("type") == "object":
        return any(_grows(part) for part in node.get("properties", {}).values())
    return node.get("type") in ("string", "array")


def _tighten(node: Mapping[str, Any], chars: int) -> dict[str, Any]:
    made = dict(node)
    if "enum" in node or "const" in node:
        return made
    if "anyOf" in node:
        made["anyOf"] = [_tighten(option, chars) for option in node["anyOf"]]
        return made
    kind = node.get("type")
    if kind == "string" and not {"pattern", "format"} & node.keys():
        least = int(node.get("minLength", 0))
        made["maxLength"] = max(least, min(int(node.get("maxLength", chars)), max(8, chars - 2)))
    elif kind == "array" and isinstance(node.get("items"), Mapping):
        each = _size(node["items"]) + 2
        least = int(node.get("minItems", 0))
        many = max(1, (chars - 2) // each)
        made["maxItems"] = max(least, min(int(node.get("maxItems", many)), many))
        # an item may be three times its usual size, if the list stays that much shorter
        made["items"] = _tighten(node["items"], min(chars - 2, 3 * each))
    elif kind == "object" and "properties" in node:
        parts = node["properties"]
        made["additionalProperties"] = False
        spare = chars - _size(node)
        growing = sum(_grows(part) for part in parts.values())
        share = max(0, spare) // max(1, growing)
        made["properties"] = {
            name: _tighten(part, _size(part) + (share if _grows(part) else 0))
            for name, part in parts.items()
        }
    return made


def smallest(schema: Mapping[str, Any]) -> Any:
    """Return a short value of a resolved schema, with one item in every list."""
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return max((smallest(option) for option in schema["anyOf"]), key=lambda v: len(str(v)))
    kind = schema.get("type")
    if kind == "object":
        return {name: smallest(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        items = schema.get("items", {})
        return [smallest(items)] * max(1, int(schema.get("minItems", 0)))
    plain: dict[Any, Any] = {"string": "x", "boolean": False, "null": None}
    return plain.get(kind, 0)


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for strict mode: references resolved, every property named and required."""
    plain = _resolve(schema, schema.get("$defs", {}), ())
    made: dict[str, Any] = _strict(plain)
    return made


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    made = {k: v if k == "properties" else _strict(v) for k, v in node.items()}
    if "properties" in node:
        made["properties"] = {name: _strict(part) for name, part in node["properties"].items()}
        made["required"] = list(node["properties"])
        made["additionalProperties"] = False
    return made
