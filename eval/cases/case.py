"""A case: one question with its evidence, and what each run recalled, did and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval.cases.blocks import Block, trace_blocks
from eval.measures.base import CorpusMeasure
from eval.measures.registry import parse
from eval.records import Key, Record, key_of
from eval.runfolder import RunFolder
from eval.scoring import Scored, evaluate
from memsys.datasets.base import Benchmark, Rules
from memsys.dialogue import Conversation, Question
from memsys.errors import UserError, suggest
from memsys.rendering import plain_line
from memsys.stores.memories import MemoryStore
from memsys.system import Unit

SHOWN = 10
"""How many recalled memories are shown."""


@dataclass(frozen=True)
class Recalled:
    """One recalled memory; `text` is empty where the memory store no longer has it."""

    rank: int
    unit: str
    score: float
    text: str
    hit: bool


@dataclass(frozen=True)
class Told:
    """What one run says to the question; `reason` stands where it says nothing."""

    name: str
    recalled: Sequence[Recalled] = ()
    more: int = 0
    blocks: Sequence[Block] = ()
    answer: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    facts: Sequence[str] = ()
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """One question through several systems; `evidence` are the lines that hold the answer."""

    question: Question
    evidence: Sequence[tuple[str, str]]
    told: Sequence[Told]


def find_question(
    benchmark: Benchmark,
    rules: Rules,
    *,
    question: str | None,
    conversation: str | None,
    evidence: str | None,
) -> tuple[Question, Conversation]:
    """Return the one question with this id, or this evidence turn; raises `UserError`."""
    ids: set[str] = set()
    conversations: set[str] = set()
    found: list[tuple[Question, Conversation]] = []
    for sample in benchmark.load(rules):
        conversations.add(sample.conversation.id)
        if conversation not in (None, sample.conversation.id):
            continue
        ids |= {q.id for q in sample.questions}
        found += [
            (q, sample.conversation)
            for q in sample.questions
            if question in (None, q.id) and (evidence is None or evidence in q.evidence_turns)
        ]
    if conversation is not None and conversation not in conversations:
        near = suggest(conversation, conversations) if len(conversations) < 50 else ""
        raise UserError(f"{benchmark.title} has no conversation '{conversation}' here.{near}")
    if not found:
        if question is not None:
            raise UserError(f"There is no question '{question}' here.{suggest(question, ids)}")
        raise UserError(f"No question of {conversation or benchmark.title} rests on {evidence}.")
    if len(found) > 1:
        shown = "\n".join(f"  --question {q.id}  [{q.category}] {q.text}" for q, _ in found[:12])
        raise UserError(f"{len(found)} questions fit: choose one.\n{shown}")
    return found[0]


def evidence_lines(question: Question, conversation: Conversation) -> list[tuple[str, str]]:
    """Return the evidence turns in time order, each under its session's date."""
    wanted = set(question.evidence_turns)
    return [
        (f"{turn.id}, {session.date_text}".rstrip(", "), plain_line(turn))
        for session in conversation.sessions
        for turn in session.turns
        if turn.id in wanted
    ]


def told(name: str, run: RunFolder, question: Question, stores: Path | None = None) -> Told:
    """Return what a run says to a question."""
    record = next((r for r in run.records if key_of(r) == question.key), None)
    if record is None:
        return Told(name, reason=f"{run.path} has not asked this question")
    if record["error"]:
        return Told(name, reason=f"failed: {record['error']}")
    units = _units(run, record, stores)
    recalled = [
        Recalled(rank, unit, score, *_of(units.get(unit), question))
        for rank, (unit, score) in enumerate(record["recalled"][:SHOWN], 1)
    ]

    def hit(unit: str) -> bool:
        return _of(units.get(unit), question)[1] or unit in question.evidence_sessions

    return Told(
        name=name,
        recalled=recalled,
        more=max(0, len(record["recalled"]) - SHOWN),
        blocks=trace_blocks(record["trace"], hit),
        answer=_answer(record),
        scores=dict(_scores(run, record)),
        facts=_facts(record, question),
    )


def _units(run: RunFolder, record: Record, stores: Path | None) -> dict[str, Unit]:
    """Return the memory's units by id, from the store; none where it is not there any more."""
    folder = stores or run.path.resolve().parents[3] / "stores"
    for build in run.builds:
        if build["conversation"] == record["conversation"]:
            found = MemoryStore(folder / "memories").get(build["memory"])
            return {unit.id: unit for unit in found[0].units} if found else {}
    return {}


def _of(unit: Unit | None, question: Question) -> tuple[str, bool]:
    """Return a unit's text, and whether it holds evidence: turns where it names them."""
    if unit is None:
        return "", False
    if unit.turns and question.evidence_turns:
        return unit.text, bool({*unit.turns} & {*question.evidence_turns})
    return unit.text, bool({*unit.sessions} & {*question.evidence_sessions})


def _scores(run: RunFolder, record: Record) -> Iterator[tuple[str, float]]:
    """Yield the question's own value of each measure that the run was scored by."""
    key: Key = key_of(record)
    for name in run.scores.get("mean", {}):
        measure = parse(name)
        if isinstance(measure, CorpusMeasure):
            continue  # it has no value for a single question
        found = evaluate(measure, [run.items[key]])
        if isinstance(found, Scored) and (value := found.values[0]) is not None:
            yield name, value


def _answer(record: Record) -> str:
    if record["answer"] is None:
        return "(not asked for an answer)"
    return str(record["answer"]) or "(empty)"


def _facts(record: Record, question: Question) -> list[str]:
    calls = record["calls"]
    tokens = sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls)
    facts = [f"{record['rounds']} rounds"] if record["rounds"] > 1 else []
    facts += [f"{len(calls)} calls, {tokens:,} tokens"] if calls else []
    ranked = record["ranked_sessions"]
    if ranked is not None and question.evidence_sessions:
        places = [ranked.index(s) + 1 for s in question.evidence_sessions if s in ranked]
        if places:
            facts.append(f"gold sessions at rank {', '.join(str(p) for p in sorted(places))}")
    return facts
