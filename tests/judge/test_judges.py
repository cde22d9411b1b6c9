"""The judges: what they are shown, how replies are read, and what becomes of unreadable ones."""

import json
from datetime import datetime

import pytest
from doubles import ScriptedChat

from eval.judge.gvd import GvdJudge, history_text, last_object
from eval.judge.longmemeval import LongMemEvalJudge, template_of
from eval.judge.memgas import MemgasJudge, read_label
from eval.measures.item import Item
from eval.measures.registry import parse
from memsys.dialogue import Conversation, Question, Session, Turn
from memsys.errors import ChatFailure, UserError
from memsys.llm import ledger
from memsys.llm.prompts import Prompts

CONVERSATION = Conversation(
    "c",
    (
        Session("s1", (Turn("1", "Ann", "I keep bees."), Turn("2", "AI", "Lovely!")),
                datetime(2023, 5, 1), "day"),
        Session("s2", (), datetime(2023, 5, 2), "day"),
        Session("s3", (Turn("3", "Ann", "The hive is blue."),), datetime(2023, 5, 3), "day"),
    ),
)  # fmt: skip


def question(**more):
    given = {"category": "4", "reference": "blue"} | more
    return Question("c", 0, "c-0", "What colour is the hive?", **given)


def record(answer="It is blue.", context="[3 May 2023]\nAnn: The hive is blue."):
    return {"answer": answer, "context": context}


async def judge(judge, replies, q=None, r=None, window=128_000):
    """Judge with scripted replies; returns the verdict, the chat, and the counted events."""
    left = iter(replies)
    chat = ScriptedChat(lambda request, role, prompt: next(left), window)
    with ledger.scope("judge") as account:
        verdict = await judge.judge(chat, q or question(), CONVERSATION, r or record())
    json.dumps(verdict)
    return verdict, chat, account.counts


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("[[yes]]", 1), ("[[no]]", 0), ("[[yes]] not [[no]]", 0), ("yes", 0), ("[[YES]]", 0),
        ("", None), (" \n", None), ("The label is [[yes]].", 1), ('{"label": "[[yes]]"}', 1),
    ],
)  # fmt: skip
def test_memgas_parse_table(reply, label):
    assert read_label(reply) == label


async def test_memgas_shows_the_raw_response_and_asks_once():
    verdict, chat, _ = await judge(MemgasJudge(Prompts()), ["[[yes]]"], r=record("no"))
    assert verdict["scores"] == {"correct": 1.0}
    assert verdict["model"] == "scripted"
    [(prompt, role, request)] = chat.calls
    assert (prompt, role) == ("judge/memgas", "judge")
    assert verdict["prompts"][0].startswith("judge/memgas@")
    assert (request.temperature, request.schema, request.attempt) == (0.0, None, 0)
    [message] = request.messages
    assert message.role == "user"
    for shown in ("What colour is the hive?", "Reference answer: blue", "Response: no\n"):
        assert shown in message.content
    assert "bees" not in message.content


@pytest.mark.parametrize("answer", ["", " \n", None])
async def test_an_empty_response_is_shown_as_one(answer):
    for one, q in (
        (MemgasJudge(Prompts()), question()),
        (LongMemEvalJudge(Prompts()), question()),
        (GvdJudge(Prompts()), question(reference=None)),
    ):
        _, chat, _ = await judge(one, ["[[no]]"] * 2, q, record(answer))
        assert "Response: (empty)\n" in chat.calls[0][2].messages[-1].content


async def test_an_empty_reply_is_retried_once_and_then_no_verdict():
    verdict, chat, counts = await judge(MemgasJudge(Prompts()), ["", "[[no]]"])
    assert verdict["scores"] == {"correct": 0.0}
    assert [call[2].attempt for call in chat.calls] == [0, 1]
    assert counts == {"judge_memgas:unreadable": 1}
    verdict, chat, counts = await judge(MemgasJudge(Prompts()), ["", " "])
    assert verdict["scores"] is None
    assert len(chat.calls) == 2
    assert counts["judge_memgas:no_verdict"] == 1
    item = Item("1", answer="x", judgements={"memgas": verdict})
    assert parse("judge_memgas").per_item([item]) == [None]


