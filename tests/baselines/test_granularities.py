from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from methodconfig import check_method_config, method_config

from baselines.granularities import Granularity, GranularityAsk, GranularityBuild
from memsys.dialogue import Query, Session, SessionNotes, Turn
from memsys.errors import UserError
from memsys.llm import ledger
from memsys.memgas import MemGAS, MemGASAsk, MemGASBuild

KINDS = ("session", "turn", "summary", "keyword", "combination")
QUERY = Query("q", datetime(2023, 6, 1, 9, 0))


def said(i, *texts):
    turns = tuple(Turn(f"D{i}:{j}", ("Ann", "Bob")[j % 2], t) for j, t in enumerate(texts))
    return Session(f"s{i}", turns, datetime(2023, 5, 1 + i, 13, 56))


SESSIONS = [
    said(0, "boats", "oslo", "cello"),
    said(1, "bread", "rain"),
    said(2, "train"),
    said(3, "tea", "salt", "tea", "stone", "lamp"),
]


def script(request, role, prompt):
    text = request.messages[-1].content.split("\n")[2]
    return {
        "memgas/summary": f"About {text}",
        "memgas/keywords": f"{text}; key",
        "memgas/filter": "kept",
        "protocol/answer": "answer",
    }[prompt]


def row(kind, lent=None, build=None, **ask):
    return Granularity(
        GranularityBuild(granularity=kind, **(build or {})),
        GranularityAsk.model_validate(ask),
        lent or tools(script),
    )


# granularities.md §9
PAIRS = {"a": (1.0, 0.0), "b": (0.0, 1.0), "c": (0.6, 0.8), "d": (0.6, 0.8)}
PLANE = [said(0, "a1", "a2", "b1", "b2"), said(1, "c1", "c2", "d1", "d2")]


def plane():
    table = {"q": (1.0, 0.0)}
    for name, vector in PAIRS.items():
        table[f"[Ann]: {name}1\n[Bob]: {name}2"] = vector
    for session, vector in zip(PLANE, [(0.8, 0.6), (0.6, 0.8)]):
        names = sorted({turn.text[0] for turn in session.turns})
        table["\n".join(f"[Ann]: {n}1\n[Bob]: {n}2" for n in names)] = vector
    return tools(script, TableEncoder(table))


@pytest.mark.parametrize(
    ("kind", "ask", "order", "scores"),
    [
        ("session", {}, ("s0", "s1"), [0.8, 0.6]),
        ("turn", {}, ("s1", "s0"), [0.6, 0.5]),
        ("turn", {"turn": {"score": "max"}}, ("s0", "s1"), [1.0, 0.6]),
        ("turn", {"similarity": "cosine"}, ("s0", "s1"), [0.707107, 0.6]),
        ("turn", {"turn": {"unit": "pair"}}, ("s0", "s1"), [1.0, 0.6, 0.6]),
    ],
)
async def test_worked_example(kind, ask, order, scores) -> None:
    dense = row(kind, plane(), **ask)
    recall = await dense.recall(await dense.remember(None, PLANE), QUERY)
    assert recall.sessions == order
    assert [r.score for r in recall.ranking] == pytest.approx(scores, abs=1e-6)


async def test_similarity_is_honoured() -> None:  # dense.md §9
    sessions = [said(0, "a"), said(1, "b")]
    table = {"[Ann]: a": (2.0, 0.0), "[Ann]: b": (0.9, 0.9), "q": (1.0, 0.8)}
    lent = tools(script, TableEncoder(table))
    for similarity, order in (("dot", ("s0", "s1")), ("cosine", ("s1", "s0"))):
        dense = row("session", lent, similarity=similarity)
        memory = await dense.remember(None, sessions)
        assert (await dense.recall(memory, QUERY)).sessions == order


async def test_ties_go_to_the_earlier_session() -> None:
    sessions = [said(i, "same words") for i in range(4)]
    for kind in ("session", "turn"):
        dense = row(kind)
        memory = await dense.remember(None, sessions)
        assert (await dense.recall(memory, QUERY)).sessions == ("s0", "s1", "s2", "s3")


