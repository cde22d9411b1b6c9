"""Counting the tokens of a served model: exactly where its tokenizer is known, else by length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memsys.errors import UserError
from memsys.llm.chat import Message

CHARS_PER_TOKEN = 4
"""English prose with the tokenizers of 2023 and later; only an estimate, and marked as such."""

_PER_MESSAGE, _PER_REPLY = 4, 3  # OpenAI's chat format, in tokens


class TokenCounter:
    """Counts tokens with a tiktoken encoding, a Hugging Face tokenizer, or an estimate."""

    def __init__(self, tokenizer: str | None) -> None:
        """`tokenizer`: a tiktoken encoding or model, a folder or Hugging Face id, or `None`."""
        self._name = tokenizer
        self._count: Callable[[str], int] | None = None
        self._template: Any = None

    @property
    def estimated(self) -> bool:
        """Whether counts are estimates."""
        return self._name is None

    def load(self) -> None:
        """Load the tokenizer; raises `UserError` if it cannot be had."""
        if self._count is None:
            self._count = self._loaded()

    def text(self, text: str) -> int:
        """Return how many tokens `text` has."""
        self.load()
        assert self._count is not None
        return self._count(text)

    def messages(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have as a prompt."""
        self.load()
        if self._template is not None:
            text = self._template(
                [{"role": m.role, "content": m.content} for m in messages],
                add_generation_prompt=True,
                tokenize=False,
            )
            return self.text(text)
        return _PER_REPLY + sum(self.text(m.content) + _PER_MESSAGE for m in messages)

    def _loaded(self) -> Callable[[str], int]:
        if self._name is None:
            return lambda text: -(-len(text) // CHARS_PER_TOKEN)
        try:
            if "/" in self._name or Path(self._name).is_dir():
                return self._hugging_face(self._name)
            return _tiktoken(self._name)
        except Exception as error:
            raise UserError(
                f"Tokenizer '{self._name}' cannot be loaded ({type(error).__name__}); it may need "
                "a network once. With tokenizer=null tokens are estimated from characters."
            ) from error

    def _hugging_face(self, name: str) -> Callable[[str], int]:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        if tokenizer.chat_template:
            self._template = tokenizer.apply_chat_template
        return lambda text: len(tokenizer(text, add_special_tokens=False).input_ids)


def _tiktoken(name: str) -> Callable[[str], int]:
    import tiktoken

    known = name in tiktoken.list_encoding_names()
    encoding = tiktoken.get_encoding(name) if known else tiktoken.encoding_for_model(name)
    return lambda text: len(encoding.encode(text, disallowed_special=()))