async def test_repeats_are_samples_of_their_own():
    verdict, chat, _ = await judge(
        MemgasJudge(Prompts(), repeats=3), ["[[yes]]", "[[no]]", "[[yes]]"]
    )
    assert verdict["scores"] == {"correct": pytest.approx(2 / 3)}
    assert [call[2].sample for call in chat.calls] == [0, 1, 2]
    assert [s["scores"]["correct"] for s in verdict["samples"]] == [1, 0, 1]


async def test_repeats_without_a_verdict_are_left_out_of_the_mean():
    replies = {(0, 0): "[[yes]]", (1, 0): "", (1, 1): ""}
    chat = ScriptedChat(lambda request, role, prompt: replies[request.sample, request.attempt])
    verdict = await MemgasJudge(Prompts(), repeats=2).judge(
        chat, question(), CONVERSATION, record()
    )
    assert verdict["scores"] == {"correct": 1.0}


async def test_structured_sends_a_schema_of_valid_labels():
    _, chat, _ = await judge(MemgasJudge(Prompts(), structured=True), ['{"label": "[[yes]]"}'])
    assert chat.calls[0][2].schema["properties"]["label"]["enum"] == ["[[yes]]", "[[no]]"]
    verdict, chat, _ = await judge(
        LongMemEvalJudge(Prompts(), structured=True), ['{"label": "no"}']
    )
    assert chat.calls[0][2].schema["properties"]["label"]["enum"] == ["yes", "no"]
    assert verdict["scores"] == {"correct": 0.0}


async def test_failed_calls_are_no_verdicts_of_ours():
    def fail(request, role, prompt):
        raise ChatFailure("timeout")

    with pytest.raises(ChatFailure):
        await MemgasJudge(Prompts()).judge(ScriptedChat(fail), question(), CONVERSATION, record())


async def test_benchmarks_without_reference_are_refused():
    for one in (MemgasJudge(Prompts()), LongMemEvalJudge(Prompts())):
        with pytest.raises(UserError, match="reference"):
            await judge(one, [], question(reference=None))


@pytest.mark.parametrize(
    ("category", "abstention", "template", "words"),
    [
        ("single-session-user", False, "fact", "subset"),
        ("single-session-assistant", False, "fact", "subset"),
        ("multi-session", False, "fact", "subset"),
        ("temporal-reasoning", False, "temporal", "off by one"),
        ("knowledge-update", False, "update", "updated answer"),
        ("single-session-preference", False, "preference", "rubric"),
        ("multi-session", True, "abstention", "cannot be answered"),
        ("4", False, "fact", "subset"),
    ],
)
async def test_longmemeval_instruction_by_type(category, abstention, template, words):
    q = question(category=category, abstention=abstention)
    assert template_of(q) == f"longmemeval_{template}"
    verdict, chat, _ = await judge(LongMemEvalJudge(Prompts()), ["Yes."], q)
    assert verdict["scores"] == {"correct": 1.0}
    [(prompt, _, request)] = chat.calls
    assert prompt == f"judge/longmemeval_{template}"
    assert request.max_tokens == 10
    text = request.messages[0].content
    assert words in text
    assert "blue" in text
    assert "It is blue." in text


def test_longmemeval_labels():
    read = LongMemEvalJudge(Prompts()).read
    assert [read(r) for r in ("yes", "YES!", "No", "nope, but yesterday", "")] == [
        {"correct": 1}, {"correct": 1}, {"correct": 0}, {"correct": 1}, None,
    ]  # fmt: skip


GOOD = '{"acc": 1, "corr": 0.5, "cohe": 1, "reason": "partly"}'


