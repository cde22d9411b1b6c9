"""Calibration end to end: rates by hand, kept in the run's folder, printed beside the score."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from openai_server import OpenAIServer
from rich.console import Console

from eval import summary
from eval.judge.calibration import Calibration, Rate, calibrate, probes
from eval.judge.control_answers import CONTROLS
from eval.judge.show import show_calibration
from eval.judging import Judging
from eval.rerun import check_overrides, spec_of
from eval.runfolder import RunFolder
from memsys.errors import UserError
from memsys.llm.chat import Reply, Usage

ROOT = Path(__file__).resolve().parents[2]
JUDGED = ("judge=memgas", "judge.structured=false", "protocol=memgas")


class Lenient:
    """Judges yes whatever is not empty; notes the samples asked for."""

    name = "lenient"
    context_window, max_completion_tokens, concurrency = 8192, None, 8
    enforces_schema = False

    def __init__(self, doubtful=False):
        self.identity = {"model": "lenient", "doubtful": doubtful}
        self.requests, self.doubtful = [], doubtful

    async def complete(self, request):
        self.requests.append(request)
        text = request.messages[-1].content
        empty = "Response: (empty)\n" in text
        no = empty or (self.doubtful and request.sample == 2)
        return Reply("[[no]]" if no else "[[yes]]", Usage(7, 1), 0.0, model=self.name)

    def count_tokens(self, text):
        return len(text.split())

    def message_tokens(self, messages):
        return sum(self.count_tokens(m.content) for m in messages)


@pytest.fixture
def judged(bench):
    """A judged run whose judge is `Lenient`; returns spec, judging, finished run and judge."""

    async def make(*overrides, judge=None):
        judge = judge or Lenient()
        spec = bench.spec(*JUDGED, "dataset.limit=12", *overrides)
        # a stand-in for the judging model alone
        spec.__dict__["backends"] = {r: spec.backends[r] for r in ("main", "auxiliary")} | {
            "judge": judge
        }
        judging = Judging.of(spec)
        from eval.prices import PriceList
        from eval.progress import Board
        from eval.run import run

        finished = await run(spec, PriceList({}), Board("off"), judging)
        return spec, judging, finished, judge

    return make


async def test_rates_are_counted_stored_and_printed_beside_the_score(judged):
    spec, judging, finished, judge = await judged()
    before = len(judge.requests)
    found = await calibrate(spec, judging, finished.records, questions=4)
    rates = found.rates["correct"]
    n = found.questions
    assert 0 < n <= 4
    for name in ("reference", "paraphrase", "vague"):
        assert (rates[name].total, rates[name].n, rates[name].share) == (n, n, 1.0)
    assert (rates["empty"].total, rates["empty"].n) == (0, n)
    lines = [
        json.loads(line)
        for line in (spec.folder / f"calibration-{judging.fingerprint}.jsonl").open()
    ]
    assert len(lines) == sum(rate.n for rate in rates.values())
    assert all(call["phase"] == "judge" for line in lines for call in line["calls"])
    assert len(judge.requests) - before == len(lines)
    assert Calibration.read(spec.folder, judging.fingerprint) == found

    again = await calibrate(spec, judging, finished.records, questions=4)
    assert again == found
    assert len(judge.requests) - before == len(lines), "the second time all comes from the store"

    summary.score_run(finished, judging)
    title = json.loads((spec.folder / "scores.json").read_text())["measures"]["judge_memgas"]
    assert f"controls accepted: reference {n}/{n}, paraphrase {n}/{n}" in title
    assert f"empty 0/{n})" in title
    console = Console(record=True, width=100)
    show_calibration(found, console)
    text = console.export_text()
    assert "wrong entity" in text
    assert "rejects" in text


async def test_the_run_itself_is_untouched(judged):
    spec, judging, finished, _ = await judged()
    files = {p: p.read_bytes() for p in spec.folder.glob("*.jsonl")}
    await calibrate(spec, judging, finished.records, questions=2)
    assert {p: p.read_bytes() for p in files} == files


async def test_repeats_are_samples_and_agreement_is_scored(judged):
    spec, judging, finished, judge = await judged(
        "judge.repeats=3", "judge.combine=majority", judge=Lenient(doubtful=True)
    )
    assert sorted({request.sample for request in judge.requests}) == [0, 1, 2]
    summary.score_run(finished, judging)
    scores = json.loads((spec.folder / "scores.json").read_text())
    assert scores["mean"]["judge_memgas"] == 1.0, "two of three say yes"
    # every answer: yes, yes, no; by hand: 1 - (3n - 1) · 2n / (2 · 2n · n)
    n = len(finished.records)
    assert scores["agreement"]["judge_memgas"]["alpha"] == pytest.approx(1 - (3 * n - 1) / (2 * n))
    assert "majority of 3 verdicts" in scores["measures"]["judge_memgas"]
    found = await calibrate(spec, judging, finished.records, questions=2)
    assert found.rates["correct"]["reference"].share == 1.0


async def test_probes_are_spread_evenly_and_skip_failed_questions(judged):
    spec, _, finished, _ = await judged()
    samples = list(spec.dataset.load(spec.protocol.rules))
    records = [dict(r) for r in finished.records]
    all_of = {p.question.key for p in probes(samples, records, 99)}
    assert len(all_of) > 2
    first = next(r for r in records if (r["conversation"], r["index"]) in all_of)
    first["error"] = "gave up"
    fewer = {p.question.key for p in probes(samples, records, 99)}
    assert all_of - fewer == {(first["conversation"], first["index"])}
    two = [p.question.key for p in probes(samples, records, 2) if p.control == "empty"]
    assert len(two) == 2
    assert probes(samples, [], 5) == []


async def test_a_benchmark_without_references_lends_its_own_answers(judged):
    from dataclasses import replace

    spec, _, finished, _ = await judged()
    samples = [
        replace(s, questions=tuple(replace(q, reference=None) for q in s.questions))
        for s in spec.dataset.load(spec.protocol.rules)
    ]
    made = probes(samples, finished.records, 3)
    assert {p.control for p in made} == {"wrong_entity", "vague", "empty"}
    answers = {r["answer"] for r in finished.records}
    assert all(p.record["answer"] in answers for p in made if p.control == "wrong_entity")


def test_graded_rates_in_words():
    assert Rate(3, 4, 0).words() == "3/4"
    assert Rate(2.5, 4, 0).words() == "2.5/4"
    assert Rate(1 / 3 + 1 / 3 + 1 / 3 + 2, 4, 0).words() == "3/4"
    assert Rate(10 / 3, 4, 0).words() == "3.33/4"
    assert Rate(0, 0, 2).share is None
    assert set(CONTROLS.values()) == {"accept", "reject"}


async def test_a_run_is_described_anew_from_its_folder(bench):
    from eval.resources import Resources

    finished = await bench.run("dataset.limit=4")
    folder = RunFolder(finished.spec.folder)
    with pytest.raises(UserError, match="notebook"):  # the fake method is no config of ours
        spec_of(folder, Resources())
    manifest = json.loads((folder.path / "manifest.json").read_text())
    manifest["choices"]["method"] = "rag"
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="not what this checkout's config names"):
        spec_of(RunFolder(folder.path), Resources())


@pytest.mark.parametrize(
    ("override", "words"),
    [("judge", "key=value"), ("method.ask.top_k=1", "another run"), ("judges=x", "another run")],
)
def test_only_the_judge_of_a_finished_run_may_change(override, words):
    check_overrides(["judge=memgas", "judge.repeats=3", "llm.judge.model=x", "llm@llm.judge=vllm"])
    with pytest.raises(UserError, match=words):
        check_overrides([override])


async def test_the_command_judges_a_finished_run_again_and_calibrates(tmp_path):
    def script(body):
        text = body["messages"][-1]["content"]
        if "[[yes]]" not in text:
            return "a red kite"
        return "[[no]]" if "Response: (empty)" in text else "[[yes]]"

    async def command(name, *arguments):
        made = await asyncio.create_subprocess_exec(
            sys.executable, f"scripts/{name}.py", *arguments, cwd=ROOT,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
        out, err = await made.communicate()
        return made.returncode, out.decode(), err.decode()

    async with OpenAIServer(script=script) as server:
        roles = ("main", "auxiliary", "judge")
        models = [
            text
            for role in roles
            for text in (
                f"llm@llm.{role}=vllm", f"llm.{role}.base_url={server.base_url}",
                f"llm.{role}.model=test-model",
            )
        ]  # fmt: skip
        status, _, err = await command(
            "run", "method=full", "protocol=memgas", "dataset.sample=always", "dataset.limit=3",
            "judge=none", "measures=[f1_squad]", "progress=off", f"paths.results={tmp_path}",
            *models,
        )  # fmt: skip
        assert status == 0, err
        [folder] = (tmp_path / "runs" / "locomo" / "full").iterdir()
        answers = (folder / "records.jsonl").read_bytes()
        status, out, err = await command("judge", str(folder))
        assert (status, "This run has no judge: name one" in err) == (2, True)
        status, out, err = await command(
            "judge", str(folder), "--questions", "3", "judge=memgas", "judge.repeats=2",
            "measures=[judge_memgas]",
        )  # fmt: skip
        assert status == 0, err
    assert (folder / "records.jsonl").read_bytes() == answers
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["mean"]["judge_memgas"] == 1.0
    assert "mean of 2 verdicts" in scores["measures"]["judge_memgas"]
    assert "empty 0/3)" in scores["measures"]["judge_memgas"]
    assert "Judge 'memgas' on answers of known worth (3 questions)" in out
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["run"] == folder.name
    assert manifest["judging"]["judge"]["repeats"] == 2
