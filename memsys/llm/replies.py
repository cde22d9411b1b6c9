"""The reply store: a chat call is paid for once, whoever asks it and however often.

The key of a reply is the back end's identity and the whole request (messages, limits, schema,
attempt, sample), and nothing else. Identical calls in flight are made once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from memsys.llm.chat import Backend, Reply, Request, Usage
from memsys.stores.segments import SegmentStore


def reply_key(backend: Backend, request: Request) -> str:
    """Return the content address of a reply."""
    content = {
        "model": backend.identity,
        "messages": [[m.role, m.content] for m in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "schema": request.schema,
        "attempt": request.attempt,
        "sample": request.sample,
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class StoredReplies:
    """Answers requests from the store, and asks a back end for the rest."""

    def __init__(self, folder: Path) -> None:
        """Keep replies under `folder`."""
        self.store = SegmentStore(folder)
        self._in_flight: dict[str, asyncio.Future[Reply]] = {}

    async def complete(self, backend: Backend, request: Request) -> Reply:
        """Return the stored reply (marked as cached), or a fresh one, which is stored at once.

        Failures are never stored. Raises whatever the back end raises.
        """
        key = reply_key(backend, request)
        found = self.store.get(key)
        if found is not None:
            return _read(found)
        waiting = self._in_flight.get(key)
        if waiting is not None:
            # a cancelled or failed leader must not cancel its followers: they see its error
            return dataclasses.replace(await asyncio.shield(waiting), cached=True)
        leader: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = leader
        try:
            reply = await backend.complete(request)
            self.store.put(key, _plain(reply))
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


def _plain(reply: Reply) -> dict[str, Any]:
    return {
        "text": reply.text,
        "usage": dataclasses.asdict(reply.usage),
        "latency": reply.latency,
        "finish": reply.finish,
        "model": reply.model,
    }


def _read(found: Any) -> Reply:
    return Reply(
        found["text"],
        Usage(**found["usage"]),
        found["latency"],
        found["finish"],
        found["model"],
        cached=True,
    )
