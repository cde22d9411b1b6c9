"""Every ablation row lacks exactly the component that it names: in its settings and its traces."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import mgretrieval_case as case
import numpy as np
import pytest
from doubles import ScriptedChat, tools
from tableruns import all_rows, values_of

from eval.typed import resolve
from memsys.dialogue import Query, Session, Turn
from memsys.memgas import propagation
from memsys.system import Answer, Memory

MEMGAS = {
    "w/o Gaussian Mixture Model": {"build.association.edge_rule": ("gmm", "top1")},
    "w/o Personalized PageRank": {"ask.propagation": ("ppr", "one_hop")},
    "w/o Memory Association": {"build.association.enabled": (True, False)},
    "w/o Soft Router": {"ask.router.formula": ("inverse_entropy", "uniform")},
    "w/o Filtering": {"ask.filter.enabled": (True, False)},
}
MGRETRIEVAL = {
    "Round 1 (full)": {"ask.max_rounds": (4, 1)},
    "Round 2 (full)": {"ask.max_rounds": (4, 2)},
    "Round 3 (full)": {"ask.max_rounds": (4, 3)},
    "w/o RMR": {"ask.rmr": (True, False)},
    "w/o R": {"ask.rewrite": (True, False)},
    "Round 1 (w/o R)": {"ask.max_rounds": (4, 1), "ask.rewrite": (True, False)},
    # these rows read a part of the whole run's log
    "Round 1 (current)": {},
    "Round 2 (current)": {},
    "Round 3 (current)": {},
    "Round 4 (current)": {},
}
FULL = {"ablation-memgas": "MemGAS", "ablation-mgretrieval": "Round 4 (full) = MGRetrieval"}


def composed(table: str, profile: str = "embedded") -> dict[str, dict[str, Any]]:
    """The values of a table's rows, by label, on its last block."""
    rows = [row for row in all_rows() if (row.table, row.profile) == (table, profile)]
    return {row.row.label: values_of(row.overrides) for row in rows}


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {prefix[:-1]: values}
    return {
        k: v for key, inner in values.items() for k, v in flat(inner, f"{prefix}{key}.").items()
    }


@pytest.mark.parametrize("profile", ["embedded", "paper", "local"])
@pytest.mark.parametrize(
    ("table", "wanted"), [("ablation-memgas", MEMGAS), ("ablation-mgretrieval", MGRETRIEVAL)]
)
def test_settings_differ_in_the_named_component_alone(table, wanted, profile) -> None:
    rows = composed(table, profile)
    whole = flat(rows.pop(FULL[table]))
    rows.pop("w/o All", None)
    assert rows.keys() == wanted.keys()
    for label, values in rows.items():
        row = flat(values)
        assert row.keys() == whole.keys()
        apart = {key: (whole[key], row[key]) for key in row if row[key] != whole[key]}
        assert apart == {f"method.{key}": pair for key, pair in wanted[label].items()}, label


def test_without_all_is_the_session_row_of_the_other_tables() -> None:
    values = composed("ablation-memgas")["w/o All"]
    assert values["method"] == composed("memgas-3")["Session-level"]["method"]
    assert values["method"]["ask"]["filter"]["enabled"] is False


def test_a_current_row_keeps_the_questions_that_stopped_content_in_its_round() -> None:
    rows = {row.row.label: row.row for row in all_rows() if row.table == "ablation-mgretrieval"}
    for r in range(1, 5):
        assert rows[f"Round {r} (current)"].where == {"rounds": r, "trace.stop": "sufficient"}
    assert all(not row.where for label, row in rows.items() if "current" not in label)


# ---------------------------------------------------------------- MemGAS, on its traces

WORDS = ["boat", "cello", "Oslo", "bread", "rain", "train", "paper", "river", "stone", "lamp"]
QUERY = Query("Who plays the cello in Oslo?", datetime(2023, 6, 1, 9, 0))


def session(i: int) -> Session:
    random = np.random.default_rng(i)
    said = [" ".join(random.choice(WORDS, 4)) for _ in range(5)]
    turns = tuple(Turn(f"D{i}:{j}", ("Ann", "Bob")[j % 2], text) for j, text in enumerate(said))
    return Session(f"session_{i + 1}", turns, datetime(2023, 5, 1 + i, 13, 56))


def reply(request: Any, role: str, prompt: str) -> str:
    text = request.messages[-1].content
    return "kept words" if prompt == "memgas/filter" else f"{prompt} {text.split()[-20:]}"


