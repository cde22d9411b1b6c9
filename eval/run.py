"""The run engine: remember, ask, judge; concurrent, resumable, nothing lost.

For each conversation its memory is taken from the store or built, then its questions are asked.
Every finished question is appended at once. A question that could not be answered is a record
with an `error`, never a wrong answer; the same command again asks just those.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from filelock import FileLock, Timeout

from eval.controls import asked_of, query_for
from eval.judging import Judging
from eval.manifest import write_manifest
from eval.prices import PriceList
from eval.progress import Board, RunProgress
from eval.records import Key, Record, RecordFile, key_of, read_records
from eval.spec import RunSpec
from eval.stopping import Stopped, command
from memsys.concurrency import compute
from memsys.datasets.base import Sample
from memsys.dialogue import Conversation, Question
from memsys.errors import ChatFailure, EndpointRefused, UserError
from memsys.llm import ledger
from memsys.stores.memories import Build
from memsys.system import Answer, Memory, Recall

_COUNTING = 2.0  # seconds that a person waits for the number of questions that are left
RECALLED_LIMIT = 100
"""How many recalled units a record keeps; the ranking of sessions is kept whole."""


@dataclass(frozen=True)
class Finished:
    """A run's records in benchmark order, and what this command did for them."""

    spec: RunSpec
    records: Sequence[Record]
    builds: Sequence[Record]
    judgements: Sequence[Record]
    asked: int
    built: int
    paid_calls: int
    stored_calls: int
    seconds: float
    part: str = ""  # of the files' names, for a part of a run (`shard=1/4`)

    @property
    def failed(self) -> int:
        """How many questions could not be answered."""
        return sum(1 for record in self.records if record["error"])


async def run(
    spec: RunSpec, prices: PriceList, board: Board, judging: Judging | None = None
) -> Finished:
    """Carry out a run, or what is left of it; raises `UserError` if it cannot go on."""
    folder = spec.folder
    folder.mkdir(parents=True, exist_ok=True)
    shard = _Shard.parse(spec.config.values["shard"])
    lock = FileLock(folder / f".lock{shard.suffix}", timeout=0)
    try:
        with lock:
            if not spec.config.values["resume"]:
                for old in (*folder.glob("*.jsonl"), *folder.glob("scores*.json")):
                    old.unlink()
            title = f"{spec.dataset_name} × {spec.method_name}"
            progress = RunProgress(title, prices, board)
            ticking = asyncio.create_task(progress.tick())
            try:
                return await _Run(spec, shard, progress, judging).execute()
            finally:
                ticking.cancel()
                progress.close()
    except Timeout as error:
        raise UserError(
            f"Another process is working on this run ({folder}); wait for it, or stop it."
        ) from error


@dataclass(frozen=True)
class _Shard:
    index: int = 0
    of: int = 1

    @classmethod
    def parse(cls, text: str | None) -> _Shard:
        if text is None:
            return cls()
        try:
            index, of = (int(part) for part in str(text).split("/"))
        except ValueError:
            index, of = 0, 0
        if not 1 <= index <= of:
            raise UserError(f"shard={text}: give i/n with 1 ≤ i ≤ n, such as shard=1/4.")
        return cls(index - 1, of)

    @property
    def suffix(self) -> str:
        return f".{self.index + 1}-of-{self.of}" if self.of > 1 else ""

    def holds(self, position: int) -> bool:
        return position % self.of == self.index


class _Place:
    """A conversation's place among the open ones, kept until the last of its questions is begun.

    A benchmark with one question a conversation thus has as many in flight as any other.
    """

    def __init__(self, places: asyncio.Semaphore | None = None) -> None:
        self._places = places
        self.waiting = 0

    def asked(self) -> None:
        self.waiting -= 1
        if not self.waiting:
            self.leave()

    def leave(self, *_: object) -> None:
        places, self._places = self._places, None
        if places is not None:
            places.release()


