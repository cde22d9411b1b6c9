import json
from datetime import datetime

import pytest
from doubles import PlainAnswerer, ScriptedChat, tools
from hypothesis import given
from hypothesis import strategies as st
from methodconfig import check_method_config, merged, method_config

from baselines.full import FullHistory, FullHistoryAsk, FullHistoryBuild
from baselines.full.history import block, latest, stored
from memsys.dialogue import Query, Session, Turn
from memsys.errors import ContextOverflow
from memsys.llm import ledger
from memsys.llm.prompts import Prompts
from memsys.system import Tools

QUERY = Query("What now?")


def words(name: str, n: int) -> str:
    return " ".join(f"{name}{i}" for i in range(n))


def count(text: str) -> int:
    return len(text.split())


def keep_end(text: str, tokens: int) -> str:
    return " ".join(text.split()[-tokens:]) if tokens else ""


HISTORY = [words("a", 40), words("b", 50), words("c", 30), words("d", 60)]


@pytest.mark.parametrize(
    ("budget", "kept", "tokens"),
    [(180, 4, 180), (100, 2, 90), (95, 2, 90), (90, 2, 90), (89, 1, 60)],
)
def test_worked_example(budget: int, kept: int, tokens: int) -> None:
    window = latest(HISTORY, budget, count, keep_end)
    assert (window.first, window.tokens, window.cut) == (4 - kept, tokens, False)
    assert window.text == "\n\n".join(HISTORY[4 - kept :])  # oldest to newest


def test_a_newest_session_that_is_too_long_keeps_its_end() -> None:
    window = latest(HISTORY, 59, count, keep_end)
    assert (window.first, window.tokens, window.cut) == (3, 59, True)
    assert window.text.split() == HISTORY[3].split()[-59:]
    assert latest(HISTORY, -5, count, keep_end).text == ""


def test_a_fifth_session() -> None:
    window = latest([*HISTORY, words("e", 10)], 100, count, keep_end)
    assert (window.first, window.tokens) == (2, 100)


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(0, 200))
def test_the_longest_suffix_that_fits(sizes: list[int], budget: int) -> None:
    blocks = [words(f"s{i}x", n) for i, n in enumerate(sizes)]
    window = latest(blocks, budget, count, keep_end)
    assert window.tokens <= budget
    assert window.tokens == count(window.text)
    if not window.cut:
        assert window.tokens == sum(sizes[window.first :])
        if window.first:
            assert window.tokens + sizes[window.first - 1] > budget


SESSIONS = [
    Session("s1", (Turn("1", "Ann", "Look!", caption="a kite"), Turn("2", "Ben", "Oh.")),
            datetime(2023, 5, 8, 13, 56)),
    Session("empty", ()),
    Session("s3", (Turn("3", "Ann", "Ça va?"),)),
]  # fmt: skip


def test_renderings() -> None:
    fields = stored(SESSIONS[0])
    assert json.loads(json.dumps(fields)) == fields
    assert block("s1", fields, "text") == (
        "[8 May 2023, 1:56 pm]\nAnn: Look! [image: a kite]\nBen: Oh."
    )
    assert block("s1", fields, "stamped") == (
        "[8 May 2023, 1:56 pm] Ann: Look! [image: a kite]\n[8 May 2023, 1:56 pm] Ben: Oh."
    )
    assert json.loads(block("s1", fields, "json")) == {
        "session": "s1",
        "date": "8 May 2023, 1:56 pm",
        "turns": [
            {"id": "1", "speaker": "Ann", "text": "Look!", "caption": "a kite"},
            {"id": "2", "speaker": "Ben", "text": "Oh."},
        ],
    }
    undated = stored(SESSIONS[2])
    assert block("s3", undated, "text") == block("s3", undated, "stamped") == "Ann: Ça va?"
    assert "Ça" in block("s3", undated, "json")


def full(lent: Tools, **ask) -> FullHistory:
    return FullHistory(FullHistoryBuild(), FullHistoryAsk(**{"window": None, **ask}), lent)


async def test_the_memory_is_the_conversation() -> None:
    lent = tools()
    at_once = await full(lent).remember(None, SESSIONS)
    memory = None
    for session in SESSIONS:
        memory = await full(lent).remember(memory, [session])
    assert memory == at_once
    assert memory.sessions == ("s1", "empty", "s3")
    assert [(unit.id, unit.turns) for unit in memory.units] == [("s1", ("1", "2")), ("s3", ("3",))]
    assert lent.chat.calls == []


async def test_the_whole_history_before_the_question_in_one_call() -> None:
    lent = tools(lambda *_: "It flew.")
    memory = await full(lent).remember(None, SESSIONS)
    answer = await full(lent).answer(memory, QUERY)
    assert answer.text == "It flew." and len(lent.chat.calls) == 1
    assert answer.recall.context.startswith("[8 May 2023, 1:56 pm]\nAnn: Look!")
    assert answer.recall.context.endswith("Ben: Oh.\n\nAnn: Ça va?")
    assert answer.recall.sessions is None and answer.recall.ranking == ()
    as_json = await full(lent, render="json").recall(memory, QUERY)
    assert as_json.context.startswith('{"session": "s1"')


