import asyncio
import json
import random
import sys
from datetime import datetime
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from hypothesis import given
from hypothesis import strategies as st
from methodconfig import check_method_config

from baselines.secom import SeCom, SeComAsk, SeComBuild
from baselines.secom.compression import IdfCompressor, LlmLingua2, NoCompression, kept, threshold
from baselines.secom.segmentation import (
    Segmentation,
    blocks,
    read_counts,
    repair,
)
from memsys.dialogue import Query, Session, Turn
from memsys.errors import UserError
from memsys.llm import ledger


def session(name, exchanges, day=1):
    turns = [
        Turn(f"{name}:{i}", "Ann" if i % 2 == 0 else "Ben", f"{name} says {i}.")
        for i in range(2 * exchanges)
    ]
    return Session(name, tuple(turns), datetime(2023, 5, day))


SESSIONS = [session("A", 5, 1), session("B", 7, 2), session("C", 2, 3)]


def ranges(*pairs):
    return json.dumps({"segments": [{"start": a, "end": b} for a, b in pairs]})


REPLIES = {
    "A": ranges((0, 1), (2, 4)),
    "B": ranges((0, 3), (4, 6)) + "\n" + ranges((0, 6)),
    "C": ranges((0, 0)),
}


def script(request, role, prompt):
    if prompt != "secom/segment":
        return "an answer"
    return REPLIES[request.messages[-1].content.split("\n[Ann]: ")[1][0]]


def secom(reply=script, encoder=None, window=128_000, ask=None, **build):
    settings = SeComBuild(**{"compressor": "none", **build})
    return SeCom(settings, SeComAsk(**(ask or {})), tools(reply, encoder, window))


def remembered(system, sessions=SESSIONS):
    return asyncio.run(system.remember(None, sessions))


def constant(text):
    return lambda request, role, prompt: text


SCORES = {"A0": 0.42, "A1": 0.71, "B0": 0.55, "B1": 0.66, "B2": 0.10, "C0": 0.60, "C1": 0.05}


def scored(**ask):
    """The worked example's memory, with an encoder that returns its similarities."""
    memory = remembered(secom())
    names = [f"{u.sessions[0]}{u.id[-1]}" for u in memory.units]
    table = {u.text: (SCORES[n],) for u, n in zip(memory.units, names, strict=True)}
    system = secom(encoder=TableEncoder({**table, "q": (1.0,)}), ask=ask)
    return system, remembered(system)


def test_worked_example_segments():
    with ledger.scope("build") as account:
        memory = remembered(secom())
    lengths = {u.id: len(u.fields["exchanges"]) for u in memory.units}
    assert lengths == {
        "A#segment0": 2, "A#segment1": 3,
        "B#segment0": 3, "B#segment1": 3, "B#segment2": 1,
        "C#segment0": 1, "C#segment1": 1,
    }  # fmt: skip
    assert account.counts["secom.segment:blocks"] == 1
    assert account.counts["secom.segment:counts_repaired"] == 1
    turns = [t for u in memory.units for t in u.turns]
    assert turns == [t.id for s in SESSIONS for t in s.turns]


def test_worked_example_ranking():
    system, memory = scored()
    found = asyncio.run(system.recall(memory, Query("q")))
    assert [r.unit for r in found.ranking] == ["A#segment1", "B#segment1", "C#segment0"]
    assert [r.score for r in found.ranking] == pytest.approx([0.71, 0.66, 0.60])
    assert found.sessions == ("A", "B", "C")
    system, memory = scored(session_score="mean")
    assert asyncio.run(system.recall(memory, Query("q"))).sessions == ("A", "B", "C")


def test_mean_and_max_can_disagree():
    sessions, reply = [session("A", 2), session("B", 2)], constant(ranges((0, 0)))
    texts = [u.text for u in remembered(secom(reply), sessions).units]
    table = {t: (v,) for t, v in zip(texts, (0.9, 0.0, 0.5, 0.6), strict=True)}
    for how, first in (("max", "A"), ("mean", "B")):
        encoder = TableEncoder({**table, "q": (1.0,)})
        system = secom(reply, encoder, ask={"session_score": how})
        found = asyncio.run(system.recall(remembered(system, sessions), Query("q")))
        assert found.sessions[0] == first


