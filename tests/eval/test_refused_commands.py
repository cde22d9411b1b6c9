"""A wrong key, a spent quota, a missing model: one message in under 5 s, no record spoilt."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from served import KEY, end, run_command, serve, start, table_command, until

from eval.records import read_records

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

WORDS = {
    "401": "check the key in OPENAI_API_KEY",
    "402": "no credit left",
    "quota": "the quota is used up",
    "404": "check the model's name",
}


@pytest.mark.parametrize("command", [run_command, table_command])
@pytest.mark.parametrize("refusal", WORDS)
def test_an_endpoint_that_refuses_ends_the_command_at_once(
    refusal: str, command, tmp_path: Path
) -> None:
    with serve(refuse=refusal) as server:
        job = start(command(server, tmp_path))
        until(lambda: server.stats.requests >= 1 or job.poll() is not None, job)
        refused = time.monotonic()
        code, _, err = end(job)
        assert time.monotonic() - refused < 5
        assert code == 2, err
        assert err.count("error:") == 1 and "Traceback" not in err
        assert WORDS[refusal] in err
        assert KEY not in err
    assert not [r for p in tmp_path.rglob("records.jsonl") for r in read_records(p)]


@pytest.mark.parametrize("refusal", ["401", "quota"])
def test_a_refusal_in_the_middle_spoils_no_record(refusal: str, tmp_path: Path) -> None:
    with serve(latency=0.05) as server:
        job = start(run_command(server, tmp_path, "concurrency.questions=2"))
        until(lambda: server.stats.answered >= 6, job)
        server.refuse = refusal
        refused = time.monotonic()
        code, _, err = end(job)
        assert time.monotonic() - refused < 5
        assert code == 2 and WORDS[refusal] in err
        (path,) = tmp_path.rglob("records.jsonl")
        kept = read_records(path)
        assert kept and not any(record["error"] for record in kept)
        server.refuse, asked = "", server.stats.answered
        code, _, err = end(start(run_command(server, tmp_path)))
        assert code == 0, err
        repeats = server.stats.answered - len(server.stats.answered_by_content)
        assert repeats == 0, "what was answered is not asked again"
        assert server.stats.answered > asked
