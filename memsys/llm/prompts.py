"""Prompt templates: plain text files beside the system that uses them.

A template is a list of messages. A line `### system`, `### user` or `### assistant` opens a
message; assistant messages are worked examples given as earlier chat turns. `${name}` marks a
value. Values are inserted once and never read as templates themselves, so that benchmark text
and model output stay data. A line whose values are all empty disappears (`Today is ${date}` where
there is no date).

A user's own wording replaces ours by a file of the same `folder/name.txt` under `prompts.dir`;
the hash of the text in force is part of every manifest and fingerprint.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memsys.errors import MemsysError, UserError, suggest
from memsys.llm.chat import Message, Messages, Speaker

_HEADING = re.compile(r"^### (system|user|assistant)[ \t]*$", re.MULTILINE)
_VALUE = re.compile(r"\$\{([a-z_]+)\}")


@dataclass(frozen=True)
class Prompt:
    """One prompt template; `id` is `folder/name`."""

    id: str
    text: str

    @cached_property
    def hash(self) -> str:
        """The first 12 hex digits of the text's SHA-256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @cached_property
    def sections(self) -> tuple[tuple[Speaker, str], ...]:
        """The messages before values are inserted."""
        parts = _HEADING.split(self.text)
        if len(parts) < 3 or parts[0].strip():
            raise UserError(
                f"Prompt '{self.id}' must begin with a line '### user' or '### system'."
            )
        roles = parts[1::2]
        return tuple(zip(roles, (body.strip("\n") for body in parts[2::2]), strict=True))  # type: ignore[arg-type]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the values that the template takes."""
        return frozenset(_VALUE.findall(self.text))

    def render(self, **values: str) -> Messages:
        """Insert `values` and return the messages.

        Raises `UserError` where the template and the given values do not have the same names:
        a user's own file may leave a value out, but cannot ask for one that does not exist.
        """
        unknown = self.names - values.keys()
        if unknown:
            name = sorted(unknown)[0]
            raise UserError(
                f"Prompt '{self.id}' asks for a value '{name}' that does not exist."
                f"{suggest(name, values)}"
            )
        messages = (Message(role, _fill(lines, values)) for role, lines in self._lines)
        return Messages.of(messages, f"{self.id}@{self.hash}")

    @cached_property
    def _lines(self) -> tuple[tuple[Speaker, tuple[_Line, ...]], ...]:
        return tuple((role, _lines(body)) for role, body in self.sections)


_Line = tuple[str, ...]
"""Text and names of values in turn; lines without values are one text together."""


def _lines(body: str) -> tuple[_Line, ...]:
    lines: list[_Line] = []
    for line in body.split("\n"):
        parts = tuple(_VALUE.split(line))
        if len(parts) == 1 and lines and len(lines[-1]) == 1:
            lines[-1] = (f"{lines[-1][0]}\n{line}",)
        else:
            lines.append(parts)
    return tuple(lines)


def _fill(lines: tuple[_Line, ...], values: dict[str, str]) -> str:
    filled = []
    for line in lines:
        parts = list(line)
        parts[1::2] = inserted = [values[name] for name in line[1::2]]
        if any(inserted) or not inserted:
            filled.append("".join(parts))
    return "\n".join(filled)


class Prompts:
    """Finds templates: the user's own folder first, then the one beside the system."""

    def __init__(
        self, override: Path | None = None, allowed: Collection[str] | None = None
    ) -> None:
        """Look under `override` first, if it is given; find templates of `allowed` packages only.

        A run allows what its fingerprint covers, so that no prompt can be used uncounted.
        """
        if override is not None and not override.is_dir():
            raise UserError(f"prompts.dir={override} is not a folder.")
        self._override = override
        self._allowed = allowed

    def limited_to(self, packages: Collection[str]) -> Prompts:
        """Return the same templates, those of other packages left out."""
        return Prompts(self._override, packages)

    def get(self, package: str, name: str) -> Prompt:
        """Return template `name` of a package's `prompts` folder (`memsys.memgas`, `filter`)."""
        if self._allowed is not None and package not in self._allowed:
            raise MemsysError(
                f"A system uses prompts of '{package}' without naming it in `shared_prompts`."
            )
        folder = prompt_folder(package)
        label = package.rsplit(".", 1)[-1]
        own = self._override / label / f"{name}.txt" if self._override else None
        path = own if own is not None and own.is_file() else folder / f"{name}.txt"
        if not path.is_file():
            known = [p.stem for p in folder.glob("*.txt")]
            raise UserError(f"Package '{package}' has no prompt '{name}'.{suggest(name, known)}")
        return Prompt(f"{label}/{name}", path.read_text(encoding="utf-8"))

    def all(self, package: str) -> dict[str, Prompt]:
        """Return every template of a package, by id."""
        names = sorted(p.stem for p in prompt_folder(package).glob("*.txt"))
        found = (self.get(package, name) for name in names)
        return {prompt.id: prompt for prompt in found}


def prompt_folder(package: str) -> Path:
    """Return the `prompts` folder beside a package or module, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"There is no package '{package}' to take prompts from.")
    return Path(spec.origin).parent / "prompts"
