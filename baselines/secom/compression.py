"""Compressors of search keys (SeCom §3; LLMLingua-2).

The stored memory stays uncompressed: only what is embedded is shortened.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from memsys.errors import UserError
from memsys.llm import ledger

CompressorName = Literal["llmlingua2", "none", "idf"]
STOPS = ("\n", ".")  # forced tokens besides the speakers' tags


class Compressor(Protocol):
    """Shortens texts to about `rate` of their words."""

    bank_wide: bool
    """Whether a text's compression depends on the other texts."""

    def check(self) -> None:
        """Raise `UserError` if the compressor cannot run on this machine."""

    def compress(self, texts: Sequence[str], rate: float, forced: Sequence[str]) -> list[str]:
        """Return the compressed texts, in order; `forced` tokens are always kept."""


def threshold(probabilities: Sequence[float], repeats: Sequence[int], rate: float) -> float:
    """Return τ: the percentile int(100·(1-ρ)+1) of the word scores, each `repeats` times."""
    percentile = int(100 * (1 - rate) + 1)
    return float(np.percentile(np.repeat(probabilities, repeats), percentile))


def kept(probabilities: Sequence[float], repeats: Sequence[int], rate: float) -> list[int]:
    """Return the positions of the words with p_w > τ; with τ = 1, those with p_w = 1 too.

    At ρ = 1 every word stays.
    """
    if not len(probabilities) or rate >= 1:
        return list(range(len(probabilities)))
    tau = threshold(probabilities, repeats, rate)
    return [i for i, p in enumerate(probabilities) if p > tau or (tau == p == 1)]


class NoCompression:
    """Returns texts unchanged: the authors' fast configuration, "SeCom (no compression)"."""

    bank_wide = False

    def check(self) -> None:
        """Nothing is needed."""

    def compress(self, texts: Sequence[str], rate: float, forced: Sequence[str]) -> list[str]:
        """Return the texts."""
        return list(texts)


class IdfCompressor:
    """A deterministic stand-in for demonstrations without a model: never report it as SeCom.

    p_w is the inverse document frequency of the lower-cased word over the texts, scaled to 0..1.
    """

    bank_wide = True

    def check(self) -> None:
        """Nothing is needed."""

    def compress(self, texts: Sequence[str], rate: float, forced: Sequence[str]) -> list[str]:
        """Drop the most common words of the bank."""
        longest_first = sorted({*STOPS, *forced}, key=len, reverse=True)
        pattern = re.compile("|".join([*map(re.escape, longest_first), r"[^\s.]+"]))
        words = [pattern.findall(text) for text in texts]
        holders: dict[str, int] = {}
        for of_text in words:
            for word in {w.lower() for w in of_text}:
                holders[word] = holders.get(word, 0) + 1
        idf = {word: math.log(len(texts) / n) for word, n in holders.items()}
        low, high = min(idf.values(), default=0.0), max(idf.values(), default=0.0)
        span = (high - low) or 1.0
        keys = []
        for text in texts:
            found = list(pattern.finditer(text))
            scores = [
                1.0 if m[0] in longest_first else (idf[m[0].lower()] - low) / span for m in found
            ]
            chosen = kept(scores, [1] * len(scores), rate)
            # a kept word brings along the blanks that stood before it
            starts = [0, *(m.end() for m in found)]
            keys.append("".join(text[starts[i] : found[i].end()] for i in chosen).strip(" "))
        return keys


class LlmLingua2:
    """LLMLingua-2 through the package `llmlingua` (optional).

    `model` is a Hugging Face id or a local folder; its name must contain `xlm-roberta-large` or
    `bert-base-multilingual-cased`, from which the package picks its tokenizer's rules.
    """

    bank_wide = False
    _lock = threading.Lock()  # one forward pass at a time; the package seeds global generators

    def __init__(self, model: str) -> None:
        """Load nothing yet."""
        self.model = model
        self._done: dict[tuple[str, float, tuple[str, ...]], str] = {}

    def check(self) -> None:
        """Raise `UserError` if the package is missing or cannot handle the model's name."""
        if importlib.util.find_spec("llmlingua") is None:
            raise UserError(
                "SeCom's compressor needs the package 'llmlingua': run 'pip install llmlingua', or "
                "set method.build.compressor=none (a row 'SeCom (no compression)')."
            )
        families = ("xlm-roberta-large", "bert-base-multilingual-cased")
        if not any(family in self.model for family in families):
            raise UserError(
                f"compressor_model='{self.model}': its name or path must contain "
                f"'{families[0]}' or '{families[1]}', by which llmlingua knows the tokenizer."
            )

    @cached_property
    def _compressor(self) -> Any:
        self.check()
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            package = importlib.import_module("llmlingua")
            return package.PromptCompressor(self.model, device_map=device, use_llmlingua2=True)
        except (OSError, ValueError, ConnectionError) as error:
            raise UserError(
                f"The compressor '{self.model}' cannot be loaded ({error}). Give a local folder as "
                "method.build.compressor_model, and tiktoken's cl100k vocabulary through "
                "TIKTOKEN_CACHE_DIR, or set method.build.compressor=none."
            ) from error

    def compress(self, texts: Sequence[str], rate: float, forced: Sequence[str]) -> list[str]:
        """Compress each text that was not compressed before."""
        names = tuple(dict.fromkeys([*STOPS, *forced]))
        with self._lock, _generators_kept():
            for text in dict.fromkeys(texts):
                if (text, rate, names) not in self._done:
                    self._done[text, rate, names] = self._one(text, rate, names)
        return [self._done[text, rate, names] for text in texts]

    def _one(self, text: str, rate: float, forced: Sequence[str]) -> str:
        if rate >= 1 or not text.strip():
            return text
        compressor = self._compressor
        try:
            result = compressor.compress_prompt(
                [text], rate=rate, force_tokens=list(forced), use_context_level_filter=False
            )
        except IndexError:  # the package fails on a chunk without a word that its model knows
            ledger.count("secom.compress:kept_whole")
            return text
        return str(result["compressed_prompt"])


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Restore the global random generators, which the package seeds, on leaving."""
    import torch

    state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])
        torch.set_rng_state(state[2])


def compressor(name: CompressorName, model: str) -> Compressor:
    """Return the compressor of that name."""
    if name == "none":
        return NoCompression()
    return IdfCompressor() if name == "idf" else LlmLingua2(model)