def test_worked_example_threshold():
    p = [0.9, 0.05, 0.6, 0.3, 0.8, 0.02, 0.7, 0.1]
    ones = [1] * 8
    assert threshold(p, ones, 0.75) == pytest.approx(0.091)
    assert threshold(p, ones, 0.9) == pytest.approx(0.041)
    assert threshold(p, ones, 0.5) == pytest.approx(0.471)
    assert kept(p, ones, 0.75) == [0, 2, 3, 4, 6, 7]
    assert kept(p, ones, 0.9) == [0, 1, 2, 3, 4, 6, 7]
    assert kept(p, ones, 0.5) == [0, 2, 4, 6]
    assert kept(p, ones, 1.0) == list(range(8)) and kept([], [], 0.5) == []
    assert kept([1.0, 1.0, 0.2], [4, 4, 1], 0.1) == [0, 1]  # τ = 1 keeps what is forced
    assert threshold([0.1, 0.9], [1, 9], 0.5) > threshold([0.1, 0.9], [9, 1], 0.5)


def test_one_call_a_session_and_one_answer_a_question():
    system = secom()
    memory = remembered(system)
    assert system.tools.chat.prompts() == ["secom/segment"] * 3
    assert all(call[2].attempt == 0 for call in system.tools.chat.calls)
    asyncio.run(system.answer(memory, Query("q")))
    assert len(system.tools.chat.calls) == 4


def test_contexts():
    system, memory = scored(top_k=2)
    rank = asyncio.run(system.recall(memory, Query("q"))).context
    assert rank.startswith("[1 May 2023, 12:00 am]\n[Ann]: A says 4.\n[Ben]: A says 5.\n[Ann]: A")
    assert "\n\n[2 May 2023, 12:00 am]\n[Ann]: B says 6." in rank
    system, memory = scored(top_k=1, context="sessions")
    whole = asyncio.run(system.recall(memory, Query("q"))).context
    assert whole.count("A says") == 10 and whole.count("[1 May") == 1 and "B says" not in whole


def test_context_in_time_order():
    system, _ = scored(context_order="time")
    memory = remembered(system, list(reversed(SESSIONS)))
    found = asyncio.run(system.recall(memory, Query("q")))
    assert [r.unit[0] for r in found.ranking] == ["A", "B", "C"]
    assert [block[1] for block in found.context.split("\n\n")] == ["3", "2", "1"]


def test_bm25_needs_no_encoder_at_recall():
    system = secom(ask={"retriever": "bm25"})
    assert "encoder" not in system.needs("recall") and "encoder" in system.needs("remember")
    found = asyncio.run(system.recall(remembered(system), Query("what B says 12?")))
    assert found.ranking[0].unit == "B#segment2" and found.sessions[0] == "B"


@pytest.mark.parametrize(
    "bad",
    ["", "One topic only.", '{"segments": []}', '{"topics": [[0, 4]]}', ranges((3, 1)),
     ranges((0, 1)) + ranges((2, 4)), "```json\n[1, 2]\n```", "話題は一つです"],
)  # fmt: skip
def test_malformed_segmentations_become_blocks_of_three(bad):
    with ledger.scope("build") as account:
        memory = remembered(secom(constant(bad)), SESSIONS[:1])
    assert [len(u.fields["exchanges"]) for u in memory.units] == [3, 2]
    assert account.counts["secom.segment:blocks"] == 1


@pytest.mark.parametrize(
    "text",
    [f"Here:\n```json\n{ranges((0, 1), (2, 4))}\n```", ranges((0, 1), (2, 4))[:-1]],
)
def test_fenced_and_truncated_replies_are_read(text):
    memory = remembered(secom(constant(text)), SESSIONS[:1])
    assert [len(u.fields["exchanges"]) for u in memory.units] == [2, 3]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.integers(1, 40))
def test_repair_always_adds_up(counts, exchanges):
    lengths, changed = repair(counts, exchanges)
    assert sum(lengths) == exchanges and min(lengths) >= 1
    assert changed == (sum(counts) != exchanges or lengths != counts)
    assert sum(blocks(exchanges, 3)) == exchanges


def test_only_counts_matter():
    reply = Segmentation.model_validate_json(ranges((7, 8), (0, 2)))
    assert read_counts(reply, "") == [2, 3]


@given(
    st.text(max_size=100)
    | st.lists(st.tuples(st.integers(), st.integers())).map(lambda p: ranges(*p))
)
def test_no_reply_crashes_or_loses_a_turn(text):
    memory = remembered(secom(constant(text), HashEncoder(4)), SESSIONS[:2])
    turns = [t for u in memory.units for t in u.turns]
    assert turns == [t.id for s in SESSIONS[:2] for t in s.turns]
    assert len(memory.array("vectors")) == len(memory.units)


