import pytest
from doubles import tools
from mgretrieval_case import as_json, last

from memsys.dialogue import Query
from memsys.llm import ledger
from memsys.mgretrieval.rewriting import read_rewritten, rewrite

QUERY = Query("When did he buy it?")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "26 April 2022"}', "26 April 2022"),
        ('{"answer": 3}', "3"),
        ("26 April 2022", "26 April 2022"),
        ('Here you are: {"answer": "a, b"}', "a, b"),
        ('```json\n{"answer": "a"}\n```', "a"),
        ('{"answer": "26 Ap', "26 Ap"),
        ('{"answer": ""}', None),
        ('{"reply": "a"}', None),
        ('{"answer": ["a"]}', None),
        ("First line.\nSecond line.", None),
        ("```", None),
        ("", None),
    ],
)
def test_reading(text: str, answer: str | None) -> None:
    assert read_rewritten(text) == answer


async def test_one_main_call_with_question_answer_and_evidence() -> None:
    lent = tools(lambda *_: as_json(answer="26 April 2022"))
    found = await rewrite(lent, QUERY, "three days ago", ["On 29 April 2022 he said so."], "locomo")
    assert found == "26 April 2022"
    [(prompt, role, request)] = lent.chat.calls
    assert (prompt, role, request.max_tokens) == ("mgretrieval/rewrite_locomo", "main", 96)
    for part in ("When did he buy it?", "three days ago", "On 29 April 2022 he said so."):
        assert part in last(request)


async def test_a_malformed_reply_leaves_the_answer_as_it_is() -> None:
    lent = tools(lambda *_: "{broken")
    with ledger.scope("question") as account:
        assert await rewrite(lent, QUERY, "x", [], "conversational", system="full") == "x"
    assert lent.chat.prompts() == ["mgretrieval/rewrite_conversational"]
    assert account.counts == {"full.rewrite:fallback": 1}


async def test_nothing_to_rewrite_makes_no_call() -> None:
    lent = tools()
    assert await rewrite(lent, QUERY, "", ["evidence"], "locomo") == ""
    assert lent.chat.calls == []


async def test_evidence_that_does_not_fit_loses_its_beginning() -> None:
    lent = tools(lambda *_: as_json(answer="y"), window=400)
    evidence = [f"w{i}" for i in range(900)]
    with ledger.scope("question") as account:
        await rewrite(lent, QUERY, "x", evidence, "locomo")
    request = lent.chat.calls[0][2]
    assert "w899" in last(request) and "w0\n" not in last(request)
    assert lent.chat.message_tokens(request.messages) <= 400 - 96
    assert account.counts == {"mgretrieval.rewrite:evidence_cut": 1}


async def test_the_date_of_the_question_is_shown_where_there_is_one() -> None:
    from datetime import datetime

    lent = tools(lambda *_: "y")
    await rewrite(lent, Query("When?", datetime(2023, 5, 30, 23, 40)), "x", [], "locomo")
    assert "Question: When? (asked on 30 May 2023, 11:40 pm)" in last(lent.chat.calls[0][2])
