"""The engine: records, resume, failures, stores, blindness to gold."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields

import pytest
from fakes import FakeBackend, Notebook

from eval.records import read_records
from memsys.dialogue import Query
from memsys.errors import UserError


async def test_a_run_answers_every_question_once_in_benchmark_order(bench, plain) -> None:
    finished = await bench.run()
    spec = finished.spec
    wanted = [q.key for s in spec.dataset.load(spec.protocol.rules) for q in s.questions]
    assert [(r["conversation"], r["index"]) for r in finished.records] == wanted
    assert finished.failed == 0
    assert finished.built == 2
    assert all(record["answer"] for record in finished.records)
    assert all(record["run"] == spec.fingerprint for record in finished.records)
    assert read_records(spec.folder / "records.jsonl") == list(finished.records)
    manifest = json.loads((spec.folder / "manifest.json").read_text())
    assert manifest["finished"] and manifest["identity"] == json.loads(json.dumps(spec.identity))


async def test_build_calls_belong_to_builds_and_answer_calls_to_questions(bench) -> None:
    finished = await bench.run()
    sessions = sum(build["units"] for build in finished.builds)
    build_calls = [call for build in finished.builds for call in build["calls"]]
    assert len(build_calls) == sessions > 2
    assert {call["phase"] for call in build_calls} == {"build"}
    for record in finished.records:
        assert [call["phase"] for call in record["calls"]] == ["question"]
        assert record["calls"][0]["prompt"].startswith("answering/short@")
        assert record["trace"] == {"k": 1}


async def test_the_same_command_again_does_nothing(bench, plain) -> None:
    first = await bench.run()
    asked = len(FakeBackend.requests)
    again = await bench.run()
    assert len(FakeBackend.requests) == asked
    assert (again.asked, again.built, again.paid_calls) == (0, 0, 0)
    assert plain(again) == plain(first)


async def test_asking_anew_pays_nothing_and_gives_the_same_records(bench, plain) -> None:
    first = await bench.run()
    asked = len(FakeBackend.requests)
    again = await bench.run("resume=false")
    assert len(FakeBackend.requests) == asked, "every reply comes from the store"
    assert again.asked == len(first.records)
    assert again.built == 0
    assert plain(again) == plain(first)
    assert all(call["cached"] for record in again.records for call in record["calls"])


async def test_a_failed_question_is_a_record_with_an_error_and_is_asked_again(bench, plain) -> None:
    whole = await bench.run(f"paths.results={bench.folder}-whole")
    FakeBackend.requests.clear()
    lost = whole.records[3]["question"]
    FakeBackend.failing.add(lost)
    first = await bench.run()
    failed = [record for record in first.records if record["error"]]
    assert [record["question"] for record in failed] == [lost]
    assert failed[0]["answer"] is None
    assert "gave up" in failed[0]["error"]
    FakeBackend.failing.clear()
    FakeBackend.requests.clear()
    again = await bench.run()
    assert again.failed == 0
    assert again.asked == 1
    assert len(FakeBackend.requests) == 1
    assert plain(again) == plain(whole)


async def test_a_conversation_that_cannot_be_remembered_fails_its_own_questions_only(bench) -> None:
    FakeBackend.failing.add("note of session_2")
    finished = await bench.run("dataset.max_conversations=1")
    assert {record["error"][:6] for record in finished.records} == {"build:"}
    FakeBackend.failing.clear()
    again = await bench.run("dataset.max_conversations=1")
    assert again.failed == 0


async def test_a_system_is_given_no_category_reference_or_evidence(bench) -> None:
    finished = await bench.run("protocol=memgas", "judge=none")
    assert {f.name for f in fields(Query)} == {"text", "date"}
    assert Notebook.queries and all(type(q) is Query for q in Notebook.queries)
    shown = "\n".join(m.content for r in FakeBackend.requests for m in r.messages)
    for record in finished.records:
        assert record["id"] not in shown
        for turn in record["evidence_turns"]:
            assert turn not in shown.split(), "evidence ids reach no prompt"


async def test_the_order_of_sessions_is_numeric(bench) -> None:
    spec = bench.spec()
    for sample in spec.dataset.load(spec.protocol.rules):
        numbers = [int(s.id.split("_")[1]) for s in sample.conversation.sessions]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    "change",
    [
        {"method": {"_target_": "fakes.Notebook", "build": {"style": "long"}, "ask": {"top_k": 2}}},
        {
            "method": {
                "_target_": "fakes.Notebook",
                "build": {"style": "short"},
                "ask": {"top_k": 3},
            }
        },
        {"llm": {"main": {"_target_": "fakes.FakeBackend", "name": "other"}}},
        "protocol=strict",
        "dataset.captions=none",
        "dataset.limit=3",
        "stage=retrieve",
    ],
)
def test_whatever_can_change_a_number_changes_the_fingerprint(bench, change) -> None:
    base = bench.spec()
    other = bench.spec(change) if isinstance(change, str) else bench.spec(**change)
    assert other.fingerprint != base.fingerprint


def test_a_changed_version_prompt_or_loader_changes_the_fingerprint(
    bench, monkeypatch, tmp_path
) -> None:
    base = bench.spec().fingerprint
    (tmp_path / "answering").mkdir()
    (tmp_path / "answering" / "short.txt").write_text("### user\n${context} ${question}\n")
    assert bench.spec(f"prompts.dir={tmp_path}").fingerprint != base
    monkeypatch.setattr(Notebook, "version", 2)
    assert bench.spec().fingerprint != base
    monkeypatch.undo()
    assert bench.spec().fingerprint == base
    monkeypatch.setattr(type(bench.spec().dataset), "version", 99)
    assert bench.spec().fingerprint != base


@pytest.mark.parametrize(
    "change",
    ["concurrency.questions=1", "concurrency.conversations=1", "progress=plain", "shard=1/2",
     "measures=[f1_squad]", "resume=false", "failed_as=zero"],
)  # fmt: skip
def test_whatever_cannot_change_a_number_keeps_the_fingerprint(bench, change) -> None:
    assert bench.spec(change).fingerprint == bench.spec().fingerprint


def test_another_folder_keeps_the_fingerprint(bench, tmp_path) -> None:
    assert bench.spec(f"paths.results={tmp_path}").fingerprint == bench.spec().fingerprint


async def test_only_build_settings_cost_a_new_memory(bench) -> None:
    await bench.run()
    ask = {"_target_": "fakes.Notebook", "build": {"style": "short"}, "ask": {"top_k": 1}}
    swept = await bench.run(method=ask)
    assert swept.built == 0
    assert swept.asked == len(swept.records)
    build = {"_target_": "fakes.Notebook", "build": {"style": "long"}, "ask": {"top_k": 1}}
    assert (await bench.run(method=build)).built == 2


async def test_shards_merge_into_the_unsharded_records(bench, plain) -> None:
    whole = await bench.run(f"paths.results={bench.folder}-whole")
    one = await bench.run("shard=1/2")
    assert 0 < len(one.records) < len(whole.records)
    await bench.run("shard=2/2")
    merged = await bench.run()
    assert merged.asked == 0
    assert plain(merged) == plain(whole)


async def test_a_torn_last_record_is_asked_again(bench, plain) -> None:
    first = await bench.run()
    path = first.spec.folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    again = await bench.run()
    assert again.asked == 1
    assert plain(again) == plain(first)


async def test_two_equal_commands_at_once_are_one_clear_sentence(bench) -> None:
    from filelock import FileLock

    spec = bench.spec()
    spec.folder.mkdir(parents=True)
    with FileLock(spec.folder / ".lock"), pytest.raises(UserError, match="Another process"):
        await bench.run()


async def test_retrieving_makes_no_answer_and_needs_no_answering_model(bench) -> None:
    finished = await bench.run("stage=retrieve")
    assert all(record["answer"] is None for record in finished.records)
    assert all(not record["calls"] for record in finished.records)
    assert all(record["ranked_sessions"] for record in finished.records)


async def test_identical_calls_in_flight_are_made_once(bench) -> None:
    slow = {"_target_": "fakes.FakeBackend", "delay": 0.01}
    finished = await bench.run(llm={"main": slow, "auxiliary": slow, "judge": slow})
    contents = [request.messages for request in FakeBackend.requests]
    assert len(contents) == len(set(contents)) <= len(finished.records) + 100


async def test_a_judge_keeps_its_verdicts_beside_the_records(bench) -> None:
    finished = await bench.run("protocol=memgas")
    assert len(finished.judgements) == len(finished.records)
    assert all(j["judge"] == "memgas" for j in finished.judgements)
    assert all(j["verdicts"]["scores"] == {"correct": 0.0} for j in finished.judgements)
    asked = len(FakeBackend.requests)
    again = await bench.run("protocol=memgas", "judge.repeats=2")
    assert again.asked == 0, "another judge never touches the answers"
    assert len(FakeBackend.requests) > asked


async def test_a_run_without_any_question_is_refused(bench) -> None:
    with pytest.raises(UserError, match="no question is left"):
        await bench.run("protocol.rules.categories=['1']", "dataset.max_sessions=1",
                        "dataset.max_conversations=1")  # fmt: skip


async def test_the_next_conversation_opens_when_the_last_question_of_one_is_under_way(
    bench, monkeypatch
) -> None:
    opened, second = [], asyncio.Event()
    remember, answer = Notebook.remember, Notebook.answer

    async def remembering(self, memory, sessions):
        opened.append(sessions)
        if len(opened) == 2:
            second.set()
        return await remember(self, memory, sessions)

    async def answering(self, memory, query):
        await asyncio.wait_for(second.wait(), 20)  # answered only when the other one is open, too
        return await answer(self, memory, query)

    monkeypatch.setattr(Notebook, "remember", remembering)
    monkeypatch.setattr(Notebook, "answer", answering)
    finished = await bench.run("concurrency.conversations=1", "concurrency.questions=64")
    assert finished.built == 2 and finished.failed == 0