@pytest.mark.parametrize("name", ["none", "idf"])
def test_session_by_session_gives_the_same_memory(name):
    system = secom(compressor=name)
    sessions = [*SESSIONS, Session("D", ())]
    whole, grown = remembered(system, sessions), None
    for one in sessions:
        grown = asyncio.run(system.remember(grown, [one]))
    assert (grown.units, grown.sessions, grown.state) == (whole.units, whole.sessions, whole.state)
    np.testing.assert_array_equal(grown.arrays["vectors"], whole.arrays["vectors"])
    assert asyncio.run(system.recall(whole, Query("A"))).sessions[-1] == "D"


def test_idf_drops_common_words_and_keeps_forced_tokens():
    texts = [f"[Ann]: the {w} is a thing.\n[Ben]: the {w} yes." for w in ("car", "boat", "tree")]
    short = IdfCompressor().compress(texts, 0.5, ["[Ann]:", "[Ben]:"])
    assert short[0] == "[Ann]: car.\n[Ben]: car."
    assert IdfCompressor().compress(texts, 1.0, ["[Ann]:", "[Ben]:"]) == texts
    assert NoCompression().compress(texts, 0.5, []) == texts
    assert IdfCompressor().compress([], 0.5, []) == []


def test_keys_are_embedded_and_the_achieved_rate_is_kept():
    encoder = HashEncoder()
    memory = remembered(secom(encoder=encoder, compressor="idf", compression_rate=0.5))
    assert encoder.texts == [u.fields["key"] for u in memory.units]
    state = memory.state["compression"]
    assert state["compressor"] == "idf" and 0 < state["achieved_rate"] < 1
    assert all("says" in u.text for u in memory.units)
    assert not any("says" in u.fields["key"] for u in memory.units)


def test_a_missing_compressor_is_said_before_any_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "llmlingua", None)
    system = secom(compressor="llmlingua2")
    with pytest.raises(UserError, match="pip install llmlingua"):
        remembered(system)
    assert system.tools.chat.calls == []


@pytest.fixture
def lingua(monkeypatch):
    """A module `llmlingua` that upper-cases, and seeds the generators as the real one does."""
    module = ModuleType("llmlingua")
    module.__spec__ = ModuleSpec("llmlingua", None)
    module.seen = []

    class PromptCompressor:
        def __init__(self, model, device_map, use_llmlingua2):
            assert use_llmlingua2
            random.seed(42)
            np.random.seed(42)

        def compress_prompt(self, context, **options):
            module.seen.append((context, options))
            if context == ["é"]:
                raise IndexError("no score to take a percentile of")
            return {"compressed_prompt": context[0].upper()}

    module.PromptCompressor = PromptCompressor
    monkeypatch.setitem(sys.modules, "llmlingua", module)
    return module


def test_llmlingua_is_asked_once_a_text_and_leaves_the_generators_alone(lingua):
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    adapter = LlmLingua2("bert-base-multilingual-cased")
    assert adapter.compress(["a", "b", "a", " "], 0.75, ["[Ann]:"]) == ["A", "B", "A", " "]
    assert adapter.compress(["b"], 0.75, ["[Ann]:"]) == ["B"]
    assert adapter.compress(["b"], 1.0, ["[Ann]:"]) == ["b"]
    assert (random.random(), np.random.random()) == expected
    assert len(lingua.seen) == 2
    context, options = lingua.seen[0]
    assert context == ["a"] and options["rate"] == 0.75
    assert options["force_tokens"] == ["\n", ".", "[Ann]:"]


def test_a_text_that_llmlingua_cannot_score_stays_whole(lingua):
    with ledger.scope("build") as account:
        assert LlmLingua2("xlm-roberta-large").compress(["é", "a"], 0.75, []) == ["é", "A"]
    assert account.counts == {"secom.compress:kept_whole": 1}


def test_llmlingua_needs_a_model_name_it_knows(lingua):
    with pytest.raises(UserError, match="xlm-roberta-large"):
        LlmLingua2("/models/my-own").check()


def test_a_long_session_is_cut_to_the_window_and_keeps_its_turns():
    system = secom(constant(ranges((0, 0))), window=1700)
    long = Session("A", tuple(Turn(str(i), "Ann", "word " * 30) for i in range(60)))
    with ledger.scope("build") as account:
        memory = remembered(system, [long])
    assert account.counts["secom.segment:cut_tokens"] > 1000
    assert [len(u.turns) for u in memory.units] == [2, 58]


def test_the_rubric_joins_the_instruction():
    system = secom(rubric="Greetings belong to what follows.")
    remembered(system)
    assert system.tools.chat.calls[0][2].messages[0].content.endswith("what follows.")
    assert secom().tools.prompts.get("baselines.secom", "segment").names == {
        "rubric", "exchanges", "last",
    }  # fmt: skip


def test_config():
    config = check_method_config("secom", SeComBuild, SeComAsk)
    assert config["_target_"] == "baselines.secom.SeCom"
