"""The question explorer's data: a column-wise index of all questions, and details by conversation.

The index is small and read when the page opens. A conversation's details are read when one of its
questions is shown: one block with what its questions share, and the block of that very question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval.records import Record, key_of
from eval.report.columns import by_field
from eval.report.evidence import Excerpts, Texts, category_names, read_conversations
from eval.report.reading import LoadedRun
from eval.report.units import Memories, Pool, mentioned, ranked_sessions, recalled, shortened
from memsys.system import Unit

PART = 16
"""How many questions of a conversation lie in one block."""
ANSWER_TEXT = 4_000
"""How many characters of an answer are kept."""
TRACE_TEXT = 1_500
"""How many characters of each text in a trace are kept."""
_PLAIN_TEXT = 40  # with texts left out, only shorter strings of a trace stay: names and keywords
_LEFT_OUT = "(text left out)"

Group = tuple[str, str, str]  # data, protocol, conversation


@dataclass
class Index:
    """Every question once, whoever was asked, in columns; `chunks` in the details' order."""

    ids: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)  # the question's block among its conversation's
    texts: list[str] = field(default_factory=list)
    references: list[str | None] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    chunks: list[Group] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)  # the questions of each chunk
    members: list[list[tuple[int, int]]] = field(default_factory=list)  # (run, record) of each
    _at: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _chunk_at: dict[Group, int] = field(default_factory=dict)
    _named: dict[str, int] = field(default_factory=dict)

    def add(self, run: LoadedRun, record: Record) -> int:
        """Return the place of a record's question: one of its own under each protocol."""
        group = (run.data, run.protocol, record["conversation"])
        key = (*group, record["index"], record["question"])
        if key not in self._at:
            self._at[key] = len(self.ids)
            if group not in self._chunk_at:
                self._chunk_at[group] = len(self.chunks)
                self.chunks.append(group)
                self.places.append([])
            places = self.places[self._chunk_at[group]]
            self.ids.append(self._id(run, record))
            self.groups.append(self._chunk_at[group])
            self.parts.append(len(places) // PART)
            places.append(self._at[key])
            self.texts.append(record["question"])
            self.references.append(record["reference"])
            self.categories.append(
                category_names(run.dataset).get(record["category"], record["category"])
            )
            self.members.append([])
        return self._at[key]

    def _id(self, run: LoadedRun, record: Record) -> str:
        sample = "-sample" if run.manifest["dataset_info"]["is_sample"] else ""
        name = f"{run.dataset}{sample}/{run.protocol}/{record['conversation']}/{record['index']}"
        self._named[name] = self._named.get(name, 0) + 1
        return name if self._named[name] == 1 else f"{name}~{self._named[name]}"

    def plain(self) -> dict[str, Any]:
        """Return the index as JSON values."""
        return {
            "id": self.ids,
            "group": self.groups,
            "part": self.parts,
            "text": self.texts,
            "reference": self.references,
            "category": self.categories,
            "groups": [list(group) for group in self.chunks],
        }


def index_runs(runs: Sequence[LoadedRun]) -> tuple[Index, list[dict[str, Any]]]:
    """Index all questions; return each run's columns beside it: where, answers, values, errors."""
    index = Index()
    columns = []
    for number, run in enumerate(runs):
        at = []
        for position, record in enumerate(run.records):
            place = index.add(run, record)
            index.members[place].append((number, position))
            at.append(place)
        names = list(dict.fromkeys(name for values in run.values for name in values))
        columns.append(
            {
                "at": at,
                "answer": [_answer(record) for record in run.records],
                "failed": [i for i, record in enumerate(run.records) if record["error"]],
                "values": {
                    name: [_value(values.get(name)) for values in run.values] for name in names
                },
            }
        )
    return index, columns


def _answer(record: Record) -> str | None:
    answer = record["answer"]
    return None if answer is None else shortened(str(answer), ANSWER_TEXT)


def _value(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


class Details:
    """What the explorer shows of one question, gathered by conversation."""

    def __init__(
        self, runs: Sequence[LoadedRun], index: Index, memories: Memories, *, text: bool
    ) -> None:
        """Prepare to gather details; `text=False` leaves all conversation text out."""
        self._runs = runs
        self._index = index
        self._memories = memories
        self._text = text
        self._texts: dict[str, Texts] = {}

    def blocks(self, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield one conversation's named blocks: `PART` questions each, then what they share."""
        index, places = self._index, self._index.places[number]
        chunk = _Chunk(self._conversation(number), self._text, self._memories)
        for start in range(0, len(places), PART):
            questions = {}
            for place in places[start : start + PART]:
                asked = [(n, self._runs[n], p) for n, p in index.members[place]]
                questions[str(place)] = chunk.question(asked)
            yield f"part-{number}-{start // PART}", by_field(questions)
        yield f"chunk-{number}", chunk.shared()

    def _conversation(self, number: int) -> tuple[Excerpts | None, str]:
        if not self._text:
            return None, "conversation text was left out of this report (--no-text)"
        data, _, conversation = self._index.chunks[number]
        if data not in self._texts:
            run = next(run for run in self._runs if run.data == data)
            wanted = {group[2] for group in self._index.chunks if group[0] == data}
            self._texts[data] = read_conversations(run, wanted)
        texts = self._texts[data]
        found = texts.conversations.get(conversation)
        if found is None:
            return None, texts.reason or "the benchmark's files here lack this conversation"
        return Excerpts(found), ""


class _Chunk:
    def __init__(
        self, conversation: tuple[Excerpts | None, str], text: bool, memories: Memories
    ) -> None:
        self._excerpts, self._reason = conversation
        self._with_text = text
        self._memories = memories
        self._pool = Pool()
        self._names: dict[str, int] = {}
        self._loaded: dict[str, Mapping[str, Unit] | None] = {}
        self._units: dict[str, dict[str, list[Any]]] = {}

    def question(self, asked: Sequence[tuple[int, LoadedRun, int]]) -> dict[str, Any]:
        record = asked[0][1].records[asked[0][2]]
        turns, sessions = record["evidence_turns"], record["evidence_sessions"]
        found: dict[str, Any] = {"turns": turns, "sessions": sessions}
        if self._excerpts is not None:
            found["around"] = self._excerpts.around(turns, sessions)
            found["missing"] = self._excerpts.missing(turns)
        extra = {k: v for k, v in record.get("extra", {}).items() if v}
        if extra and self._with_text:
            found["extra"] = extra
        flags = [name for name in ("abstention", "adversarial") if record.get(name)]
        if flags:
            found["flags"] = flags
        found["runs"] = {str(n): self._record(run, run.records[at]) for n, run, at in asked}
        return found

    def _record(self, run: LoadedRun, record: Record) -> dict[str, Any]:
        key = run.memory_keys.get(record["conversation"], "")
        if key not in self._loaded:
            self._loaded[key] = self._memories.units(key)
        units = self._loaded[key]
        found = recalled(record, units)
        judgements = run.judgements_by_key.get(key_of(record), [])
        calls = [*record["calls"], *(call for j in judgements for call in j["calls"])]
        if units is not None:
            self._keep_units(key, units, found, record["trace"])
        return {
            "memory": key if units is not None else None,
            "recalled": found,
            "sessions": ranked_sessions(record),
            "trace": self._trace(record["trace"], frozenset(units or ())),
            "calls": [self._call(call) for call in calls],
            "judged": [self._judged(judgement) for judgement in judgements],
            "counts": record["counts"],
            "rounds": record["rounds"],
            "seconds": round(record["seconds"], 3),
            "error": record["error"],
        }

    def _keep_units(
        self, key: str, units: Mapping[str, Unit], found: Mapping[str, Any], trace: Any
    ) -> None:
        kept = self._units.setdefault(key, {})
        names = [row[1] for row in (*found["shown"], *found["below"])]
        for name in (*names, *mentioned(trace, units)):
            if name in kept or name not in units:
                continue
            unit = units[name]
            text = self._pool.add(unit.text) if self._with_text else None
            kept[name] = [text, list(unit.sessions[:4]), len(unit.sessions), len(unit.turns)]

    def _trace(self, value: Any, units: frozenset[str]) -> Any:
        if isinstance(value, str):
            if not self._with_text and len(value) > _PLAIN_TEXT and value not in units:
                return _LEFT_OUT
            return shortened(value, TRACE_TEXT)
        if isinstance(value, Mapping):
            return {str(k): self._trace(inner, units) for k, inner in value.items()}
        if isinstance(value, list):
            return [self._trace(inner, units) for inner in value]
        return float(f"{value:.5g}") if isinstance(value, float) else value

    def _call(self, call: Mapping[str, Any]) -> list[Any]:
        """Return phase, role, model, prompt (by name), tokens in and out, stored, seconds, valid.

        The last entry is `None` for a call without a schema.
        """
        names = [self._name(str(call[part])) for part in ("phase", "role", "model", "prompt")]
        tokens = [call["prompt_tokens"], call["completion_tokens"]]
        valid = call.get("valid") if call.get("schema") else None
        return [*names, *tokens, int(call["cached"]), round(call["seconds"], 3), valid]

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _judged(self, judgement: Record) -> dict[str, Any]:
        verdicts = judgement["verdicts"]
        return {
            "judge": judgement["judge"],
            "scores": verdicts.get("scores"),
            "model": verdicts.get("model"),
            "error": judgement["error"],
        }

    def shared(self) -> dict[str, Any]:
        return {
            "texts": self._pool.texts,
            "names": list(self._names),
            "units": self._units,
            "sessions": self._excerpts.sessions if self._excerpts is not None else {},
            "reason": self._reason,
        }