async def test_what_each_row_embeds() -> None:
    x = "[Ann]: bread\n[Bob]: rain"
    expected = {
        "session": [x],
        "turn": [x],
        "summary": ["About [Ann]: bread"],
        "keyword": ["[Ann]: bread; key"],
        "combination": [f"About [Ann]: bread [Ann]: bread; key {x}"],
    }
    for kind, texts in expected.items():
        encoder = HashEncoder()
        await row(kind, tools(script, encoder)).remember(None, [SESSIONS[1]])
        assert encoder.texts == texts
    encoder = HashEncoder()
    await row("turn", tools(script, encoder)).remember(None, [SESSIONS[3]])
    assert encoder.texts == ["[Ann]: tea\n[Bob]: salt", "[Ann]: tea\n[Bob]: stone", "[Ann]: lamp"]


async def test_the_combination_text_of_the_spec() -> None:
    noted = replace(said(0, "x"), notes=SessionNotes("S", "a; b"))
    memory = await row("combination", build={"metadata": "dataset"}).remember(None, [noted])
    assert memory.units[0].text == "S a; b [Ann]: x"


@pytest.mark.parametrize(
    ("kind", "calls", "expected"),
    [
        ("session", 2, 0), ("turn", 2, 0), ("summary", 2, 4), ("keyword", 2, 4),
        ("combination", 2, 8), ("combination", 1, 4), ("summary", 1, 4),
    ],
)  # fmt: skip
async def test_calls_follow_the_cost_model(kind, calls, expected) -> None:
    def reply(request, role, prompt):
        merged = '{"summary": "s", "keywords": ["k"]}'
        return merged if prompt == "memgas/metadata" else script(request, role, prompt)

    lent = tools(reply)
    dense = row(kind, lent, {"metadata_calls": calls})
    memory = await dense.remember(None, SESSIONS)
    assert len(lent.chat.calls) == expected
    assert ("main" in dense.needs("remember")) == (expected > 0)
    assert dense.needs("recall") == {"encoder"} and "main" in dense.needs("answer")
    await dense.answer(memory, QUERY)
    assert lent.chat.prompts()[expected:] == ["protocol/answer"]


async def test_metadata_is_shared_with_memgas() -> None:
    """The same requests, so that the reply store pays for them once."""
    ours, theirs = tools(script), tools(script)
    await row("combination", ours).remember(None, SESSIONS)
    await MemGAS(MemGASBuild(), MemGASAsk(), theirs).remember(None, SESSIONS)
    assert sorted(map(repr, ours.chat.calls)) == sorted(map(repr, theirs.chat.calls))


@pytest.mark.parametrize(
    ("kind", "ask", "content"),
    [
        ("session", {}, "[Ann]: bread\n[Bob]: rain"),
        ("turn", {}, "[Ann]: bread\n[Bob]: rain"),
        ("summary", {}, "About [Ann]: bread"),
        ("summary", {"show": "session"}, "[Ann]: bread\n[Bob]: rain"),
        ("keyword", {}, "[Ann]: bread; key"),
        ("combination", {}, "[Ann]: bread\n[Bob]: rain"),
        (
            "combination",
            {"show": "all"},
            "About [Ann]: bread\n[Ann]: bread; key\n[Ann]: bread\n[Bob]: rain",
        ),
    ],
)
async def test_what_each_row_shows(kind, ask, content) -> None:
    dense = row(kind, **ask)
    memory = await dense.remember(None, [SESSIONS[1]])
    recall = await dense.recall(memory, QUERY)
    assert recall.context == f"Session Date: 2 May 2023, 1:56 pm\n{content}"
    assert [r.unit for r in recall.ranking] == [f"s1-{kind}"]


async def test_show_pair_reads_the_best_pair_of_each_top_session() -> None:
    dense = row("turn", plane(), show="pair", turn={"score": "max"})
    recall = await dense.recall(await dense.remember(None, PLANE), QUERY)
    assert [r.unit for r in recall.ranking] == ["s0-turn_0", "s1-turn_0"]
    assert recall.context.split("\n\n")[0] == (
        "Session Date: 1 May 2023, 1:56 pm\n[Ann]: a1\n[Bob]: a2"
    )
    by_pair = row("turn", plane(), turn={"unit": "pair"}, top_k=3)
    recall = await by_pair.recall(await by_pair.remember(None, PLANE), QUERY)
    assert [r.unit for r in recall.ranking] == ["s0-turn_0", "s1-turn_0", "s1-turn_1"]


