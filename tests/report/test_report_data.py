"""From run folders to the report's data: nothing lost, nothing invented, all of it explained."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.report.columns import by_field
from eval.report.evidence import AROUND, WHOLE, Excerpts, read_conversations
from eval.report.questions import PART, Details, index_runs
from eval.report.reading import find_runs, load_run, load_runs, settings_of
from eval.report.units import (
    SHOWN,
    UNIT_TEXT,
    Memories,
    Pool,
    mentioned,
    ranked_sessions,
    recalled,
    shortened,
)
from memsys.dialogue import Conversation, Session, Turn
from memsys.errors import UserError
from memsys.system import Unit

from .conftest import loaded, record

# --- reading runs


def test_runs_are_found_below_any_folder_and_absent_ones_are_named(case, tmp_path) -> None:
    folder = case.run("rag", [record()])
    assert find_runs([case.results]) == find_runs([folder, folder.parent]) == [folder]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run below"):
        find_runs([tmp_path / "empty"])
    with pytest.raises(UserError, match="not a folder"):
        find_runs([tmp_path / "nowhere"])


def test_an_empty_or_broken_run_is_left_out_with_its_reason(case) -> None:
    case.run("rag", [record()])
    case.run("amem", [])
    (case.run("mpc", [record()]) / "manifest.json").write_text("{broken")
    runs, left_out = load_runs(find_runs([case.results]))
    assert [run.method for run in runs] == ["rag"]
    assert len(left_out) == 2
    assert any("no record yet" in reason for reason in left_out)
    assert any("unreadable" in reason for reason in left_out)


def test_labels_name_just_what_tells_runs_apart(case) -> None:
    case.run("rag", [record()], run="a", ask={"top_k": 3, "rewrite": False})
    case.run("rag", [record()], run="b", ask={"top_k": 5, "rewrite": False})
    case.run("mpc", [record()], run="c")
    assert {run.fingerprint: run.label for run in loaded(case)} == {
        "a": "rag (top_k=3)", "b": "rag (top_k=5)", "c": "mpc",
    }  # fmt: skip


def test_a_cut_is_told_by_its_number_of_questions(case) -> None:
    case.run("rag", [record()], run="a", cut="first 1 conversations, at most 3 questions")
    case.run("rag", [record()], run="b")
    assert {run.label for run in loaded(case)} == {"rag (3 questions)", "rag (all questions)"}


def test_runs_that_differ_in_nothing_shown_are_told_apart_by_fingerprint(case) -> None:
    case.run("rag", [record()], run="aaaaaaaaaa")
    case.run("rag", [record()], run="bbbbbbbbbb")
    assert {run.label for run in loaded(case)} == {"rag (aaaaaaaa)", "rag (bbbbbbbb)"}


def test_a_run_that_was_stopped_says_so_wherever_it_is_named(case) -> None:
    manifest = case.run("rag", [record()]) / "manifest.json"
    stopped = {**json.loads(manifest.read_text()), "finished": None}
    manifest.write_text(json.dumps(stopped))
    assert [run.label for run in loaded(case)] == ["rag – not finished"]


def test_shards_are_read_together_and_each_question_once(case) -> None:
    folder = case.run("rag", [record(0)])
    (folder / "records.jsonl").unlink()
    case.lines(folder / "records.1-of-2.jsonl", [record(0, answer="first")])
    case.lines(folder / "records.2-of-2.jsonl", [record(0, answer="second"), record(1)])
    assert [(r["index"], r["answer"]) for r in load_run(folder).records] == [
        (0, "first"), (1, "behind the door"),
    ]  # fmt: skip


def test_values_follow_the_records_even_if_scores_are_older(case) -> None:
    folder = case.run("rag", [record(0), record(1)], values=[{"f1": 0.1}, {"f1": 0.2}])
    assert [v["f1"] for v in load_run(folder).values] == [0.1, 0.2]
    case.lines(folder / "records.jsonl", [record(1), record(2), record(0)])
    assert [v.get("f1") for v in load_run(folder).values] == [0.2, None, 0.1]
    twice = [record(0), record(1, id="mill_qa0"), record(2)]
    scores = json.loads((folder / "scores.json").read_text())
    scores["items"] = [{"id": "mill_qa0", "f1": 0.3}, {"id": "mill_qa0", "f1": 0.4}]
    (folder / "scores.json").write_text(json.dumps(scores))
    case.lines(folder / "records.jsonl", twice)
    assert all("f1" not in v for v in load_run(folder).values), "an id of two questions tells none"


def test_settings_are_for_people_without_checksums(case) -> None:
    case.run("rag", [record()], ask={"nested": {"deep": 2}})
    (run,) = loaded(case)
    settings = settings_of(run)
    assert settings["ask.nested.deep"] == "2"
    assert settings["models.main.model"] == "little-model"
    assert not any("0123" in value for value in settings.values())


# --- the index


def test_a_question_stands_once_under_each_protocol(case) -> None:
    case.run("rag", [record(0), record(1)], run="a")
    case.run("mpc", [record(1), record(0)], run="b")
    case.run("raptor", [record(0)], run="c", protocol="mgretrieval")
    runs = loaded(case)
    index, columns = index_runs(runs)
    assert sorted(index.ids) == [
        "locomo/memgas/mill/0", "locomo/memgas/mill/1", "locomo/mgretrieval/mill/0",
    ]  # fmt: skip
    assert index.categories == ["single-hop"] * 3
    for run, column in zip(runs, columns, strict=True):
        for place, entry in zip(column["at"], run.records, strict=True):
            assert index.ids[place].endswith(f"{run.protocol}/mill/{entry['index']}")


def test_a_question_posed_in_other_words_is_another_one(case) -> None:
    case.run("rag", [record(0)], run="a")
    case.run("mpc", [record(0, question="(a) or (b)?")], run="b")
    index, _ = index_runs(loaded(case))
    assert sorted(index.ids) == ["locomo/memgas/mill/0", "locomo/memgas/mill/0~2"]


def test_columns_tell_null_empty_and_failed_answers_apart(case) -> None:
    records = [record(0, answer=None), record(1, answer=""), record(2, error="Timeout: x")]
    case.run("rag", records, values=[{"f1": None}, {"f1": 0.33333333}, {"f1": None}])
    _, (column,) = index_runs(loaded(case))
    assert column["answer"] == [None, "", "behind the door"]
    assert column["failed"] == [2]
    assert column["values"] == {"f1": [None, 0.3333, None]}


# --- recalled memories


def test_hits_are_units_whose_turns_or_sessions_meet_the_evidence() -> None:
    units = {
        "turn": Unit("turn", "", ("D1:5",), ("session_1",)),
        "session": Unit("session", "", (), ("session_1",)),
        "other": Unit("other", "", ("D2:1",), ("session_2",)),
    }
    entry = record(recalled=[["other", 1.23456], ["session", 0.5], ["turn", 0.1], ["gone", 0]])
    found = recalled(entry, units)
    assert found["shown"] == [
        [1, "other", 1.235, 0], [2, "session", 0.5, 1], [3, "turn", 0.1, 2], [4, "gone", 0.0, None],
    ]  # fmt: skip
    assert [row[3] for row in recalled(entry, None)["shown"]] == [None] * 4


def test_hits_further_down_are_kept_with_their_rank() -> None:
    names = [f"u{i}" for i in range(60)]
    units = {n: Unit(n, "", ("D1:5",) if n in ("u3", "u41") else (), ()) for n in names}
    found = recalled(record(recalled=[[n, 0.0] for n in names]), units)
    assert len(found["shown"]) == SHOWN
    assert [(row[0], row[1]) for row in found["below"]] == [(42, "u41")]
    assert found["total"] == 60


def test_every_gold_session_is_listed_however_low_it_ranks() -> None:
    order = [f"session_{i}" for i in range(2, 60)] + ["session_1"]
    rows = ranked_sessions(record(ranked_sessions=order))
    assert rows is not None
    assert rows[-1] == [59, "session_1", 1]
    assert len(rows) == SHOWN + 1
    assert ranked_sessions(record(ranked_sessions=None)) is None


def test_fields_stand_together_and_only_ranks_that_skip_are_written() -> None:
    order = [f"session_{i}" for i in range(2, 60)] + ["session_1"]
    rows = ranked_sessions(record(ranked_sessions=order))
    shown = {
        "shown": [[1, "a", 0.5, 2], [2, "b", 0.25, None]],
        "below": [[40, "c", 0, 1]],
        "total": 50,
    }
    first = {"recalled": shown, "sessions": rows, "seconds": 1.5}
    second = {"recalled": {**shown, "shown": []}, "sessions": None, "seconds": 2}
    found = by_field(
        {"7": {"turns": [], "runs": {"0": first, "3": second}}, "9": {"runs": {"3": second}}}
    )
    assert found["questions"] == {
        "7": {"turns": [], "runs": {"0": 0, "3": 1}},
        "9": {"runs": {"3": 2}},
    }
    assert found["records"]["seconds"] == [1.5, 2, 2]
    assert found["records"]["recalled"][0] == [
        ["a", "b"],
        [0.5, 0.25],
        [2, None],
        [[40, "c", 0, 1]],
        50,
    ]
    assert found["records"]["sessions"] == [[order[:SHOWN], [[59, "session_1"]]], None, None]


def test_a_trace_names_units_wherever_they_stand() -> None:
    units = {name: Unit(name, "") for name in ("a", "b", "c")}
    trace = {"x": ["a", "no"], "y": [{"deep": {"z": "b"}}], "a": 1}
    assert list(mentioned(trace, units)) == ["a", "b"]


def test_texts_are_kept_once_and_long_ones_say_what_is_missing() -> None:
    pool = Pool()
    assert [pool.add("one"), pool.add("two"), pool.add("one")] == [0, 1, 0]
    pool.add("x" * (UNIT_TEXT + 1234))
    assert pool.texts[2].endswith("… (1,234 more characters)")
    assert shortened("abc", 3) == "abc"


def test_a_memory_that_is_not_at_hand_or_torn_is_absent(case) -> None:
    case.memory("ab" * 32, Unit("u1", "line one\u2028line two", ("D1:1",), ("session_1",)))
    memories = Memories([case.results / "stores"])
    units = memories.units("ab" * 32)
    assert units is not None
    assert units["u1"].text == "line one\u2028line two"
    assert memories.units("cd" * 32) is None
    assert memories.units("") is None
    path = case.stores.path("ab" * 32) / "units.jsonl"
    path.write_text('{"id": "u1", "te\n')
    assert memories.units("ab" * 32) is None


# --- evidence


def long_conversation(turns: int) -> Conversation:
    session = Session(
        "session_1", tuple(Turn(f"D1:{i}", "Ilse", f"turn {i}") for i in range(turns))
    )
    return Conversation("c", (session,))


@given(st.integers(1, 60), st.lists(st.integers(0, 59), max_size=6))
def test_excerpts_hold_the_gold_turns_and_their_neighbours(length, gold) -> None:
    excerpts = Excerpts(long_conversation(length))
    turns = [f"D1:{i}" for i in gold]
    found = excerpts.around(turns, [])
    inside = [i for i in gold if i < length]
    assert bool(found) == bool(inside)
    assert excerpts.missing(turns) == [t for t, i in zip(turns, gold, strict=True) if i >= length]
    for _, spans in found:
        shown = {i for first, last in spans for i in range(first, last + 1)}
        near = {j for i in inside for j in range(i - AROUND, i + AROUND + 1) if 0 <= j < length}
        assert shown == near
        assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(spans)), "merged"
        assert {int(i) for i in excerpts.sessions["session_1"]["turns"]} == shown


def test_a_gold_session_without_gold_turns_is_shown_from_its_start() -> None:
    excerpts = Excerpts(long_conversation(100))
    assert excerpts.around([], ["session_1"]) == [["session_1", [[0, WHOLE - 1]]]]
    assert excerpts.sessions["session_1"]["n"] == 100


def test_text_comes_from_the_very_file_that_the_run_read(case) -> None:
    data = case.conversation()
    case.run("rag", [record()], data=data)
    (run,) = loaded(case)
    texts = read_conversations(run, {"mill"})
    assert texts.conversations["mill"].turn("D1:5").text.startswith("The key hangs behind")
    assert len(texts.conversations["mill"].sessions) == 2, "the run's cut does not cut its evidence"
    data.write_text(data.read_text().replace("windmill", "watermill"))
    assert "not those that the run read" in read_conversations(run, {"mill"}).reason
    data.unlink()
    reason = read_conversations(run, {"mill"}).reason
    assert "not at hand" in reason
    assert str(case.folder) not in reason, "a report may be passed on"


def test_a_conversation_is_read_in_parts_of_a_few_questions(case) -> None:
    case.run("rag", [record(i) for i in range(2 * PART + 1)])
    case.run("other", [record(0, conversation="quay")])
    runs = load_runs(find_runs([case.results / "runs"]))[0]
    index, _ = index_runs(runs)
    plain = index.plain()
    details = Details(runs, index, Memories([]), text=False)
    found = [dict(details.blocks(number)) for number in range(len(index.chunks))]
    for place, (group, part) in enumerate(zip(plain["group"], plain["part"], strict=True)):
        assert str(place) in found[group][f"part-{group}-{part}"]["questions"]
    assert sorted(len(blocks) for blocks in found) == [2, 4], "each part, and what they share"


def test_an_unknown_dataset_has_no_text_and_breaks_nothing(case) -> None:
    case.run("rag", [record(category="odd")], dataset="my_own_benchmark")
    runs = loaded(case)
    index, _ = index_runs(runs)
    assert index.categories == ["odd"]
    blocks = dict(Details(runs, index, Memories([]), text=True).blocks(0))
    assert "not at hand" in blocks["chunk-0"]["reason"]
    assert "around" not in blocks["part-0-0"]["questions"]["0"]


def test_details_hold_evidence_memories_trace_and_calls(systems) -> None:
    runs = loaded(systems)
    index, _ = index_runs(runs)
    details = Details(runs, index, Memories([systems.results / "stores"]), text=True)
    blocks = dict(details.blocks(0))
    chunk, questions = blocks["chunk-0"], blocks["part-0-0"]["questions"]
    found = questions["0"]
    assert found["around"] == [["session_1", [[2, 6]]]]
    assert questions["1"]["missing"] == ["D9:9"]
    pyramid = next(i for i, run in enumerate(runs) if run.method == "pyramid")
    at = found["runs"][str(pyramid)]
    mine = {name: values[at] for name, values in blocks["part-0-0"]["records"].items()}
    assert mine["recalled"] == [["u1", "u2"], [0.9, 0.5], [2, 1], [], 2]
    assert mine["sessions"] == [["session_2", "session_1"], []]
    assert mine["trace"]["path"][1] == {"level": 1, "keywords": ["mill"], "size": 3, "new": 3}
    unit = chunk["units"][mine["memory"]]["u1"]
    assert chunk["texts"][unit[0]] == "The key hangs behind the mill door."
    assert len(chunk["texts"]) == 3, "six memories of equal texts keep each once"
    phase, role, _, prompt, *numbers = mine["calls"][-1]
    names = chunk["names"]
    assert (names[phase], names[role], names[prompt]) == ("judge", "judge", "answering/x@12ab")
    assert numbers == [100, 10, 0, 0.5, False]
    assert mine["judged"][0]["scores"] == {"correct": 1.0}
