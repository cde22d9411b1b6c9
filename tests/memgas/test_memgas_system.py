from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest
from doubles import HashEncoder, TableEncoder, tools
from methodconfig import check_method_config, merged, method_config

from memsys.dialogue import Query, Session, SessionNotes, Turn
from memsys.llm import ledger
from memsys.memgas import MemGAS, MemGASAsk, MemGASBuild

WORDS = ["boat", "cello", "Oslo", "bread", "rain", "train", "paper", "river", "stone", "lamp"]


def session(i, turns=5, dated=True):
    random = np.random.default_rng(i)
    texts = [" ".join(random.choice(WORDS, 4)) for _ in range(turns)]
    said = tuple(Turn(f"D{i}:{j}", "AnnBob"[j % 2 * 3 :][:3], t) for j, t in enumerate(texts))
    date = datetime(2023, 5, 1 + i, 13, 56) if dated else None
    return Session(f"session_{i + 1}", said, date)


SESSIONS = [session(i) for i in range(9)]
QUERY = Query("Who plays the cello in Oslo?", datetime(2023, 6, 1, 9, 0))


def script(request, role, prompt):
    text = request.messages[-1].content
    if prompt == "memgas/filter":
        return "kept words"
    if prompt == "protocol/answer":
        return f"answer from: {text}"
    return f"{prompt} {len(text)} {text.split()[-20]}"  # differs from session to session


def memgas(build=None, ask=None, lent=None):
    lent = lent or tools(script)
    return MemGAS(
        MemGASBuild.model_validate(build or {}), MemGASAsk.model_validate(ask or {}), lent
    )


def same(one, other):
    assert one.units == other.units and one.sessions == other.sessions
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


@pytest.mark.parametrize("build", [{}, {"turn_node": "max"}, {"similarity": "cosine"}])
@pytest.mark.parametrize("steps", [[1] * 9, [4, 5], [8, 1]])
async def test_growing_a_memory_equals_building_it_at_once(build, steps) -> None:
    mg = memgas(build)
    grown, start = None, 0
    for step in steps:
        grown = await mg.remember(grown, SESSIONS[start : start + step])
        start += step
    same(grown, await mg.remember(None, SESSIONS))
    assert len(grown.arrays["edges"]) > 0


async def test_memory_is_one_unit_a_session_and_granularity() -> None:
    memory = await memgas().remember(None, SESSIONS[:2])
    assert [unit.id for unit in memory.units] == [
        f"session_{s}-{g}" for s in (1, 2) for g in ("session", "turn", "summary", "keyword")
    ]
    assert memory.units[0].turns == tuple(f"D0:{j}" for j in range(5))
    assert memory.units[5].sessions == ("session_2",)
    assert {memory.arrays[g].shape for g in ("session", "turn", "summary", "keyword")} == {(2, 32)}
    assert memory.arrays["edges"].dtype == np.int32


async def test_turn_vector_is_the_mean_of_the_pairs_not_renormalised() -> None:
    memory = await memgas({"turn_node": "max"}).remember(None, SESSIONS[:1])
    pairs = memory.arrays["pairs"]
    assert memory.arrays["pair_counts"].tolist() == [3]  # (0,1), (2,3), (4)
    np.testing.assert_allclose(memory.arrays["turn"][0], pairs.mean(axis=0), rtol=1e-6)
    assert np.linalg.norm(memory.arrays["turn"][0]) < 0.999


@pytest.mark.parametrize(("calls", "expected"), [(2, 18), (1, 9)])
async def test_calls_follow_the_cost_model(calls, expected) -> None:
    def reply(request, role, prompt):
        merged = '{"summary": "s", "keywords": ["k"]}'
        return merged if prompt == "memgas/metadata" else script(request, role, prompt)

    lent = tools(reply)
    mg = memgas({"metadata_calls": calls}, lent=lent)
    memory = await mg.remember(None, SESSIONS)
    assert len(lent.chat.calls) == expected
    await mg.recall(memory, QUERY)
    assert len(lent.chat.calls) == expected
    await mg.answer(memory, QUERY)
    assert lent.chat.prompts()[expected:] == ["memgas/filter", "protocol/answer"]


async def test_dataset_metadata_costs_no_call() -> None:
    noted = [replace(s, notes=SessionNotes(f"about {s.id}", "boat; cello")) for s in SESSIONS]
    lent = tools(script)
    mg = memgas({"metadata": "dataset"}, lent=lent)
    memory = await mg.remember(None, noted)
    assert not lent.chat.calls
    assert memory.units[2].text == "about session_1" and memory.units[3].text == "boat; cello"
    assert mg.needs("remember") == {"encoder"} and memgas().needs("remember") == {"encoder", "main"}
    assert mg.needs("recall") == {"encoder"} and "main" in mg.needs("answer")


