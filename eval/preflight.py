"""Preflight: all that can be known to go wrong, before any money is spent, in one message."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from eval.judging import Judging
from eval.records import read_records
from eval.spec import RunSpec
from memsys.concurrency import compute
from memsys.errors import UserError
from memsys.llm.chat import Message, Role
from memsys.llm.prompts import Prompt


async def preflight(spec: RunSpec, judging: Judging | None) -> None:
    """Check data, folders, models, endpoints, prompts; raises one `UserError` with all faults."""
    faults: list[str] = []
    for check in (_data, _folders, _system):
        faults += check(spec)
    roles: list[Role] = [role for role in ("main", "auxiliary") if role in spec.needs]
    if judging is not None:
        roles.append("judge")
    models_in_order = not faults and not nothing_left(spec, judging)
    for role in roles if models_in_order else []:
        fault = await _model(spec, role)
        faults += fault
        models_in_order = models_in_order and not fault
    if models_in_order and "encoder" in spec.needs:
        faults += await _encoder(spec)
    if not faults:
        faults += _own_prompts(spec)
    if models_in_order and not faults:
        faults += list(_prompts(spec, roles))
    if faults:
        raise UserError("\n".join(dict.fromkeys(faults)))


def nothing_left(spec: RunSpec, judging: Judging | None) -> bool:
    """Whether an earlier command finished this run: no model will then be needed, or loaded."""
    try:
        manifest = json.loads((spec.folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not manifest.get("finished") or not spec.config.values["resume"]:
        return False
    records = read_records(spec.folder / "records.jsonl")
    if not records or any(record["error"] for record in records):
        return False
    if judging is None:
        return True
    judged = read_records(spec.folder / f"judgements-{judging.fingerprint}.jsonl")
    return len(judged) == len(records)


def _data(spec: RunSpec) -> list[str]:
    try:
        spec.dataset.info()
    except UserError as error:
        return [str(error)]
    return []


def _system(spec: RunSpec) -> list[str]:
    try:
        spec.system.check()
        spec.tracking.check()
    except UserError as error:
        return [str(error)]
    return []


def _own_prompts(spec: RunSpec) -> list[str]:
    """Refuse a folder of prompts of which this run would use none."""
    folder = spec.config.values["prompts"]["dir"]
    if not folder:
        return []
    used = set(spec.identity["prompts"])
    found = {p.relative_to(folder).with_suffix("").as_posix() for p in Path(folder).rglob("*.txt")}
    if found & used:
        return []
    return [f"prompts.dir={folder} holds none of this run's prompts: {', '.join(sorted(used))}."]


def _folders(spec: RunSpec) -> list[str]:
    folder = spec.results
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return [f"paths.results={folder} cannot be made: {error.strerror}."]
    return [] if os.access(folder, os.W_OK) else [f"paths.results={folder} cannot be written to."]


async def _model(spec: RunSpec, role: Role) -> list[str]:
    try:
        await spec.backends[role].check()
    except UserError as error:
        return [str(error)]
    return []


async def _encoder(spec: RunSpec) -> list[str]:
    try:
        await compute(lambda: spec.system.tools.encoder.dimension)
    except UserError as error:
        return [str(error)]
    return []


def _prompts(spec: RunSpec, roles: list[Role]) -> Iterator[str]:
    """Find templates whose fixed text alone is longer than the model's window."""
    templates: list[tuple[Prompt, int]] = [(p, 1) for p in spec.system_prompts().values()]
    if spec.stage != "retrieve":
        answer = spec.protocol.answer_template(spec.prompts)
        templates.append((answer, spec.protocol.answer_max_tokens))
    for role in roles:
        if role == "judge":
            continue
        window = spec.chat.context_window(role)
        for template, wanted in templates:
            blank = [Message(r, body) for r, body in template.sections]
            size = spec.chat.message_tokens(blank, role)
            if size + spec.chat.completion_limit(role, wanted) > window:
                yield (
                    f"Prompt '{template.id}' alone takes {size} tokens, more than the {role} "
                    f"model's window of {window} leaves: shorten it, or choose a model with a "
                    f"longer window (llm.{role}.context_window)."
                )
