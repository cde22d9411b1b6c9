"""Ctrl-C and SIGTERM: once finishes what is in flight, twice ends at once; nothing is lost."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from served import end, run_command, serve, start, table_command, until

from eval.records import read_records

pytestmark = pytest.mark.timeout(400)


def records(results: Path) -> list[dict]:
    return [record for path in results.rglob("records.jsonl") for record in read_records(path)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_finishes_calls_in_flight_and_the_same_command_goes_on(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    with serve(latency=0.5) as server:
        job = start(run_command(server, tmp_path, "concurrency.questions=2"))
        until(lambda: server.stats.requests >= 5, job)
        job.send_signal(number)
        told = time.monotonic()
        code, _, err = end(job)
        assert time.monotonic() - told < 10
        assert code == status, err
        assert "Traceback" not in err
        assert "stopped: Interrupted." in err and "The same command goes on from there" in err
        of = int(
            re.search(r"(\d+) of (\d+) questions of the runs that were begun are done", err)[2]
        )
        assert f"{server.stats.requests} of {of} questions" in err
        assert f"by this command for {server.stats.requests} calls" in err
        assert "scripts/run.py method=full" in err and "concurrency.questions=2" in err
        # every call that had begun was answered, stored, and its question recorded
        assert server.stats.requests == server.stats.answered <= 8
        assert len(records(tmp_path)) == server.stats.answered
        assert not any(record["error"] for record in records(tmp_path))

        server.latency = 0.0
        code, _, err = end(start(run_command(server, tmp_path)))
        assert code == 0, err
        assert server.stats.requests == len(server.stats.by_content) == len(records(tmp_path))


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with serve(latency=20.0) as server:
        job = start(run_command(server, tmp_path))
        until(lambda: server.stats.requests >= 1, job)
        job.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert job.poll() is None, "the first signal waits for the call in flight"
        job.send_signal(signal.SIGINT)
        told = time.monotonic()
        code, _, err = end(job)
        assert time.monotonic() - told < 3
        assert code == 130
        assert "stopped at once" in err


def test_a_signal_ends_all_rows_of_a_table(tmp_path: Path) -> None:
    with serve(latency=0.3) as server:
        job = start(table_command(server, tmp_path))
        until(lambda: server.stats.requests >= 3, job)
        job.send_signal(signal.SIGINT)
        code, out, err = end(job)
        assert code == 130, err
        assert "Traceback" not in err and "stopped: Interrupted." in err
        assert server.stats.requests == server.stats.answered
        assert "written" not in out, "a table with holes replaces no table"
        paid = server.stats.requests
        server.latency = 0.0
        job = start(table_command(server, tmp_path))
        until(lambda: server.stats.requests > paid, job)
        job.send_signal(signal.SIGINT)
        end(job)
        assert server.stats.requests == len(server.stats.by_content), "nothing is asked twice"


def test_a_signal_ends_a_sweep_not_only_its_job(tmp_path: Path) -> None:
    with serve(latency=0.3) as server:
        more = ["-m", "protocol.answer_max_tokens=20,21,22,23", "concurrency.questions=1"]
        job = start(run_command(server, tmp_path, *more))
        until(lambda: server.stats.requests >= 2, job)
        os.killpg(job.pid, signal.SIGINT)  # as a terminal sends it
        code, _, err = end(job)
        assert code == 130, err
        assert "Traceback" not in err
        assert len(list(tmp_path.rglob("manifest.json"))) == 1
