"""The models of a run: made when first used, shared by every run of one process.

A sweep or a table makes each model once, however many rows use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from eval.budget import Meter, MeteredBackend
from eval.stopping import Brake
from eval.typed import Part, resolve
from memsys.encoders.protocol import Encoder, Reranker
from memsys.encoders.service import BatchingEncoder, SplittingModel
from memsys.llm.chat import Backend, Role
from memsys.llm.replies import StoredReplies
from memsys.stores.memories import MemoryStore
from memsys.stores.vectors import VectorStore


@dataclass
class Stores:
    """The three content-addressed stores under one folder."""

    replies: StoredReplies
    memories: MemoryStore
    vectors: Path

    @classmethod
    def at(cls, folder: Path) -> Stores:
        """Open the stores under `folder`."""
        return cls(
            StoredReplies(folder / "replies"), MemoryStore(folder / "memories"), folder / "vectors"
        )


@dataclass
class Resources:
    """Every model that this process has made so far, by its configuration."""

    brake: Brake = field(default_factory=Brake)
    meter: Meter = field(init=False)
    _made: dict[str, Any] = field(default_factory=dict)
    _metered: dict[str, Backend] = field(default_factory=dict)
    _stores: dict[Path, Stores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give every chat model one meter."""
        self.meter = Meter(self.brake)

    def stores(self, folder: Path) -> Stores:
        """Return the stores under `folder`."""
        folder = folder.resolve()
        if folder not in self._stores:
            self._stores[folder] = Stores.at(folder)
        return self._stores[folder]

    def backend(self, config: Mapping[str, Any], where: str) -> Backend:
        """Return the chat model of a config, under the command's brake and budget."""
        key = _key(config)
        if key not in self._metered:
            made = cast(Backend, self._shared(config, where))
            self._metered[key] = MeteredBackend(made, self.brake, self.meter)
        return self._metered[key]

    def embedding_model(self, config: Mapping[str, Any]) -> SplittingModel:
        """Return the embedding model of a config."""
        return cast(SplittingModel, self._shared(config, "encoder"))

    def encoder(self, config: Mapping[str, Any], vectors: Path | None) -> BatchingEncoder:
        """Return the batching encoder of a config, with its vectors stored under `vectors`."""
        key = f"service:{vectors}:{_key(config)}"
        if key not in self._made:
            model = self.embedding_model(config)
            store = None if vectors is None else VectorStore(vectors)
            self._made[key] = BatchingEncoder(model, store)
        return cast(BatchingEncoder, self._made[key])

    def reranker(self, config: Mapping[str, Any]) -> Reranker | None:
        """Return the reranker of a config; `None` for `reranker=none`."""
        if config.get("_target_") is None:
            return None
        return cast(Reranker, self._shared(config, "reranker"))

    def embedded(self) -> int:
        """Return how many texts this process has embedded, rather than found in the store."""
        services = (made for made in self._made.values() if isinstance(made, BatchingEncoder))
        return sum(int(service.stats()["embedded"]) for service in services)

    async def hang_up(self) -> None:
        """Close the connections of every endpoint; whoever asks one again opens them anew."""
        from memsys.llm.endpoint import Endpoint

        for thing in self._made.values():
            if isinstance(thing, Endpoint):
                await thing.close()

    async def close(self) -> None:
        """Release every model and store."""
        for thing in self._made.values():
            if hasattr(thing, "complete"):
                await thing.close()
        for stores in self._stores.values():
            stores.replies.close()

    def _shared(self, config: Mapping[str, Any], where: str) -> Any:
        key = _key(config)
        if key not in self._made:
            part: Part = resolve(config, where)
            self._made[key] = part.make()
        return self._made[key]


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True, default=str)


class Backends(Mapping[Role, Backend]):
    """A run's chat models by role, each made when a call first needs it."""

    def __init__(self, configs: Mapping[str, Mapping[str, Any]], resources: Resources) -> None:
        """Take the `llm` section of a run's configuration."""
        self._configs = configs
        self._resources = resources
        self._found: dict[Role, Backend] = {}

    def __getitem__(self, role: Role) -> Backend:
        found = self._found.get(role)
        if found is None:
            found = self._resources.backend(self._configs[role], f"llm.{role}")
            self._found[role] = found
        return found

    def __iter__(self) -> Iterator[Role]:
        return iter(cast(Any, self._configs))

    def __len__(self) -> int:
        return len(self._configs)


class LazyEncoder:
    """Makes the encoder when a system first uses it: a run without vectors never loads one."""

    def __init__(
        self, resources: Resources, config: Mapping[str, Any], vectors: Path | None
    ) -> None:
        """Stand in for `resources.encoder(config, vectors)`."""
        self._resources = resources
        self._config = config
        self._vectors = vectors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resources.encoder(self._config, self._vectors), name)


def lazy_encoder(resources: Resources, config: Mapping[str, Any], vectors: Path | None) -> Encoder:
    """Return an encoder that is made at its first use."""
    return cast(Encoder, LazyEncoder(resources, config, vectors))
