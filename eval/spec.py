"""A run before it starts: validated parts, and the fingerprint of all that can change a number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field

from eval.answering import PromptAnswerer
from eval.config import RunConfig
from eval.protocol import Protocol
from eval.resources import Backends, Resources, Stores, lazy_encoder
from eval.tracking import Tracking
from eval.typed import Part, resolve, validated
from memsys.datasets.base import Benchmark
from memsys.dialogue import Conversation
from memsys.errors import UserError, suggest
from memsys.llm.prompts import Prompt, Prompts
from memsys.llm.roles import RoleChat
from memsys.rendering import RENDERING_VERSION
from memsys.settings import Settings
from memsys.system import MemorySystem, Need, Stage, Tools

RunStage = Literal["retrieve", "answer", "timing"]
_STAGES: dict[str, tuple[Stage, ...]] = {
    "retrieve": ("remember", "recall"),
    "answer": ("remember", "recall", "answer"),
    "timing": ("remember", "recall", "answer"),
}
_WITHOUT_MODEL = 16  # recalls at once


class Concurrency(Settings):
    """How much is in flight at once; never changes a result."""

    conversations: int = Field(4, ge=1)
    questions: int | None = Field(None, ge=1)  # None: what keeps the main model busy


@dataclass
class RunSpec:
    """One system × one dataset × one protocol × one set of models, ready to run."""

    config: RunConfig
    resources: Resources
    stage: RunStage
    dataset: Benchmark
    protocol: Protocol
    method: Part
    prompts: Prompts
    concurrency: Concurrency
    tracking: Tracking
    root: Path

    @classmethod
    def of(cls, config: RunConfig, resources: Resources, root: Path) -> RunSpec:
        """Validate every part of a configuration; raises `UserError`.

        `root` is what relative paths are relative to: the checkout.
        """
        values = config.values
        for section in ("dataset", "method", "protocol", "encoder", "llm", "stage"):
            if not values.get(section):
                raise UserError(f"A run needs a '{section}': choose one with {section}=…")
        stage = values["stage"]
        if stage not in _STAGES:
            raise UserError(f"stage={stage} is not a stage.{suggest(str(stage), _STAGES)}")
        folder = values["prompts"]["dir"]
        return cls(
            config=config,
            resources=resources,
            stage=cast(RunStage, stage),
            dataset=cast(Benchmark, resolve(values["dataset"], "dataset").make()),
            protocol=cast(Protocol, resolve(values["protocol"], "protocol").make()),
            method=resolve(values["method"], "method", given=("tools",)),
            prompts=Prompts(Path(folder) if folder else None),
            concurrency=validated(Concurrency, values["concurrency"], "concurrency"),
            tracking=validated(Tracking, values["wandb"], "wandb"),
            root=root,
        )

    @property
    def dataset_name(self) -> str:
        """The dataset's config name."""
        return self.config.choices["dataset"]

    @property
    def method_name(self) -> str:
        """The method's config name."""
        return self.config.choices["method"]

    @property
    def results(self) -> Path:
        """Where runs, tables and figures are written."""
        return self.root / str(self.config.values["paths"]["results"])

    @cached_property
    def stores(self) -> Stores:
        """The stores that this run shares with all others."""
        return self.resources.stores(self.root / str(self.config.values["paths"]["stores"]))

    @cached_property
    def backends(self) -> Backends:
        """The chat models by role."""
        return Backends(self.config.values["llm"], self.resources)

    @cached_property
    def chat(self) -> RoleChat:
        """The chat model that systems see; `stage=timing` asks every call afresh."""
        return RoleChat(self.backends, None if self.stage == "timing" else self.stores.replies)

    @cached_property
    def system(self) -> MemorySystem[Any, Any]:
        """The system under test."""
        values = self.config.values
        vectors = None if self.stage == "timing" else self.stores.vectors
        prompt = self.protocol.answer_template(self.prompts)
        tools = Tools(
            chat=self.chat,
            encoder=lazy_encoder(self.resources, values["encoder"], vectors),
            prompts=self.prompts.limited_to(self.method.target.prompt_packages()),
            answerer=PromptAnswerer(self.chat, prompt, self.protocol.answer_max_tokens),
            reranker=self.resources.reranker(values["reranker"] or {}),
        )
        return cast("MemorySystem[Any, Any]", self.method.make(tools=tools))

    @cached_property
    def needs(self) -> frozenset[Need]:
        """The models that this run will use, the judge left out."""
        return frozenset().union(*(self.system.needs(stage) for stage in _STAGES[self.stage]))

    @property
    def questions_at_once(self) -> int:
        """How many questions are asked at once: a few more than calls, so that one always waits."""
        if self.concurrency.questions is not None:
            return self.concurrency.questions
        calls = self.backends["main"].concurrency if "main" in self.needs else _WITHOUT_MODEL
        return calls + -(-calls // 4)

    def system_prompts(self) -> dict[str, Prompt]:
        """Return the templates of the system under test, by id."""
        found: dict[str, Prompt] = {}
        for package in self.system.prompt_packages():
            found |= self.prompts.all(package)
        return found

    def model_identity(self, need: Need) -> Mapping[str, Any]:
        """Return all that defines one of the run's models."""
        if need == "encoder":
            model = self.resources.embedding_model(self.config.values["encoder"])
            return {**model.identity, "similarity": model.similarity}
        if need == "reranker":
            return dict(self.config.values["reranker"])
        return self.backends[need].identity

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that can change a number of this run, as JSON values."""
        prompts = self.system_prompts()
        answering = {}
        if self.stage != "retrieve":
            template = self.protocol.answer_template(self.prompts)
            prompts[template.id] = template
            answering = {"max_tokens": self.protocol.answer_max_tokens}
        return {
            "stage": "retrieve" if self.stage == "retrieve" else "answer",
            "system": self._system_identity(),
            "ask": self.system.ask.plain(),
            "protocol": [self.protocol.name, self.protocol.version, self.protocol.rules.plain()],
            "answering": answering,
            "dataset": {**self.dataset.info().plain(), "settings": self._dataset_settings()},
            "prompts": {name: prompt.hash for name, prompt in sorted(prompts.items())},
            "models": {need: dict(self.model_identity(need)) for need in sorted(self.needs)},
            "rendering": RENDERING_VERSION,
        }

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the identity's SHA-256."""
        return _digest(self.identity)[:16]

    @property
    def folder(self) -> Path:
        """Where this run's files are."""
        name = f"{self.method_name}"
        return self.results / "runs" / self.dataset_name / name / self.fingerprint

    def memory_key(self, conversation: Conversation) -> str:
        """Return the content address of this system's memory of a conversation."""
        needs = sorted(self.system.needs("remember"))
        content = {
            "system": self._system_identity(),
            "prompts": {name: p.hash for name, p in sorted(self.system_prompts().items())},
            "models": {need: dict(self.model_identity(need)) for need in needs},
            "conversation": repr(conversation),
            "rendering": RENDERING_VERSION,
        }
        return _digest(content)

    def _dataset_settings(self) -> dict[str, Any]:
        """Return the loader's settings.

        Where the file lies is told by its checksum, and the one question that is asked by the cut.
        """
        told = ("path", "sample", "conversation", "question")
        plain = self.dataset.plain()
        return {name: value for name, value in plain.items() if name not in told}

    def _system_identity(self) -> dict[str, Any]:
        target = self.method.target
        return {
            "target": f"{target.__module__}.{target.__qualname__}",
            "version": target.version,
            "build": self.system.build.plain(),
        }


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
