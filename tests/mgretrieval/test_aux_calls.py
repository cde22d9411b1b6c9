import pytest
from doubles import tools
from mgretrieval_case import as_json, last

from memsys.dialogue import Query, Session, Turn
from memsys.llm import ledger
from memsys.mgretrieval.index import KeywordIndex
from memsys.mgretrieval.items import memory_items
from memsys.mgretrieval.keywords import extract, literal, match, read_keywords, select

ITEM = memory_items(
    Session("s1", (Turn("1", "Ann", "I bought a kite."), Turn("2", "Ben", "Nice!"))), "exchange"
)[0]


@pytest.mark.parametrize(
    ("text", "found", "clean"),
    [
        ('{"keywords": ["Ann", "kite"]}', ["Ann", "kite"], True),
        ('{"keywords": []}', [], True),
        ('Sure!\n```json\n{"keywords": ["Ann"]}\n```', ["Ann"], False),
        ('{"keywords": ["Ann", "ki', ["Ann", "ki"], False),
        ('["Ann", "kite"]', ["Ann", "kite"], False),
        ('```json\n["Ann"]\n```', ["Ann"], False),
        ("Ann, kite, red kite.", ["Ann", "kite", "red kite"], False),
        ("Keywords: Ann, kite", ["Ann", "kite"], False),
        ("Sorry, I cannot help you with that request.", None, False),
        ("The memory is about a kite that Ann bought.", None, False),
        ('{"words": ["Ann"]}', None, False),
        ('{"keywords": "Ann"}', None, False),
        ('{"keywords": [1, 2]}', None, False),
        ("[1, 2]", None, False),
        ("", None, False),
        ("抱歉，我无法完成这个请求。", None, False),
    ],
)
def test_reading_keywords(text: str, found: list[str] | None, clean: bool) -> None:
    assert read_keywords(text) == (found, clean)


async def test_extraction_sees_names_and_date_and_asks_once() -> None:
    lent = tools(lambda *_: as_json(keywords=["Ann", "kite", "KITE", " "]))
    with ledger.scope("build") as account:
        assert await extract(lent, ITEM) == ["Ann", "kite"]
    [(prompt, role, request)] = lent.chat.calls
    assert (prompt, role, request.max_tokens, request.temperature) == (
        "mgretrieval/extract", "auxiliary", 128, 0.0,
    )  # fmt: skip
    assert ITEM.unit.text in last(request) and "Speakers: Ann, Ben" in last(request)
    assert account.counts == {"mgretrieval.extract:dropped": 1}


async def test_extraction_retries_once_then_files_under_the_speakers() -> None:
    lent = tools(lambda *_: "I am afraid I cannot read this.")
    with ledger.scope("build") as account:
        assert await extract(lent, ITEM) == ["Ann", "Ben"]
    assert [request.attempt for _, _, request in lent.chat.calls] == [0, 1]
    assert account.counts == {"mgretrieval.extract:retried": 1, "mgretrieval.extract:fallback": 1}


async def test_an_empty_list_is_no_malformed_reply_but_leaves_no_memory_unfiled() -> None:
    lent = tools(lambda *_: '{"keywords": []}')
    with ledger.scope("build") as account:
        assert await extract(lent, ITEM) == ["Ann", "Ben"]
    assert len(lent.chat.calls) == 1
    assert account.counts == {"mgretrieval.extract:empty": 1}


async def test_a_memory_longer_than_the_window_is_cut_for_its_extraction_only() -> None:
    long = memory_items(Session("s", (Turn("1", "Ann", "word " * 900),)), "turn")[0]
    lent = tools(lambda *_: as_json(keywords=["word"]), window=500)
    with ledger.scope("build") as account:
        await extract(lent, long)
    request = lent.chat.calls[0][2]
    assert lent.chat.message_tokens(request.messages) <= 500 - 128
    assert account.counts == {"mgretrieval.extract:cut": 1}


def index_of(*keywords: str) -> KeywordIndex:
    index = KeywordIndex()
    index.add(0, keywords)
    return index


