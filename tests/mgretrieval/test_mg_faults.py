"""Whatever the models say: no crash, and no memory is lost."""

from __future__ import annotations

import json

from doubles import tools
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mgretrieval_case import QUERY, sessions, system

from memsys.mgretrieval.index import KeywordIndex

words = st.sampled_from(["James", "book", "adventure", "ＢＯＯＫ", "", " ", "书", "a" * 90, "a,b"])
value = st.one_of(st.none(), st.booleans(), st.integers(), words, st.lists(words, max_size=4))
near_misses = st.builds(
    json.dumps,
    st.one_of(
        st.fixed_dictionaries({"keywords": value}),
        st.fixed_dictionaries({"answer": value, "critical_memories": value, "sufficient": value}),
        st.fixed_dictionaries(
            {"matches": st.lists(st.fixed_dictionaries({"keyword": value, "canonical": value}))}
        ),
        st.dictionaries(words, value),
    ),
)
broken = st.builds(lambda text, cut: text[:cut], near_misses, st.integers(0, 60))
fenced = st.builds(lambda text: f"Sure!\n```json\n{text}\n```", near_misses)
prose = st.sampled_from(["I cannot do that.", "书，冒险。", "{", "}", "[[", "null", "```", "\x00"])
reply = st.one_of(near_misses, broken, fenced, prose, st.text(max_size=40))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    replies=st.lists(reply, min_size=1, max_size=12),
    unit=st.sampled_from(["turn", "exchange"]),
    budget=st.integers(0, 6),
    skip_empty=st.booleans(),
    rmr=st.booleans(),
)
async def test_random_replies(replies, unit, budget, skip_empty, rmr) -> None:
    turn = iter(range(10**9))
    lent = tools(lambda *_: replies[next(turn) % len(replies)])
    mg = system(
        lent, memory_unit=unit, vocab_prompt_tokens=budget, skip_empty=skip_empty, rmr=rmr,
        max_rounds=3,
    )  # fmt: skip
    memory = await mg.remember(None, sessions())
    texts = [unit.text for unit in memory.units]
    for session in sessions():
        for spoken in session.turns:
            assert sum(spoken.text in text for text in texts) == 1
    index = KeywordIndex(json.loads(json.dumps(memory.state)))
    for place, stored in enumerate(memory.units):
        assert stored.fields["keywords"]
        for keyword in stored.fields["keywords"]:
            assert place in index.items(keyword)
    answer = await mg.answer(memory, QUERY)
    assert isinstance(answer.text, str)
    ranked = [r.unit for r in answer.recall.ranking]
    assert sorted(ranked) == sorted(stored.id for stored in memory.units)
    assert set(answer.recall.sessions or ()) == set(memory.sessions)
    assert 1 <= answer.rounds <= 3
    trace = {**answer.recall.trace, **answer.trace}
    assert len(trace["query_keywords"]) <= 4
    assert set(trace["query_keywords"]) <= set(index.vocabulary)
    json.dumps(trace)