class Seen:
    """One row on nine sessions: its memory, its answer and its calls while asking."""

    memory: Memory
    answer: Answer
    calls: list[str]
    walks: int

    @classmethod
    async def of(cls, method: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Seen:
        seen, walks = cls(), []
        walk = propagation.personalized_pagerank

        def counted(*arguments: Any) -> Any:
            walks.append(1)
            return walk(*arguments)

        lent = tools(reply)
        assert isinstance(lent.chat, ScriptedChat)
        method = {**method, "build": {**method["build"], "metadata": "llm"}}
        system = resolve(method, "method", ("tools",)).make(tools=lent)
        seen.memory = await system.remember(None, [session(i) for i in range(9)])
        built = len(lent.chat.calls)
        with monkeypatch.context() as patch:
            patch.setattr(propagation, "personalized_pagerank", counted)
            seen.answer = await system.answer(seen.memory, QUERY)
        seen.calls = lent.chat.prompts()[built:]
        seen.walks = len(walks)
        return seen

    @property
    def trace(self) -> dict[str, Any]:
        return dict(self.answer.recall.trace)

    @property
    def edges(self) -> set[tuple[int, int]]:
        return {(int(a), int(b)) for a, b in self.memory.arrays["edges"]}


@pytest.fixture
async def memgas(monkeypatch) -> dict[str, Seen]:
    rows = composed("ablation-memgas")
    return {label: await Seen.of(v["method"], monkeypatch) for label, v in rows.items()}


def changed(one: Seen, other: Seen) -> set[str]:
    assert one.trace.keys() == other.trace.keys()
    return {key for key in one.trace if one.trace[key] != other.trace[key]}


async def test_memgas_traces_show_what_each_row_lacks(memgas: dict[str, Seen]) -> None:
    whole = memgas["MemGAS"]
    asked = ["memgas/filter", "protocol/answer"]
    assert whole.calls == asked and whole.walks == 1
    assert len(whole.edges) == whole.trace["edges"] > 0
    assert len(set(whole.trace["weights"].values())) == 4

    mixture = memgas["w/o Gaussian Mixture Model"]
    assert changed(mixture, whole) == {"edges"}
    linked = [max(pair) for pair in mixture.edges]
    assert sorted(linked) == list(range(4, 36)), "each node but the first session's has one edge"
    assert mixture.calls == asked and mixture.walks == 1

    walk = memgas["w/o Personalized PageRank"]
    assert changed(walk, whole) == {"propagation"}
    assert walk.walks == 0 and walk.trace["propagation"] == "one_hop"
    assert walk.edges == whole.edges and walk.calls == asked
    assert [r.score for r in walk.answer.recall.ranking] != [
        r.score for r in whole.answer.recall.ranking
    ]

    association = memgas["w/o Memory Association"]
    assert changed(association, whole) == {"edges"}
    assert association.edges == set() and association.walks == 1 and association.calls == asked

    router = memgas["w/o Soft Router"]
    assert changed(router, whole) <= {"weights", "seeds"}
    assert set(router.trace["weights"].values()) == {0.25}
    assert router.edges == whole.edges and router.walks == 1 and router.calls == asked

    unfiltered = memgas["w/o Filtering"]
    assert unfiltered.calls == ["protocol/answer"]
    assert changed(unfiltered, whole) == set() and unfiltered.walks == 1
    assert unfiltered.answer.recall.ranking == whole.answer.recall.ranking
    assert "kept words" in whole.answer.recall.context
    assert "kept words" not in unfiltered.answer.recall.context

    nothing = memgas["w/o All"]
    assert nothing.calls == ["protocol/answer"] and nothing.walks == 0
    assert nothing.trace == {} and "edges" not in nothing.memory.arrays


# ---------------------------------------------------------------- MGRetrieval, on its traces


async def asked(method: dict[str, Any], verdicts: tuple[bool, ...]) -> tuple[Answer, list[str]]:
    """Ask the worked example of thirteen memories, one round for each verdict."""
    lent = tools(case.script(verdicts))
    assert isinstance(lent.chat, ScriptedChat)
    method = {**method, "build": {**method["build"], "memory_unit": "turn"}}
    system = resolve(method, "method", ("tools",)).make(tools=lent)
    memory = await system.remember(None, case.sessions())
    built = len(lent.chat.calls)
    answer = await system.answer(memory, case.QUERY)
    return answer, lent.chat.prompts()[built:]


def rounds(answer: Answer) -> list[dict[str, Any]]:
    return [dict(r) for r in answer.trace["rounds"]]


async def test_mgretrieval_traces_show_what_each_row_lacks() -> None:
    rows = composed("ablation-mgretrieval")
    never = (False,) * 5
    select, round_, rewrite = (f"mgretrieval/{n}" for n in ("select", "round", "rewrite_locomo"))
    whole, calls = await asked(rows[FULL["ablation-mgretrieval"]]["method"], never)
    assert calls == [select, *[round_] * 4, rewrite]
    assert [r["new_count"] for r in rounds(whole)] == [3, 6, 1, 1]
    assert whole.trace["rewritten"] is True

    for r in (1, 2, 3):
        answer, calls = await asked(rows[f"Round {r} (full)"]["method"], never)
        assert calls == [select, *[round_] * r, rewrite]
        assert rounds(answer) == rounds(whole)[:r], "rounds are prefixes of one another"
        assert answer.trace["stop"] == "max_rounds"

    answer, calls = await asked(rows["w/o RMR"]["method"], never)
    assert calls == [select, *[round_] * 4, rewrite]
    assert [r["shown"] for r in rounds(whole)] == [3, 6, 1, 1]
    assert [r["shown"] for r in rounds(answer)] == [3, 9, 10, 11], "all that was retrieved so far"
    assert [r["new"] for r in rounds(answer)] == [r["new"] for r in rounds(whole)]

    answer, calls = await asked(rows["w/o R"]["method"], never)
    assert calls == [select, *[round_] * 4]
    assert rounds(answer) == rounds(whole)
    assert answer.text == whole.trace["draft"] != whole.text

    answer, calls = await asked(rows["Round 1 (w/o R)"]["method"], never)
    assert calls == [select, round_]
    assert rounds(answer) == rounds(whole)[:1]


async def test_a_current_row_counts_a_question_in_the_round_that_sufficed() -> None:
    rows = composed("ablation-mgretrieval")
    for r in (1, 2, 3, 4):
        method = rows[f"Round {r} (current)"]["method"]
        assert json.dumps(method) == json.dumps(rows[FULL["ablation-mgretrieval"]]["method"])
        answer, _ = await asked(method, (*[False] * (r - 1), True))
        assert (answer.rounds, answer.trace["stop"]) == (r, "sufficient")