def long_sessions() -> list[Session]:
    # with "Ann:" in front a session has one word more
    return [
        Session(name, (Turn(name, "Ann", words(name, n - 1)),))
        for name, n in (("a", 40), ("b", 50), ("c", 30), ("d", 60))
    ]


async def test_the_budget_is_the_window_less_the_reserves_within_the_models_own() -> None:
    lent = tools()
    memory = await full(lent).remember(None, long_sessions())

    async def kept(lent: Tools, **ask) -> list[str]:
        with ledger.scope("question") as account:
            recall = await full(lent, **ask).recall(memory, QUERY)
        assert account.counts["full.sessions_dropped"] == recall.trace["sessions_dropped"]
        return recall.trace["sessions_kept"]

    reserve = {"answer": 20, "prompt": 10}
    assert await kept(lent) == ["a", "b", "c", "d"]
    assert await kept(lent, window=130, reserve=reserve) == ["c", "d"]
    assert await kept(lent, window=119, reserve=reserve) == ["d"]
    small = tools(window=64 + 95)  # the answerer's budget is 95
    assert await kept(small) == await kept(small, window=128_000) == ["c", "d"]


async def test_a_cut_newest_session_is_counted() -> None:
    lent = tools(window=64 + 59)
    memory = await full(lent).remember(None, long_sessions())
    with ledger.scope("question") as account:
        recall = await full(lent).recall(memory, QUERY)
    assert recall.context.split() == ["Ann:", *words("d", 59).split()][-59:]
    assert recall.trace["newest_session_cut"] and account.counts["full.newest_session_cut"] == 1


class Overflowing(PlainAnswerer):
    """A server whose real window is smaller than it says."""

    def __init__(self, chat: ScriptedChat, real: int) -> None:
        super().__init__(chat)
        self.real = real
        self.sizes: list[int] = []

    async def answer(self, context: str, query: Query, *, keep: str = "start") -> str:
        assert keep == "end"
        self.sizes.append(count(context))
        if self.sizes[-1] > self.real:
            raise ContextOverflow("context length exceeded")
        return await super().answer(context, query, keep=keep)


def overflowing(real: int) -> tuple[Tools, Overflowing]:
    lent = tools(lambda *_: "fine")
    answerer = Overflowing(lent.chat, real)
    return Tools(lent.chat, lent.encoder, Prompts(), answerer), answerer


async def test_an_overflow_shrinks_the_history_by_five_percent_and_is_counted() -> None:
    lent, answerer = overflowing(160)
    memory = await full(lent).remember(None, [Session("s", (Turn("1", "Ann", words("w", 199)),))])
    with ledger.scope("question") as account:
        answer = await full(lent).answer(memory, QUERY)
    assert answerer.sizes == [200, 190, 180, 171, 162, 153]
    assert (answer.text, answer.trace["shrinks"]) == ("fine", 5)
    assert answer.recall.trace["history_tokens"] == 153
    assert account.counts["full.context_shrunk"] == 5


async def test_the_sixth_overflow_is_a_failure() -> None:
    lent, answerer = overflowing(100)
    memory = await full(lent).remember(None, [Session("s", (Turn("1", "Ann", words("w", 199)),))])
    with pytest.raises(ContextOverflow):
        await full(lent).answer(memory, QUERY)
    assert len(answerer.sizes) == 6


async def test_the_control_row_rewrites_once() -> None:
    def script(request, role, prompt):
        return "a long answer" if prompt == "protocol/answer" else '{"answer": "short"}'

    lent = tools(script)
    memory = await full(lent).remember(None, SESSIONS)
    answer = await full(lent, rewrite=True, rewrite_style="conversational").answer(memory, QUERY)
    assert answer.text == "short"
    assert lent.chat.prompts() == ["protocol/answer", "mgretrieval/rewrite_conversational"]


def test_needs_and_defaults() -> None:
    system = full(tools())
    assert system.needs("remember") == frozenset()
    assert system.needs("answer") == {"main"}
    ask = FullHistoryAsk()
    assert (ask.window, ask.reserve.answer, ask.reserve.prompt) == (128_000, 4000, 1000)
    assert (ask.render, ask.rewrite) == ("text", False)
    assert FullHistory.session_ranking is None


def test_the_two_configs_differ_in_the_window_alone() -> None:
    full_history = check_method_config("full_history", FullHistoryBuild, FullHistoryAsk)
    assert full_history["_target_"] == "baselines.full.FullHistory"
    assert method_config("full") == merged(full_history, {"ask": {"window": None}})