async def test_recall_many_equals_recall_and_leaves_the_memory_alone() -> None:
    mg = memgas()
    memory = await mg.remember(None, SESSIONS)
    before = {name: array.copy() for name, array in memory.arrays.items()}
    queries = [Query(f"{a} {b}?") for a, b in pairwise(WORDS)]
    together = await mg.recall_many(memory, queries)
    for query, recall in zip(queries, together):
        assert await mg.recall(memory, query) == recall
    for name, array in memory.arrays.items():
        np.testing.assert_array_equal(array, before[name])


async def test_ranking_context_and_trace() -> None:
    mg = memgas()
    memory = await mg.remember(None, SESSIONS)
    recall = await mg.recall(memory, QUERY)
    assert sorted(recall.sessions) == sorted(memory.sessions)
    assert [r.unit for r in recall.ranking] == [f"{s}-session" for s in recall.sessions[:3]]
    scores = [r.score for r in recall.ranking]
    assert scores == sorted(scores, reverse=True) and 0 < sum(scores) <= 1
    texts = {s.id: s for s in SESSIONS}
    blocks = recall.context.split("\n\n")
    assert len(blocks) == 3
    for block, name in zip(blocks, recall.sessions):
        assert block.startswith(f"Session Date: {texts[name].date_text}\n[Ann]: ")
    assert sum(recall.trace["weights"].values()) == pytest.approx(1)
    assert 0 < len(recall.trace["seeds"]) <= 15  # negative scores are no seeds
    assert recall.trace["edges"] == len(memory.arrays["edges"])


def plane(tables):
    """Vectors (similarity, 1), whose product with the query (1, 0) is the similarity."""
    names = ("session", "turn", "summary", "keyword")
    return {
        name: np.array([[row[g], 1.0] for row in tables], np.float32)
        for g, name in enumerate(names)
    }


async def example(**ask):
    """The 3-session example of memgas.md §9.3 through the system's own recall."""
    tables = [(0.8, 0.5, 0.6, 0.3), (0.2, 0.5, 0.4, 0.2), (0.2, 0.5, 0.2, 0.1)]
    edges = np.array([(4, 0), (5, 1), (8, 1), (8, 5), (10, 2), (11, 3)], np.int32)
    lent = tools(script, TableEncoder({"q": (1.0, 0.0)}))
    built = await memgas().remember(None, [session(i, dated=False) for i in range(3)])
    memory = replace(built, arrays={**plane(tables), "edges": edges})
    mg = memgas(ask={"alpha": 5, **ask}, lent=lent)
    recall = await mg.recall(memory, Query("q"))
    masses = {r.unit.split("-")[0]: r.score for r in recall.ranking}
    return recall, [masses[f"session_{i}"] for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        ({}, [0.613265, 0.260425, 0.126310]),
        ({"damping": 0.5}, [0.525768, 0.340187, 0.134045]),
        ({"damping": 0.85}, [0.487572, 0.376844, 0.135584]),
        ({"router": {"formula": "one_minus_entropy"}}, [0.618497, 0.247127, 0.134376]),
        ({"router": {"formula": "uniform"}}, [0.613655, 0.192603, 0.193742]),
        ({"propagation": "seeds"}, [0.648768, 0.229311, 0.121921]),
        ({"propagation": "one_hop"}, [0.831650, 0.777955, 0.283006]),
        ({"propagation": "eq5"}, [0.627575, 0.288209, 0.230079]),
    ],
)
async def test_worked_example(ask, expected) -> None:
    recall, masses = await example(**ask)
    assert masses == pytest.approx(expected, abs=1e-6)
    order = sorted(range(3), key=lambda i: -masses[i])
    assert recall.sessions == tuple(f"session_{i + 1}" for i in order)


async def test_worked_example_in_the_trace() -> None:
    recall, _ = await example()
    assert recall.trace["entropies"]["session"] == pytest.approx(0.366594, abs=1e-6)
    assert recall.trace["weights"]["keyword"] == pytest.approx(0.168432, abs=1e-6)
    assert recall.trace["seeds"] == [
        f"session_{i}" for i in ("1-session", "1-summary", "2-session", "2-summary", "3-session")
    ]


