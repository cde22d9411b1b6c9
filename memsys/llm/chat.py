"""The chat protocol: messages in, a reply with its cost out.

Systems see `ChatModel` only. A `Backend` is one served or in-process model; `memsys.llm.roles`
puts the roles, the reply store and the ledger on top of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["main", "auxiliary", "judge"]
"""Which of a run's models a call goes to."""

Speaker = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Speaker
    content: str


class Messages(tuple[Message, ...]):
    """Chat messages that remember the prompt they were rendered from.

    `prompt` is `folder/name@hash`, for the ledger; it never changes a reply.
    """

    prompt: str = ""

    @classmethod
    def of(cls, messages: Iterable[Message], prompt: str = "") -> Messages:
        """Build messages rendered from `prompt`."""
        made = cls(messages)
        made.prompt = prompt
        return made


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `estimated` where the server did not report them."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one chat call.

    `latency` is in seconds, `finish` is `stop` or `length`, `model` the id that the server
    returned (with its fingerprint, where it gives one), `key` its address in the reply store.
    """

    text: str
    usage: Usage
    latency: float
    finish: str = "stop"
    model: str = ""
    cached: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """All that can change a reply of one model.

    `attempt` counts retries of a malformed reply, `sample` repeats of one call on purpose (a
    repeated judgement): each is a new key in the reply store, a rerun of the program is not.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None
    attempt: int = 0
    sample: int = 0


class Backend(Protocol):
    """One chat model, served or in process."""

    @property
    def name(self) -> str:
        """The model's id, as tables and manifests show it."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything of this back end that can change a reply, as JSON (never a key or a path)."""

    @property
    def context_window(self) -> int:
        """Tokens of prompt and completion together."""

    @property
    def enforces_schema(self) -> bool:
        """Whether a reply to a request with a schema is valid by construction."""

    @property
    def max_completion_tokens(self) -> int | None:
        """The most tokens a completion may have here; `None` for no cap of our own."""

    @property
    def concurrency(self) -> int:
        """How many calls may usefully be in flight at once."""

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with the back end's own retries.

        Raises `ChatFailure` (or a subclass) if this call cannot be answered, `EndpointRefused`
        if no call can.
        """

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has, special tokens left out."""

    def message_tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have as a prompt, the chat template included."""

    async def check(self) -> None:
        """Preflight: load the model or reach the endpoint, or raise `UserError`."""

    async def close(self) -> None:
        """Release what the back end holds."""


class ChatModel(Protocol):
    """What a memory system sees of a run's chat models."""

    async def reply(
        self,
        messages: Messages,
        *,
        role: Role,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
        attempt: int = 0,
        sample: int = 0,
    ) -> Reply:
        """Answer `messages` with the model that plays `role`.

        A schema is enforced where the back end can; elsewhere the prompt asks for it in words.
        `<think>` blocks are stripped. Raises `ChatFailure` if the call cannot be answered.
        """

    def enforces_schema(self, role: Role) -> bool:
        """Whether this role's model returns JSON that is valid by construction."""

    def context_window(self, role: Role) -> int:
        """Tokens of prompt and completion together of this role's model."""

    def completion_limit(self, role: Role, wanted: int) -> int:
        """`wanted` completion tokens, or fewer where the model's own cap is lower."""

    def count_tokens(self, text: str, role: Role = "main") -> int:
        """Return how many tokens `text` has for this role's model."""

    def message_tokens(self, messages: Sequence[Message], role: Role = "main") -> int:
        """Return how many tokens `messages` have for this role's model."""

    def cut(self, text: str, tokens: int, role: Role = "main", keep: str = "start") -> str:
        """Return `text` cut to at most `tokens` tokens, keeping its `start` or its `end`."""
