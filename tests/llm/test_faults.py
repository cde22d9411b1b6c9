from __future__ import annotations

import pytest

from memsys.llm.faults import Backoff, of_status, retry_after, same_model


def told(status, message="", code=None, headers=None):
    return of_status(status, {"message": message, "code": code}, headers or {})


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (408, "", None, "again"),
        (429, "Rate limit reached", "rate_limit_exceeded", "limited"),
        (429, "You exceeded your current quota", "insufficient_quota", "refused"),
        (429, "Request too large for m on tokens per min", None, "hopeless"),
        (500, "", None, "again"),
        (502, "", None, "again"),
        (529, "overloaded", None, "again"),
        (400, "bad parameter", None, "refused"),
        (401, "", None, "refused"),
        (402, "Insufficient Balance", None, "refused"),
        (403, "no access", None, "refused"),
        (404, "", "model_not_found", "refused"),
        (400, "x", "context_length_exceeded", "overflow"),
        (400, "This model's maximum context length is 8192 tokens. However…", None, "overflow"),
        (400, "the request exceeds the available context size", None, "overflow"),
        (400, "Requested tokens (9000) exceed context window of 8192", None, "overflow"),
        (413, "too big", None, "overflow"),
        (400, "filtered", "content_filter", "filtered"),
        (400, "Your request was rejected by our safety system", None, "filtered"),
    ],
)
def test_errors_are_told_apart(status, message, code, kind):
    assert told(status, message, code).kind == kind


@pytest.mark.parametrize("body", [None, "plain text", {"error": "words"}, {"detail": "d"}, [1]])
def test_any_shape_of_error_body_is_borne(body):
    assert of_status(500, body, {}).kind == "again"


def test_retry_after_in_seconds_milliseconds_and_dates():
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after-ms": "300", "retry-after": "9"}) == 0.3
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert retry_after({"retry-after": date}, now=1445412470.0) == 10.0
    assert retry_after({"retry-after": date}) == 0.0
    assert retry_after({"retry-after": "soon"}) == 0.0
    assert retry_after({}) == 0.0


def test_backoff_doubles_within_its_bounds_and_is_reproducible():
    one, two = (Backoff(1.0, 10.0, seed=3) for _ in range(2))
    waits = [one.seconds(k) for k in range(8)]
    assert waits == [two.seconds(k) for k in range(8)]
    for k, wait in enumerate(waits):
        assert min(10, 2**k) / 2 <= wait <= min(10, 2**k)
    assert len(set(waits)) == 8
    assert Backoff(1.0, 10.0).seconds(0, wanted=30) >= 30


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini", False),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("Qwen/Qwen2.5-14B-Instruct", "qwen/qwen2.5-14b-instruct", True),
        ("qwen2.5", "qwen2.5-14b", False),
        ("SmolLM2", "SmolLM2@main", True),
        ("deepseek-reasoner", "", True),
        ("a", "b", False),
    ],
)
def test_which_models_may_answer(asked, answered, same):
    assert same_model(asked, answered) is same


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "limit_field",
        ),
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
            "json_object",
        ),
        (
            "max_tokens is too large: 40000. This model supports at most 16384",
            "what this model allows",
        ),
        ("Unrecognized request argument supplied: top_k", "correct the request"),
    ],
)
def test_a_refused_field_is_answered_with_the_setting_that_mends_it(words, hint):
    assert hint in told(400, words).mend("KEY")