async def test_sessions_without_mass_are_ordered_by_equation_5() -> None:
    mg = memgas(ask={"alpha": 1, "propagation": "seeds"})
    memory = await mg.remember(None, SESSIONS)
    eq5 = memgas(ask={"propagation": "eq5"})
    first, *tail = (await mg.recall(memory, QUERY)).sessions
    by_eq5 = (await eq5.recall(memory, QUERY)).sessions
    assert tail == [s for s in by_eq5 if s != first]


async def test_filter_sees_everything_and_its_output_is_the_context() -> None:
    lent = tools(script)
    mg = memgas(lent=lent)
    memory = await mg.remember(None, SESSIONS)
    recall = await mg.recall(memory, QUERY)
    answer = await mg.answer(memory, QUERY)
    _, role, request = next(c for c in lent.chat.calls if c[0] == "memgas/filter")
    shown = request.messages[-1].content
    assert (role, request.max_tokens, request.temperature) == ("main", 4000, 0)
    assert QUERY.text in shown and "1 June 2023, 9:00 am" in shown
    for name in recall.sessions[:3]:
        units = {u.id: u.text for u in memory.units if u.sessions == (name,)}
        assert all(text in shown for text in units.values())
    assert recall.sessions[3] not in shown
    dates = [s.date_text for n in recall.sessions[:3] for s in SESSIONS if s.id == n]
    assert answer.recall.context == f"Session Date: {'; '.join(dates)}\nkept words"
    assert answer.text.startswith(f"answer from: {answer.recall.context}")
    assert answer.trace == {"filtered": "kept words"}
    assert answer.recall.sessions == recall.sessions


async def test_the_official_preset_repeats_the_filters_output() -> None:
    config = method_config("memgas")
    official = config["presets"]["official"]
    build = merged(config["build"], official["build"])
    assert build["association"]["first_linked_session"] == 5
    mg = memgas(build, merged(config["ask"], official["ask"]))
    memory = await mg.remember(None, SESSIONS)
    answer = await mg.answer(memory, QUERY)
    blocks = answer.recall.context.split("\n\n")
    assert len(blocks) == 3 and len(set(blocks)) == 3
    assert all(b.startswith("Session Date: ") and b.endswith("\nkept words") for b in blocks)


@pytest.mark.parametrize("reply", ["", " \n "])
async def test_an_empty_filter_reply_leaves_the_context(reply) -> None:
    lent = tools(lambda r, role, p: reply if p == "memgas/filter" else script(r, role, p))
    mg = memgas(lent=lent)
    memory = await mg.remember(None, SESSIONS)
    with ledger.scope("question") as account:
        answer = await mg.answer(memory, QUERY)
    assert answer.recall == await mg.recall(memory, QUERY)
    assert account.counts == {"memgas.filter:fallback": 1}
    assert lent.chat.prompts().count("memgas/filter") == 1


async def test_filter_off_is_one_call_on_the_unfiltered_context() -> None:
    lent = tools(script)
    mg = memgas(ask={"filter": {"enabled": False}}, lent=lent)
    memory = await mg.remember(None, SESSIONS)
    answer = await mg.answer(memory, QUERY)
    assert lent.chat.prompts().count("memgas/filter") == 0
    assert answer.recall == await mg.recall(memory, QUERY)


async def test_a_small_window_cuts_the_memories_not_the_question() -> None:
    lent = tools(script)
    mg = memgas(ask={"filter": {"max_tokens": 40}}, lent=lent)
    memory = await mg.remember(None, [session(i, turns=60) for i in range(4)])
    lent.chat.window = 300
    with ledger.scope("question") as account:
        await mg.answer(memory, QUERY)
    _, _, request = next(c for c in lent.chat.calls if c[0] == "memgas/filter")
    assert lent.chat.message_tokens(request.messages) <= 260
    assert QUERY.text in request.messages[-1].content
    assert account.counts["memgas.filter:cut_tokens"] > 0


async def test_without_dates_there_is_no_date_line() -> None:
    mg = memgas()
    memory = await mg.remember(None, [session(i, dated=False) for i in range(4)])
    query = Query("Who plays the cello?")
    assert "Session Date" not in (await mg.recall(memory, query)).context
    answer = await mg.answer(memory, query)
    assert answer.recall.context == "kept words"


@pytest.mark.parametrize("sessions", [
    [session(0)],
    [session(0, turns=0)],
    [session(0, turns=0), session(1), session(2, turns=1)],
    [session(i, turns=1) for i in range(2)],
])  # fmt: skip
@pytest.mark.parametrize("formula", ["inverse_entropy", "one_minus_entropy", "uniform"])
async def test_tiny_memories(sessions, formula) -> None:
    mg = memgas({"turn_node": "max"}, {"router": {"formula": formula}})
    memory = await mg.remember(None, sessions)
    recall = await mg.recall(memory, QUERY)
    assert sorted(recall.sessions) == sorted(s.id for s in sessions)
    assert all(np.isfinite(r.score) for r in recall.ranking)
    assert (await mg.answer(memory, QUERY)).text