@pytest.mark.parametrize(
    ("kind", "show"), [("session", "summary"), ("turn", "all"), ("keyword", "pair")]
)
def test_a_row_cannot_show_what_it_lacks(kind, show) -> None:
    with pytest.raises(UserError, match=f"'{kind}' cannot show '{show}'"):
        row(kind, show=show)


async def test_the_filter_is_a_switch_of_any_row() -> None:
    lent = tools(script)
    dense = row("combination", lent, filter={"enabled": True})
    memory = await dense.remember(None, SESSIONS)
    with ledger.scope("question") as account:
        answer = await dense.answer(memory, QUERY)
    assert [c.prompt.split("@")[0] for c in account.calls] == ["memgas/filter", "protocol/answer"]
    assert answer.recall.context.endswith("\nkept")
    shown = next(r for p, _, r in lent.chat.calls if p == "memgas/filter").messages[-1].content
    assert "Summary: About" in shown and "Keywords: " in shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ask", [{}, {"turn": {"score": "max"}}, {"turn": {"unit": "pair"}}])
async def test_growth_batches_and_tiny_memories(kind, ask) -> None:
    dense = row(kind, **ask)
    sessions = [*SESSIONS, said(4)]  # the last one has no turns
    at_once = await dense.remember(None, sessions)
    grown = await dense.remember(None, [])
    for session in sessions:
        grown = await dense.remember(grown, [session])
    assert grown.units == at_once.units and grown.sessions == at_once.sessions
    for name in ("pieces", "counts"):
        np.testing.assert_array_equal(grown.arrays[name], at_once.arrays[name])
    queries = [Query(t) for t in ("boats", "tea", "lamp stone", "Bob")]
    together = await dense.recall_many(at_once, queries)
    for query, recall in zip(queries, together):
        assert await dense.recall(grown, query) == recall
        assert sorted(recall.sessions) == ["s0", "s1", "s2", "s3", "s4"]
    empty = await dense.recall(await dense.remember(None, []), QUERY)
    assert (empty.ranking, empty.context, empty.sessions) == ((), "", ())
    alone = await dense.remember(None, [said(0)])
    assert (await dense.recall(alone, QUERY)).sessions == ("s0",)


async def test_user_turns_only() -> None:
    turns = (Turn("1", "user", "tea", role="user"), Turn("2", "bot", "salt", role="assistant"))
    encoder = HashEncoder()
    dense = row("session", tools(script, encoder), {"roles": "user"})
    memory = await dense.remember(None, [Session("s", turns)])
    assert encoder.texts == ["[user]: tea"]
    recall = await dense.recall(memory, QUERY)
    assert recall.context == "[user]: tea\n[bot]: salt"  # what is shown is the whole session


async def test_windows_over_long_sessions() -> None:
    long = said(0, " ".join(f"w{i}" for i in range(20)))
    for mode, pooled in (("chunk_mean", np.mean), ("chunk_max", np.max)):
        encoder = HashEncoder()
        dense = row("session", tools(script, encoder), {"long_text": mode, "chunk_tokens": 8})
        memory = await dense.remember(None, [long, said(1, "tea")])
        assert memory.arrays["counts"].tolist() == [3, 1]
        assert encoder.texts[:3] == [
            "[Ann]: w0 w1 w2 w3 w4 w5 w6",
            "w7 w8 w9 w10 w11 w12 w13 w14",
            "w15 w16 w17 w18 w19",
        ]
        query = (await encoder.encode(["q"]))[0]
        recall = await dense.recall(memory, QUERY)
        by_piece = memory.arrays["pieces"][:3] @ query
        scores = {r.unit: r.score for r in recall.ranking}
        assert scores["s0-session"] == pytest.approx(float(pooled(by_piece)), abs=1e-6)


def test_configs() -> None:
    for name in ("session", "dense"):
        check_method_config(name, GranularityBuild, GranularityAsk)
    for kind in KINDS:
        config = method_config(kind)
        assert config["build"] == GranularityBuild(granularity=kind).plain()
        assert config["ask"] == GranularityAsk().plain()
    best = method_config("turn_max")
    assert best["build"] == method_config("turn")["build"]  # one memory for both
    assert best["ask"] == GranularityAsk.model_validate({"turn": {"score": "max"}}).plain()
