"""The reply store: a chat call is paid for once, whoever asks it and however often.

The key of a reply is the back end's identity and the whole request (messages, limits, schema,
attempt, sample), and nothing else. Identical calls in flight are made once, also where several
processes share the store.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from memsys.llm.chat import Backend, Reply, Request, Usage
from memsys.stores.claims import Claims
from memsys.stores.segments import SegmentStore

_PATIENCE = 900.0  # seconds; another process that holds a claim for longer hangs
_LOOK_AGAIN = 0.1


def reply_key(backend: Backend, request: Request) -> str:
    """Return the content address of a reply."""
    content = {
        "model": backend.identity,
        "messages": [[m.role, m.content] for m in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": float(request.temperature),
        "schema": request.schema,
        "attempt": request.attempt,
        "sample": request.sample,
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class StoredReplies:
    """Answers requests from the store, and asks a back end for the rest."""

    def __init__(self, folder: Path) -> None:
        """Keep replies under `folder`."""
        self.store = SegmentStore(folder)
        self._claims = Claims(folder / "claims")
        self._in_flight: dict[str, asyncio.Future[Reply]] = {}

    async def complete(self, backend: Backend, request: Request) -> Reply:
        """Return the stored reply (marked as cached), or a fresh one, which is stored at once.

        Failures are never stored. Raises whatever the back end raises.
        """
        key = reply_key(backend, request)
        found = self.store.get(key)
        if found is not None:
            return read_reply(key, found)
        waiting = self._in_flight.get(key)
        if waiting is not None:
            # a cancelled or failed leader must not cancel its followers: they see its error
            return dataclasses.replace(await asyncio.shield(waiting), cached=True)
        leader: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = leader
        try:
            reply = await self._fetch(key, backend, request)
        except BaseException as error:
            if isinstance(error, Exception):
                leader.set_exception(error)
                leader.exception()  # mark as seen: there may be no follower
            else:
                leader.cancel()
            raise
        else:
            leader.set_result(reply)
            return reply
        finally:
            del self._in_flight[key]

    def close(self) -> None:
        """Close the store."""
        self.store.close()
        self._claims.close()

    async def _fetch(self, key: str, backend: Backend, request: Request) -> Reply:
        """Ask the back end, unless another process is asking the same, or just has."""
        began = time.monotonic()
        while not (mine := self._claims.take(key)) and time.monotonic() < began + _PATIENCE:
            await asyncio.sleep(_LOOK_AGAIN)
        try:
            self.store.refresh()
            found = self.store.get(key)
            if found is not None:
                return read_reply(key, found)
            reply = dataclasses.replace(await backend.complete(request), key=key)
            self.store.put(key, _plain(backend, reply))
            return reply
        finally:
            if mine:
                self._claims.release(key)


def _plain(backend: Backend, reply: Reply) -> dict[str, Any]:
    return {
        "text": reply.text,
        "usage": reply.usage,
        "latency": reply.latency,
        "finish": reply.finish,
        "model": reply.model or backend.name,
        "at": int(time.time()),  # for people, and for pruning by age
    }


def read_reply(key: str, found: Any) -> Reply:
    """Return a stored reply; raises `KeyError`, `TypeError` or `ValueError` if it is none."""
    usage = Usage(**found["usage"])
    if not isinstance(found["text"], str) or usage.prompt_tokens + usage.completion_tokens < 0:
        raise ValueError("not a reply")
    return Reply(
        found["text"],
        usage,
        found["latency"],
        found["finish"],
        found["model"],
        cached=True,
        key=key,
    )