async def test_an_empty_memory_recalls_nothing() -> None:
    lent = tools(script)
    mg = memgas(lent=lent)
    memory = await mg.remember(None, [])
    recall = await mg.recall(memory, QUERY)
    assert (recall.ranking, recall.context, recall.sessions) == ((), "", ())
    await mg.answer(memory, QUERY)
    assert lent.chat.prompts() == ["protocol/answer"]  # nothing to filter
    grown = await mg.remember(memory, SESSIONS[:1])
    same(await mg.remember(grown, []), grown)


async def test_everything_is_embedded_with_one_call() -> None:
    class Counting(HashEncoder):
        calls = 0

        async def encode(self, texts, *, kind="passage"):
            self.calls += 1
            return await super().encode(texts, kind=kind)

    encoder = Counting()
    mg = memgas(lent=tools(script, encoder))
    memory = await mg.remember(None, SESSIONS)
    assert encoder.calls == 1 and len(encoder.texts) == 9 * (3 + 3)  # 3 pairs of 5 turns
    await mg.recall_many(memory, [QUERY] * 50)
    assert encoder.calls == 2


ABLATIONS = {  # ablations-memgas.md §3: the one thing each row changes
    "w/o GMM": ({"association": {"edge_rule": "top1"}}, {}),
    "w/o PPR": ({}, {"propagation": "one_hop"}),
    "w/o association": ({"association": {"enabled": False}}, {}),
    "w/o router": ({}, {"router": {"formula": "uniform"}}),
    "w/o filter": ({}, {"filter": {"enabled": False}}),
}


@pytest.mark.parametrize("row", ABLATIONS)
async def test_ablations_differ_in_the_named_component_only(row) -> None:
    build, ask = ABLATIONS[row]
    mg, full = memgas(build, ask), memgas()
    flat, flat_full = _flat(mg), _flat(full)
    assert len({key for key in flat if flat[key] != flat_full[key]}) == 1
    answer = await mg.answer(await mg.remember(None, SESSIONS), QUERY)
    full_answer = await full.answer(await full.remember(None, SESSIONS), QUERY)
    trace, full_trace = answer.recall.trace, full_answer.recall.trace
    expected = {
        "w/o GMM": {"edges"},
        "w/o association": {"edges"},
        "w/o PPR": {"propagation"},
        "w/o router": {"weights", "seeds"},
        "w/o filter": set(),
    }[row]
    differing = {key for key in trace if trace[key] != full_trace[key]}
    assert differing <= expected and (expected - {"seeds"}) <= differing
    assert ("filtered" in answer.trace) == (row != "w/o filter")
    if row == "w/o association":
        assert trace["edges"] == 0
    if row == "w/o GMM":
        assert trace["edges"] == 4 * 8


async def test_no_edges_and_seeds_only_are_the_same_ranking() -> None:
    off, seeds = memgas({"association": {"enabled": False}}), memgas(ask={"propagation": "seeds"})
    one = await off.recall(await off.remember(None, SESSIONS), QUERY)
    other = await seeds.recall(await seeds.remember(None, SESSIONS), QUERY)
    assert one.sessions == other.sessions


async def test_max_pooling_scores_a_session_by_its_best_pair() -> None:
    mean, best = memgas(), memgas({"turn_node": "max"})
    memory = await best.remember(None, SESSIONS)
    vector = await best.tools.encoder.encode([QUERY.text])
    sims, plain = best._similarities(memory, vector)[0], mean._similarities(memory, vector)[0]
    assert (sims[:, 1] >= plain[:, 1]).all()
    np.testing.assert_array_equal(sims[:, [0, 2, 3]], plain[:, [0, 2, 3]])


def test_configs() -> None:
    check_method_config("memgas", MemGASBuild, MemGASAsk)
    eq5, full = method_config("eq5"), method_config("memgas")
    assert eq5["build"] == full["build"]  # one memory for both
    assert eq5["ask"] == {**full["ask"], "propagation": "eq5"}
    with pytest.raises(ValueError, match="lambda"):
        MemGASAsk.model_validate({"lambda": 0})
    assert MemGASAsk.model_validate({"lambda": 0.5}).plain()["lambda"] == 0.5


def _flat(system):
    flat = {}

    def walk(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}", inner)
        else:
            flat[prefix] = value

    walk("build", system.build.plain())
    walk("ask", system.ask.plain())
    return flat