@pytest.mark.parametrize(
    ("reply", "valid"),
    [
        (GOOD, True),
        (f"Let me see {{x}}. ```json\n{GOOD}\n```", True),
        ('{"acc": 0, "corr": 0, "cohe": 0} then ' + GOOD, True),  # the last object counts
        (GOOD + ' {"acc": 2, "corr": 0, "cohe": 0}', False),
        ('{"acc": 0.5, "corr": 0.5, "cohe": 1}', False),  # off its scale
        ('{"acc": true, "corr": 0.5, "cohe": 1}', False),
        ('{"acc": "1", "corr": 0.5, "cohe": 1}', False),
        ('{"acc": 1, "corr": 0.5}', False),
        ('{"acc": 1, "corr": NaN, "cohe": 1}', False),
        ('{"acc": 1, "corr": [0.5], "cohe": 1}', False),
        ('{"acc": 1, "corr": 0.5, "co', False),
        ("The answer is right.", False),
        ("回答正确。", False),
        ("", False),
        ("[1, 2]", False),
    ],
)
def test_gvd_replies(reply, valid):
    found = GvdJudge(Prompts()).read(reply)
    assert found == ({"acc": 1, "corr": 0.5, "cohe": 1} if valid else None)


def test_last_object():
    assert last_object('{"a": {"b": 1}} {"c": {"d": 2}} }') == {"c": {"d": 2}}
    assert last_object('{ broken {"a": 1}') == {"a": 1}
    assert last_object("none") is None


async def test_gvd_sees_the_whole_history_before_the_question():
    q = question(reference=None, category="probing")
    verdict, chat, counts = await judge(GvdJudge(Prompts()), [GOOD], q)
    assert verdict["scores"] == {"acc": 1, "corr": 0.5, "cohe": 1}
    text = chat.calls[0][2].messages[0].content
    assert history_text(CONVERSATION) in text
    assert "[1 May 2023]\nAnn: I keep bees.\nAI: Lovely!" in text
    assert "2 May" not in text  # an empty day
    assert text.index("bees") < text.index("What colour") < text.index("Response: It is blue.")
    assert "0 or 0.5 or 1" in text
    assert not counts
    items = [Item("1", answer="x", judgements={"gvd": verdict})]
    assert [parse(f"judge_gvd_{n}").per_item(items) for n in ("acc", "corr", "cohe")] == [
        [1.0], [0.5], [1.0],
    ]  # fmt: skip


async def test_gvd_retries_values_off_the_scale():
    verdict, chat, _ = await judge(GvdJudge(Prompts()), ['{"acc": 3, "corr": 0, "cohe": 0}', GOOD])
    assert verdict["scores"]["acc"] == 1
    assert verdict["samples"][0]["attempts"] == 2
    assert len(chat.calls) == 2


async def test_gvd_scales_come_from_the_configuration():
    strict = GvdJudge(Prompts(), corr=(0, 1), structured=True)
    assert strict.read(GOOD) is None
    assert GvdJudge(Prompts(), acc=(0.0, 1.0)).identity == GvdJudge(Prompts()).identity
    assert strict.schema["properties"]["corr"] == {"enum": [0, 1]}
    assert strict.identity != GvdJudge(Prompts(), structured=True).identity
    with pytest.raises(UserError, match="between 0 and 1"):
        GvdJudge(Prompts(), acc=(0, 2))


async def test_gvd_cuts_to_a_small_window_and_counts_it():
    long = record(context="old words " * 500)
    verdict, chat, counts = await judge(
        GvdJudge(Prompts(), max_tokens=50), [GOOD], r=long, window=400
    )
    assert counts["judge_gvd:cut"] == 1
    messages = chat.calls[0][2].messages
    assert chat.message_tokens(messages) + 50 <= 400
    assert "The hive is blue." in messages[0].content  # the history's end is kept
    assert verdict["scores"] is not None


async def test_gvd_needs_the_retrieved_text():
    assert GvdJudge.needs_context
    with pytest.raises(UserError, match="context"):
        await judge(GvdJudge(Prompts()), [], r={"answer": "x"})


@pytest.mark.parametrize("maker", [MemgasJudge, LongMemEvalJudge, GvdJudge])
def test_identity_follows_settings_and_wording(maker, tmp_path):
    base = maker(Prompts())
    assert base.identity == maker(Prompts()).identity
    json.dumps(base.identity)
    assert base.identity != maker(Prompts(), repeats=2).identity
    template = base.templates[0]
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / f"{template}.txt").write_text("### user\nMine: ${response}\n")
    assert maker(Prompts(tmp_path)).identity != base.identity
    with pytest.raises(UserError, match="at least 1"):
        maker(Prompts(), repeats=0)
