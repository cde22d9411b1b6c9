"""Synonyms from WordNet 3.0's own files (`wndb`), as METEOR needs them.

Found in the folder that `MEMSYS_WORDNET` names, in NLTK's data (a folder or a zip file), or where
Debian's `wordnet-base` puts it. Reading the files directly needs neither NLTK's `lexnames` table
nor its data path, and gives the same words as NLTK's reader.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

MENDS = (
    "METEOR needs WordNet 3.0, which is not on this machine: run "
    "`python -m nltk.downloader wordnet` or, without internet, `apt-get install wordnet-base`, "
    "or set MEMSYS_WORDNET to its folder"
)

# detachment rules of morphy(7WN); an adverb has none
_ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
_FILES = [f"{kind}.{part}" for kind in ("index", "data") for part in _ENDINGS]


class Wordnet:
    """Reads index and data files through `read`, which returns a file's bytes by its name."""

    def __init__(self, read: Callable[[str], bytes], source: str) -> None:
        """Index every word; `source` says where the files were found."""
        self.source = source
        self._data = {part: read(f"data.{part}") for part in _ENDINGS}
        self._offsets = {part: _index(read(f"index.{part}")) for part in _ENDINGS}
        self._irregular = {part: _exceptions(read(f"{part}.exc")) for part in _ENDINGS}
        self._rules = {
            part: [tuple(rule.split(":")) for rule in rules.split()]
            for part, rules in _ENDINGS.items()
        }

    def synonyms(self, word: str) -> frozenset[str]:
        """Return the single words of every sense of `word`, in any part of speech."""
        word = word.lower()
        return frozenset(
            lemma
            for part in _ENDINGS
            for form in self._forms(word, part)
            for offset in self._offsets[part][form]
            for lemma in self._lemmas(part, offset)
        )

    def _forms(self, word: str, part: str) -> list[str]:
        """Return the word and its base forms, as far as they are in WordNet."""
        bases = self._irregular[part].get(word)
        if bases is None:
            bases = [
                word.removesuffix(ending) + new
                for ending, new in self._rules[part]
                if word.endswith(ending)
            ]
        return [form for form in dict.fromkeys([word, *bases]) if form in self._offsets[part]]

    def _lemmas(self, part: str, offset: int) -> list[str]:
        data = self._data[part]
        fields = data[offset : data.index(b"\n", offset)].split()
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        return [w.split(b"(")[0].decode() for w in words if b"_" not in w]


def _index(text: bytes) -> dict[str, list[int]]:
    found = {}
    for line in text.decode().splitlines():
        if not line.startswith(" "):  # the licence stands before the words
            fields = line.split()
            found[fields[0]] = [int(offset) for offset in fields[-int(fields[2]) :]]
    return found


def _exceptions(text: bytes) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.decode().splitlines() if line}


def _folders() -> list[Path]:
    named = os.environ.get("MEMSYS_WORDNET")
    if named:
        return [Path(named).expanduser()]
    roots = [r for r in os.environ.get("NLTK_DATA", "").split(os.pathsep) if r]
    roots += [str(Path.home() / "nltk_data")]
    roots += [f"{sys.prefix}/{below}nltk_data" for below in ("", "share/", "lib/")]
    roots += [
        f"/usr/{below}nltk_data" for below in ("share/", "local/share/", "lib/", "local/lib/")
    ]
    return [*(Path(root, "corpora", "wordnet") for root in roots), Path("/usr/share/wordnet")]


@cache
def find_wordnet() -> Wordnet | None:
    """Return this machine's WordNet, or `None`."""
    for folder in _folders():
        if all((folder / name).is_file() for name in _FILES):
            return Wordnet(lambda name, at=folder: (at / name).read_bytes(), "wordnet 3.0")  # type: ignore[misc]
        packed = folder.with_suffix(".zip")
        if packed.is_file():
            with zipfile.ZipFile(packed) as files:
                return Wordnet(lambda name, of=files: of.read(f"wordnet/{name}"), "wordnet 3.0")  # type: ignore[misc]
    return None


@lru_cache(maxsize=65_536)
def synonyms(word: str) -> frozenset[str]:
    """Return the synonyms of a word in this machine's WordNet."""
    wordnet = find_wordnet()
    if wordnet is None:
        raise LookupError(MENDS)
    return wordnet.synonyms(word)
