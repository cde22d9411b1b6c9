"""What must not leave this machine: keys, and where things lie on it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LEAST = 8  # a shorter value is no key, and would be found in any text
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s\"']+@")


@dataclass(frozen=True)
class Scrub:
    """Replaces the values of keys by the names of their variables, and folders by `~` and `.`."""

    replaced: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, key_names: Iterable[str] = ()) -> Scrub:
        """Know the keys of this machine: those named, and whatever is named like one."""
        from dotenv import dotenv_values

        from eval.config import ROOT
        from eval.holdings import secrets

        known = {**dotenv_values(".env"), **os.environ}
        keys = {**secrets(()), **{name: known.get(name) or "" for name in key_names}}
        shown = {value.strip(): f"[{name}]" for name, value in keys.items()}
        found = [(value, name) for value, name in shown.items() if len(value) >= _LEAST]
        found.sort(key=lambda pair: -len(pair[0]))  # a key that begins like another goes first
        places = [(str(ROOT), "."), (str(Path.home()), "~")]
        return cls((*found, *(place for place in places if len(place[0]) > 1)))

    def text(self, text: str) -> str:
        """Return the text without keys, names and passwords in addresses, and folders."""
        for value, shown in self.replaced:
            text = text.replace(value, shown)
        return _CREDENTIALS.sub("", text)

    def plain(self, value: Any) -> Any:
        """Return plain values with every text in them, keys of mappings too, scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.plain(found) for key, found in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(found) for found in value]
        return value


def key_names(configuration: Mapping[str, Any]) -> set[str]:
    """Return the variables that hold keys, as a run's configuration names them anywhere in it."""
    found: set[str] = set()
    for name, value in configuration.items():
        if isinstance(value, Mapping):
            found |= key_names(value)
        elif name == "api_key_env" and value:
            found.add(str(value))
    return found