@pytest.mark.parametrize(
    ("reply", "matched", "counts"),
    [
        (
            as_json(matches=[
                {"keyword": "Automobile ", "canonical": "car"},
                {"keyword": "ann", "canonical": None},
                {"keyword": "kite", "canonical": "flying toy"},
            ]),
            ["Car", "Ann", "kite"],
            {"mgretrieval.match:unknown": 1},
        ),
        (
            as_json(matches=[{"keyword": "ann", "canonical": "Car"}]),
            ["automobile", "Ann", "kite"],
            {"mgretrieval.match:overruled": 1},
        ),
        (as_json(matches=[]), ["automobile", "Ann", "kite"], {}),
        (
            as_json(matches=[{"keyword": "unasked", "canonical": "car"}]),
            ["automobile", "Ann", "kite"],
            {},
        ),
        ("no idea", ["automobile", "Ann", "kite"], {"mgretrieval.match:fallback": 1}),
        ("", ["automobile", "Ann", "kite"], {"mgretrieval.match:fallback": 1}),
        (
            '{"matches": [{"keyword": "automobile", "canonical": "car"}, {"keyword": "an',
            ["automobile", "Ann", "kite"],
            {"mgretrieval.match:fallback": 1},
        ),
        (
            '```json\n{"matches": [{"keyword": "automobile", "canonical": "CAR"}]}\n```',
            ["Car", "Ann", "kite"],
            {"mgretrieval.match:repaired": 1},
        ),
    ],
)  # fmt: skip
async def test_matching(reply: str, matched: list[str], counts: dict[str, int]) -> None:
    lent = tools(lambda *_: reply)
    index = index_of("Car", "Ann")
    with ledger.scope("build") as account:
        found = await match(lent, index, ["automobile", "ann", "kite"], 500, len)
    assert found == matched
    assert account.counts == counts
    assert len(lent.chat.calls) == 1  # its fallback needs no second call


async def test_matching_shows_what_fits_of_the_vocabulary_and_says_so() -> None:
    lent = tools(lambda *_: as_json(matches=[]))
    index = index_of("kites", "xylophone", "zebra")
    with ledger.scope("build") as account:
        await match(lent, index, ["kite"], 2, lambda entry: 1)
    shown = last(lent.chat.calls[0][2]).split("\n\n")[0].split("\n")[1:]
    assert shown == ["kites", "xylophone"]
    assert account.counts == {"mgretrieval.match:vocabulary_truncated": 1}


QUESTION = Query("Where did Ann fly her red kite?")


async def chosen(reply: str, depth: int = 2) -> tuple[list[str], bool, dict[str, int], int]:
    lent = tools(lambda *_: reply)
    index = index_of("Ann", "kite", "red kite", "beach", "an")
    with ledger.scope("question") as account:
        found = await select(lent, index, QUESTION, depth, 500, len)
    assert f"at most {depth} keywords" in last(lent.chat.calls[0][2])
    assert {role for _, role, _ in lent.chat.calls} == {"auxiliary"}
    schema = lent.chat.calls[0][2].schema
    assert schema is not None and schema["properties"]["keywords"]["maxItems"] == depth
    return list(found.keywords), found.fallback, dict(account.counts), len(lent.chat.calls)


async def test_query_keywords_are_entries_without_repeats_at_most_depth() -> None:
    reply = as_json(keywords=["KITE", "sea", "kite", "Beach", "Ann"])
    assert await chosen(reply) == (["kite", "beach"], False, {"mgretrieval.select:unknown": 1}, 1)
    assert (await chosen(reply, depth=3))[0] == ["kite", "beach", "Ann"]


async def test_an_empty_choice_means_a_question_without_keywords() -> None:
    assert await chosen('{"keywords": []}') == ([], False, {}, 1)


async def test_unreadable_twice_takes_the_literal_entries_longest_first() -> None:
    assert await chosen("It is a fine day.") == (
        ["red kite", "kite"],
        True,
        {
            "mgretrieval.select:retried": 1,
            "mgretrieval.select:fallback": 1,
            "mgretrieval.select:literal": 1,
        },
        2,
    )


async def test_a_choice_outside_the_vocabulary_takes_the_literal_entries_too() -> None:
    assert await chosen(as_json(keywords=["sea"])) == (
        ["red kite", "kite"],
        True,
        {"mgretrieval.select:unknown": 1, "mgretrieval.select:literal": 1},
        1,
    )


def test_literal_occurrence_is_by_words_except_in_scripts_without_them() -> None:
    assert literal(["art", "party", "Big Party"], "a BIG party") == ["Big Party", "party"]
    assert literal(["电影"], "你喜欢什么电影?") == ["电影"]
    assert literal(["c++"], "Do you write C++?") == ["c++"]


def test_templates_exist_for_all_calls() -> None:
    names = tools().prompts.all("memsys.mgretrieval")
    own = ("extract", "match", "select", "round", "rewrite_locomo", "rewrite_conversational")
    assert set(names) == {f"mgretrieval/{name}" for name in own}
