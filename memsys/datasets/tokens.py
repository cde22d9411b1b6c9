"""Counting tokens: gpt-4o's o200k vocabulary, or any model's own tokenizer.

`tiktoken` does not ship its vocabularies. Offline, o200k comes from a vocabulary file that the user
has, from tiktoken's cache, or from the package `quicktok-v1`, which carries it.
"""

from __future__ import annotations

import base64
import importlib
import os
from collections.abc import Callable
from pathlib import Path

from memsys.errors import UserError

Counter = Callable[[str], int]
"""Text to number of tokens, special-token look-alikes counted as plain text."""

O200K = "o200k_base"
MEND = "pip install quicktok-v1"
"""The command that makes o200k available without a network."""

# the name under which tiktoken caches the vocabulary (the SHA-1 of its address)
_CACHED_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"

# how o200k splits text before it merges bytes
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_SPLIT = "|".join(
    (
        f"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTION}",
        f"{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def o200k(vocabulary: Path | None = None) -> Counter | None:
    """Return a counter of o200k tokens, or `None` where no vocabulary is at hand."""
    if vocabulary is not None:
        return _from_file(vocabulary)
    cache = os.environ.get("TIKTOKEN_CACHE_DIR")
    if cache and (Path(cache) / _CACHED_NAME).is_file():
        return _from_file(Path(cache) / _CACHED_NAME)
    try:
        encoding = importlib.import_module("quicktok").get_encoding(O200K)
    except ImportError:
        return None
    return lambda text: len(encoding.encode_ordinary(text))


def model_tokenizer(name: str) -> Counter:
    """Return a counter with the tokenizer of a Hugging Face folder or cached model id."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"the tokenizer '{name}' cannot be loaded: {first}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False, verbose=False))


def _from_file(path: Path) -> Counter:
    """Read a `.tiktoken` file: one base64 token and its rank a line."""
    import tiktoken

    try:
        lines = path.read_bytes().splitlines()
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in lines if line)}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a tiktoken vocabulary ({error}).") from None
    encoding = tiktoken.Encoding(
        name=O200K, pat_str=_SPLIT, mergeable_ranks=ranks, special_tokens={}
    )
    return lambda text: len(encoding.encode_ordinary(text))
