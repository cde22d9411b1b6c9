"""Any OpenAI-compatible server: asked politely, retried where that can help, refused only once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from memsys.errors import (
    ChatFailure,
    ChatRefused,
    ContextOverflow,
    EndpointRefused,
    UserError,
    suggest,
)
from memsys.llm import tries
from memsys.llm.address import Address
from memsys.llm.chat import Message, Reply, Request, Usage
from memsys.llm.connections import Connections
from memsys.llm.faults import PATIENCE, Backoff, Fault, broken, of_status, same_model
from memsys.llm.limits import AdaptiveLimit, traffic_of
from memsys.llm.schemas import strict
from memsys.llm.tokens import TokenCounter
from memsys.stores.plain import encodable

_GIVE_UP = 5  # calls in a row that reached nobody, each after all its retries
_OTHER_MODEL = 5  # answers in a row under another model's name, before the right one ever answered


class Endpoint:
    """One model of an OpenAI-compatible server.

    After an answer that no retry can mend (wrong key, no quota, no such model) every further call
    fails at once with the same message.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        context_window: int = 128_000,
        max_completion_tokens: int | None = None,
        thinking_tokens: int = 0,
        concurrency: int = 32,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 8,
        backoff_s: float = 1.0,
        json_schema: Literal["json_schema", "json_object", "none"] = "json_schema",
        limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        tokenizer: str | None = None,
        seed: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        served_as: str | None = None,
        variant: str = "",
    ) -> None:
        """Name a served model; nothing is contacted.

        `base_url=None` is `OPENAI_BASE_URL`, or OpenAI itself. The key is read from the variable
        `api_key_env` or an `.env` file when it is needed; a loopback server needs none.
        `thinking_tokens` are allowed on top of a call's own, for a model that thinks aloud before
        it answers. `concurrency` is the most calls in flight. `timeout_s` bounds one try;
        `max_retries` and `backoff_s` (seconds, doubling) say how often and how soon it is
        repeated. `json_schema` is how the server takes a schema. `tokenizer`: a tiktoken
        encoding, a Hugging Face id or folder; `None` estimates. `seed` is sent with each call,
        plus one for each attempt and sample. `served_as` is another name under which the server
        may answer. `variant` tells apart what the model's name does not (a quantization): it only
        enters the identity.
        """
        self._model, self._address = model, Address.of(base_url, api_key_env)
        self._window, self._cap, self._most = context_window, max_completion_tokens, concurrency
        self._thinking = thinking_tokens
        self._timeout, self._retries = timeout_s, max_retries
        self._schema, self._limit_field, self._seed = json_schema, limit_field, seed
        self._extra = dict(extra_body or {})
        self._served_as, self._variant = served_as, variant
        self._tokens = TokenCounter(tokenizer)
        self._backoff = Backoff(backoff_s, 60.0, seed)
        self._counted = tokens_per_minute is not None
        rates = concurrency, requests_per_minute, tokens_per_minute
        self._traffic = traffic_of(*rates, self._address.url, model, api_key_env)
        self._others = 0  # answers under another model's name; -1 once the right one has answered
        self._refused: EndpointRefused | None = None
        self._lost = 0
        self._connections = Connections(self._address.url, self._address.key, timeout_s)

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """The model, its server and what every request carries; never the key."""
        return {
            "kind": "openai",
            "model": self._model,
            "server": self._address.server,
            "variant": self._variant,
            "json_schema": self._schema,
            "thinking_tokens": self._thinking,
            "seed": self._seed,
            "extra_body": self._extra,
        }

    @property
    def context_window(self) -> int:
        """Tokens of prompt and completion together."""
        return self._window

    @property
    def enforces_schema(self) -> bool:
        """Whether the server decodes under the schema itself."""
        return self._schema == "json_schema"

    @property
    def max_completion_tokens(self) -> int | None:
        """The most tokens a completion may have here."""
        return self._cap

    @property
    def concurrency(self) -> int:
        """The most calls in flight."""
        return self._most

    @property
    def limit(self) -> AdaptiveLimit:
        """The calls in flight: how many there may be now, and how that came about."""
        return self._traffic.limit

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has; an estimate without a tokenizer."""
        return self._tokens.text(text)

    def message_tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have as a prompt."""
        return self._tokens.messages(messages)

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with retries.

        Raises `EndpointRefused` if no call can be answered any more, `ContextOverflow`,
        `ChatRefused`, or `ChatFailure` once the retries are used up.
        """
        body = self._body(request)
        # a reply nearly always is shorter than its cap: the difference is given back afterwards
        size = self.message_tokens(request.messages) if self._counted else 0
        booked = size + body[self._limit_field] if self._counted else 0
        attempt = 0
        while isinstance(outcome := await self._ask(body, booked, request), Fault):
            if outcome.billed:
                tries.lost(outcome.usage)
            self._raise(outcome)
            if attempt == self._retries:
                raise self._given_up(outcome)
            await self._nap(self._backoff.seconds(attempt, outcome.wait))
            if outcome.billed:
                await tries.again()
            attempt += 1
        self._lost = 0
        return outcome

    async def check(self) -> None:
        """Reach the server and find the model, or raise `UserError`; under 5 s if it is away."""
        import openai

        self._address.key()  # a missing one is told at once
        try:
            async with asyncio.timeout(4.5):
                client = self._connections.client().with_options(timeout=4.0)
                listed = await client.models.list()
                ids = [model.id for model in listed.data or ()]
        except (TimeoutError, openai.APIConnectionError):
            raise UserError(
                f"No server answers at {self._address.shown}. Start it, or correct base_url of "
                f"model '{self._model}'."
            ) from None
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                raise self._refuse(_judged(error)) from None
            ids = []  # many servers list no models
        except Exception:
            ids = []
        self._tokens.load()
        if any(same_model(self._model, known) for known in ids):
            return
        probe = Request((Message("user", "Say yes."),), 1)
        try:
            await self.complete(probe)
        except EndpointRefused as error:
            raise EndpointRefused(f"{error}{suggest(self._model, ids) if ids else ''}") from None
        except ChatFailure as error:
            raise UserError(f"The check of an endpoint failed. {error}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def _ask(self, body: dict[str, Any], booked: int, request: Request) -> Reply | Fault:
        """Make one try, when its turn has come."""
        async with self.limit.slot() as taken:
            refused = lambda: self._refused is not None  # noqa: E731
            await self._traffic.gate.enter((1, booked), self._nap, refused)
            if self._refused is not None:
                raise EndpointRefused(str(self._refused))
            began = time.perf_counter()
            outcome = await self._try(body)
            if isinstance(outcome, Fault):
                if outcome.kind == "limited":
                    self.limit.limited(taken)
                if outcome.wait:
                    self._traffic.gate.silence(outcome.wait)
                return outcome
            self.limit.succeeded()
        reply = self._read(outcome, request, time.perf_counter() - began)
        if isinstance(reply, Fault):
            return replace(reply, billed=True, usage=_usage(_field(outcome, "usage")))
        if booked:
            self._traffic.spend.refund(
                booked - reply.usage.prompt_tokens - reply.usage.completion_tokens
            )
        return reply

    async def _nap(self, seconds: float) -> None:
        """Sleep, but not past a refusal."""
        end = time.monotonic() + seconds
        while self._refused is None and (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 1.0))

    async def _try(self, body: dict[str, Any]) -> Any:
        """Send one request; returns the completion as JSON values, or the fault."""
        import aiohttp  # whose errors the client lets through now and then
        import openai

        client = self._connections.client()  # what goes wrong here is the user's to mend
        try:
            async with asyncio.timeout(self._timeout):
                # plain JSON both ways: the typed front door would walk all of it, twice
                return await client.post("/chat/completions", cast_to=object, body=body)
        except openai.APIStatusError as error:
            return _judged(error)
        except (OSError, openai.APIConnectionError, aiohttp.ClientError) as error:
            return broken(error, self._timeout)
        except (openai.APIError, ValueError, TypeError, AttributeError):
            return Fault("again", "the answer's body is not a chat completion", billed=True)

    def _read(self, completion: Any, request: Request, seconds: float) -> Reply | Fault:
        """Turn a completion into a reply, or say what is wrong with it."""
        choice = _first(_field(completion, "choices"))
        message = _field(choice, "message")
        if not isinstance(message, dict):
            return Fault("again", "the answer holds no choices")
        answered = str(completion.get("model") or "")
        if not same_model(self._model, answered) and answered != self._served_as:
            return self._another(answered)
        self._others = -1
        finish, content = choice.get("finish_reason"), message.get("content") or ""
        if finish == "content_filter":
            return Fault("filtered", "the answer was withheld")
        if not content and (refusal := message.get("refusal")):
            return Fault("filtered", str(refusal))
        if not isinstance(content, str):
            return Fault("again", "the answer's content is no text")
        text = encodable(content)
        mark = completion.get("system_fingerprint")
        return Reply(
            text=text,
            usage=_usage(_field(completion, "usage")) or self._counted_usage(request, text),
            latency=seconds,
            finish="length" if finish == "length" else "stop",
            model=f"{answered or self._model}{f' {mark}' if mark else ''}",
        )

    def _another(self, answered: str) -> Fault:
        """Judge an answer by another model: a slip of the server's, or a wrong configuration."""
        self._others += self._others >= 0
        if self._others < _OTHER_MODEL:
            return Fault("again", f"another model answered: '{answered}'")
        return Fault(
            "refused",
            f"it is always another model that answers: '{answered}' (if that is the one you mean, "
            "set served_as to its name)",
        )

    def _counted_usage(self, request: Request, text: str) -> Usage:
        counted = self.message_tokens(request.messages), self.count_tokens(text)
        return Usage(*counted, estimated=True)

    def _raise(self, fault: Fault) -> None:
        """Raise for a fault that no retry mends."""
        words = self._address.clean(fault.text)
        if fault.kind == "refused" or fault.wait > PATIENCE:
            raise self._refuse(fault)
        if fault.kind == "overflow":
            raise ContextOverflow(f"The prompt is too long for {self._where}: {words}")
        if fault.kind == "filtered":
            raise ChatRefused(f"A content filter of {self._where} refused: {words}")
        if fault.kind == "hopeless":
            raise ChatFailure(f"{self._where} cannot take this call: {words}")

    def _given_up(self, fault: Fault) -> ChatFailure | EndpointRefused:
        """The error of a call whose retries are used up."""
        self._lost = self._lost + 1 if fault.unreachable else 0
        if self._lost >= _GIVE_UP:
            return self._refuse(Fault("refused", f"no answer to {_GIVE_UP} calls in a row"))
        return ChatFailure(
            f"{self._where} failed {self._retries + 1} times, at last with: "
            f"{self._address.clean(fault.text)}"
        )

    def _refuse(self, fault: Fault) -> EndpointRefused:
        """Note that this endpoint answers nothing more; the first reason stands."""
        if self._refused is None:
            status = f" ({fault.status})" if fault.status else ""
            words = self._address.clean(fault.text) or "no reason given"
            mend = fault.mend(self._address.key_name)
            self._refused = EndpointRefused(
                f"{self._where} refuses{status}: {words}. To mend: {mend}."
            )
        return EndpointRefused(str(self._refused))

    def _body(self, request: Request) -> dict[str, Any]:
        wanted = min(request.max_tokens, self._cap or request.max_tokens)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": m.role, "content": encodable(m.content)} for m in request.messages
            ],
            "temperature": request.temperature,
            self._limit_field: wanted + self._thinking,
        }
        if self._seed is not None:
            body["seed"] = self._seed + request.attempt + request.sample
        if request.schema is not None and self._schema == "json_object":
            body["response_format"] = {"type": "json_object"}
        elif request.schema is not None and self._schema == "json_schema":
            form = {"name": "reply", "schema": strict(request.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body | self._extra

    @property
    def _where(self) -> str:
        return f"Model '{self._model}' at {self._address.shown}"


def _judged(error: Any) -> Fault:
    return of_status(error.status_code, error.body or error.message, error.response.headers)


def _usage(told: Any) -> Usage | None:
    """Return the usage that a server told; `None` if it told nothing of use."""
    prompt, written = _field(told, "prompt_tokens"), _field(told, "completion_tokens")
    if isinstance(prompt, int) and isinstance(written, int) and prompt:
        return Usage(prompt, written)
    return None


def _field(node: Any, name: str) -> Any:
    """Return a field of a JSON object; `None` of anything else."""
    return node.get(name) if isinstance(node, dict) else None


def _first(items: Any) -> Any:
    return items[0] if isinstance(items, list) and items else None