class _Run:
    def __init__(
        self, spec: RunSpec, shard: _Shard, progress: RunProgress, judging: Judging | None
    ) -> None:
        self.spec = spec
        self.shard = shard
        self.progress = progress
        self.judging = judging
        self.records = RecordFile(spec.folder / f"records{shard.suffix}.jsonl")
        self.builds = RecordFile(spec.folder / f"builds{shard.suffix}.jsonl")
        self.judgements: RecordFile | None = None
        if judging is not None:
            name = f"judgements-{judging.fingerprint}{shard.suffix}.jsonl"
            self.judgements = RecordFile(spec.folder / name)
        self.asking = asyncio.Semaphore(spec.questions_at_once)
        self.brake = spec.resources.brake
        self.cut_short = False
        self.waited_for = 0.0
        self.order: list[Key] = []
        self.conversations: list[Key] = []
        self.asked = self.built = self.paid = self.stored = 0

    async def execute(self) -> Finished:
        start = time.monotonic()
        write_manifest(self.spec, self.judging)
        self._take_in_other_shards()
        open_conversations = asyncio.Semaphore(self.spec.concurrency.conversations)
        samples = self.spec.dataset.load(self.spec.protocol.rules)
        position = 0
        try:
            async with asyncio.TaskGroup() as tasks:
                while (sample := await compute(next, samples, None)) is not None:
                    if self._somebody_waits():
                        self.cut_short = True  # what is left need not be counted to its end
                        break
                    if self.brake.pressed and self.shard.holds(position):
                        await self._conversation(sample, _Place())  # counts its questions
                    elif self.shard.holds(position):
                        await open_conversations.acquire()
                        place = _Place(open_conversations)
                        task = tasks.create_task(self._conversation(sample, place))
                        task.add_done_callback(place.leave)
                    position += 1
        except BaseExceptionGroup as group:
            error = first_error(group)
            if isinstance(error, EndpointRefused) and self._anything_done():
                self._note()
                error = EndpointRefused(
                    f"{error} {self.brake.account} Then the same command goes on: {command()}"
                )
            raise error from group
        finally:
            for file in (self.records, self.builds, self.judgements):
                if file is not None:
                    file.close()
        if self.brake.pressed and (self.cut_short or self._left()):
            self._note()
            self.brake.check()
        if not self.order and self.shard.of == 1:
            raise UserError(
                f"dataset={self.spec.dataset_name}: no question is left to ask under protocol "
                f"{self.spec.protocol.name} and this cut."
            )
        finished = Finished(
            self.spec,
            self.records.finish(self.order),
            self.builds.finish(self.conversations),
            self.judgements.finish(self.order) if self.judgements else [],
            self.asked,
            self.built,
            self.paid,
            self.stored,
            time.monotonic() - start,
            self.shard.suffix,
        )
        write_manifest(self.spec, self.judging, finished=self.shard.of == 1)
        return finished

    def _take_in_other_shards(self) -> None:
        """Whatever another sharding of this run has finished is finished here as well."""
        for file in (self.records, self.builds, self.judgements):
            if file is None:
                continue
            stem = file.path.name.partition(".")[0]
            for path in self.spec.folder.glob(f"{stem}*.jsonl"):
                if path != file.path and path.name.partition(".")[0] == stem:
                    for record in read_records(path):
                        file.records.setdefault(key_of(record), record)

    def _somebody_waits(self) -> bool:
        """Whether a person has pressed the brake, and has waited for a while."""
        if not self.brake.bounded:
            return False
        self.waited_for = self.waited_for or time.monotonic()
        return time.monotonic() > self.waited_for + _COUNTING

    def _anything_done(self) -> bool:
        return bool(self.asked or self.spec.resources.meter.used.calls)

    def _note(self) -> None:
        """Tell the brake how far this run is."""
        of = len(self.order)
        self.brake.note(self.asked, of - self._left(), of, more=self.cut_short)

    def _left(self) -> int:
        """Return how many questions of the conversations looked at are not finished."""
        records = self.records.records
        answered = [k for k in self.order if k in records and not records[k]["error"]]
        unjudged = 0
        if self.judgements is not None:
            unjudged = sum(key not in self.judgements.records for key in answered)
        return len(self.order) - len(answered) + unjudged

    async def _conversation(self, sample: Sample, place: _Place) -> None:
        sample = asked_of(self.spec.system, sample)
        conversation = sample.conversation
        self.order += [question.key for question in sample.questions]
        self.conversations.append((conversation.id, 0))
        done = {q.key for q in sample.questions if self._is_finished(q)}
        self.progress.expect(len(sample.questions), reused=len(done))
        pending = [q for q in sample.questions if q.key not in done]
        if self.brake.pressed:
            return
        try:
            memory = await self._memory(conversation) if pending else None
        except Stopped:
            return  # every call that was made is stored: building goes on from there
        except ChatFailure as error:
            for question in pending:
                self._keep(question, None, ledger.Account("question"), 0.0, f"build: {error}")
            return
        place.waiting = len(pending)
        async with asyncio.TaskGroup() as tasks:
            if memory is not None and self.spec.stage == "retrieve":
                tasks.create_task(self._retrieve(memory, pending, place))
            else:
                for question in pending:
                    assert memory is not None
                    tasks.create_task(self._ask(memory, question, conversation, place))
            if self.judgements is not None:
                for question in sample.questions:
                    if question.key in done and not self._is_judged(question):
                        tasks.create_task(self._judge(question, conversation))

    def _is_finished(self, question: Question) -> bool:
        record = self.records.records.get(question.key)
        return record is not None and not record["error"]

    def _is_judged(self, question: Question) -> bool:
        assert self.judgements is not None
        return question.key in self.judgements.records

    async def _memory(self, conversation: Conversation) -> Memory:
        key = await compute(self.spec.memory_key, conversation)
        found = await compute(self.spec.stores.memories.get, key)
        reused = found is not None
        if found is None:
            memory, build = await self._build(conversation)
            await compute(self.spec.stores.memories.put, key, memory, build)
            # a memory is always used as it was read, so that a rerun sees the very same values
            found = await compute(self.spec.stores.memories.get, key)
            assert found is not None
        memory, build = found
        self._count_calls([] if reused else build.calls)
        if (conversation.id, 0) not in self.builds.records:
            self.builds.append(
                {
                    "conversation": conversation.id,
                    "index": 0,
                    "memory": key,
                    "units": len(memory.units),
                    "seconds": build.seconds,
                    "calls": list(build.calls),
                    "counts": dict(build.counts),
                }
            )
        return memory

    async def _build(self, conversation: Conversation) -> tuple[Memory, Build]:
        self.built += 1
        start = time.perf_counter()
        with ledger.scope("build") as account:
            self.progress.watch(account, open_=True)
            try:
                memory = await self.spec.system.remember(None, conversation.sessions)
            finally:
                self.progress.watch(account, open_=False)
        seconds = time.perf_counter() - start
        return memory, Build(
            seconds, tuple(call.plain() for call in account.calls), dict(account.counts)
        )

    async def _retrieve(self, memory: Memory, questions: Sequence[Question], place: _Place) -> None:
        """Recall for all questions of a conversation at once, where the system can."""
        system = self.spec.system
        if not system.needs("recall") & {"main", "auxiliary"}:
            start = time.perf_counter()
            recalls = await system.recall_many(memory, [query_for(system, q) for q in questions])
            seconds = (time.perf_counter() - start) / max(len(questions), 1)
            for question, recall in zip(questions, recalls, strict=True):
                account = ledger.Account("question")
                self._keep(question, Answer("", recall), account, seconds, None)
            return
        async with asyncio.TaskGroup() as tasks:
            for question in questions:
                tasks.create_task(self._ask(memory, question, None, place))

    async def _ask(
        self, memory: Memory, question: Question, conversation: Conversation | None, place: _Place
    ) -> None:
        async with self.asking:
            place.asked()
            if self.brake.pressed:
                return
            error: str | None = None
            answer: Answer | None = None
            start = time.perf_counter()
            with ledger.scope("question") as account:
                try:
                    system = self.spec.system
                    query = query_for(system, question)
                    if self.spec.stage == "retrieve":
                        answer = Answer("", await system.recall(memory, query))
                    else:
                        answer = await system.answer(memory, query)
                except ChatFailure as failure:
                    error = f"{type(failure).__name__}: {failure}"
                except Stopped:
                    return  # the question stays open; what it has asked so far is stored
            self._keep(question, answer, account, time.perf_counter() - start, error)
        if self.judgements is not None and conversation is not None and error is None:
            await self._judge(question, conversation)

    async def _judge(self, question: Question, conversation: Conversation) -> None:
        assert self.judging is not None
        assert self.judgements is not None
        async with self.asking:
            record = self.records.records[question.key]
            try:
                judgement = await self.judging.judge(self.spec.chat, question, conversation, record)
            except Stopped:
                return
            self._count_calls(judgement["calls"])
            self.judgements.append(judgement)

    def _keep(
        self,
        question: Question,
        answer: Answer | None,
        account: ledger.Account,
        seconds: float,
        error: str | None,
    ) -> None:
        recall = answer.recall if answer else Recall((), "")
        calls = [call.plain() for call in account.calls]
        sessions = recall.sessions
        self.asked += 1
        self._count_calls(calls)
        self.records.append(
            {
                "run": self.spec.fingerprint,
                "conversation": question.conversation,
                "id": question.id,
                "index": question.index,
                "category": question.category,
                "question": question.text,
                "reference": question.reference,
                "evidence_turns": list(question.evidence_turns),
                "evidence_sessions": list(question.evidence_sessions),
                "has_evidence": question.has_evidence,
                "abstention": question.abstention,
                "adversarial": question.adversarial,
                "extra": dict(question.extra),
                "answer": None if answer is None or self.spec.stage == "retrieve" else answer.text,
                "recalled": [[r.unit, r.score] for r in recall.ranking[:RECALLED_LIMIT]],
                "ranked_sessions": None if sessions is None else list(sessions),
                "context": recall.context if self.spec.protocol.keep_context else None,
                "context_tokens": account.counts.get("context_tokens", 0),
                "rounds": answer.rounds if answer else 0,
                "trace": {**recall.trace, **answer.trace} if answer else {},
                "counts": dict(account.counts),
                "calls": calls,
                "seconds": seconds,
                "error": error,
            }
        )
        self.progress.answered(failed=error is not None)

    def _count_calls(self, calls: Iterable[Any]) -> None:
        calls = list(calls)
        self.paid += sum(not call["cached"] for call in calls)
        self.stored += sum(call["cached"] for call in calls)
        self.progress.calls(calls)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to show of several that ended a run together: the user's input first."""
    flat: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop()
        if isinstance(error, BaseExceptionGroup):
            pending += error.exceptions
        else:
            flat.append(error)
    return min(flat, key=lambda e: not isinstance(e, UserError))
