"""wandb in offline mode, against the files that it really writes; and against its failures."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import FakeBackend
from rich.console import Console

import eval.tracking.sender as sender
from eval.command import carry_out
from eval.controls import asked_of
from eval.progress import Board
from eval.summary import score_run
from eval.tracking import Tracking, follow_command, split_settings
from memsys.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-tracking-0123456789"
needs_wandb = pytest.mark.skipif(
    importlib.util.find_spec("wandb") is None, reason="needs wandb (pip install wandb)"
)


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch) -> None:
    """Keep wandb's caches in the test's folder; a key is in the environment all the time."""
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "results" / "wandb" / "data"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "results" / "wandb" / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def board_with_text() -> tuple[Board, io.StringIO]:
    text = io.StringIO()
    return Board("off", Console(file=text, width=300)), text


def held_by(folder: Path) -> dict[Path, bytes]:
    """All that wandb keeps; its records pieced together, as blocks cut them."""
    from wandb_files import followed

    found = {p: p.read_bytes() for p in (folder / "wandb").rglob("*") if p.is_file()}
    for run in followed(folder):
        whole = b"".join(record.SerializeToString() for record in run.records)
        found[run.folder / "records"] = whole
    return found


@needs_wandb
async def test_a_run_is_followed_with_scores_intervals_tables_and_files(bench) -> None:
    from wandb_files import followed

    FakeBackend.failing.add("Quiltbury")  # in no question: nothing fails
    spec = bench.spec("wandb.mode=offline", "measures=[f1_squad,recall_all@3]", "dataset.limit=6")
    finished = await carry_out(spec, Board("off"))
    scores = json.loads((spec.folder / "scores.json").read_text())

    (run,) = followed(bench.folder)
    assert run.about.display_name == f"locomo-notebook-{spec.fingerprint[:8]}"
    assert run.about.run_group == spec.fingerprint and run.about.project == "memsys"
    assert run.status == 0
    assert run.config["method"] == spec.config.values["method"]
    assert run.config["dataset_info"]["licence"] and "wandb" not in run.config

    for name in ("f1_squad", "recall_all@3"):
        interval, counts = scores["intervals"][name], scores["counts"][name]
        assert run.summary[f"score/{name}"] == pytest.approx(scores["mean"][name])
        assert run.summary.get(f"low/{name}") == pytest.approx(interval["low"])
        assert run.summary.get(f"high/{name}") == pytest.approx(interval["high"])
        assert run.summary[f"n/{name}"] == counts["n"]
        assert run.summary[f"failed/{name}"] == 0
    assert "low/recall_all@3" in run.summary
    assert "low/f1_squad" not in run.summary, "equal values have no interval"
    assert run.summary["calls/made"] == finished.paid_calls > 0
    assert run.summary["cost/question/main/calls"] == 6

    last = [row for row in run.history if "progress/done" in row][-1]
    assert last["progress/done"] == last["progress/total"] == 6

    table = run.table("scores")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert {row["measure"]: row["low"] for row in rows} == {
        name: scores["intervals"][name]["low"] for name in ("f1_squad", "recall_all@3")
    }
    questions = run.table("per_question")
    first = dict(zip(questions["columns"], questions["data"][0], strict=True))
    assert first["id"] == scores["items"][0]["id"] and len(questions["data"]) == 6
    assert first["f1_squad"] == scores["items"][0]["f1_squad"] and "answer" not in first
    assert run.table("categories")["data"]

    files = run.artefacts()[f"run-{spec.fingerprint}"]
    assert set(files) == {"manifest.json", "scores.json", "records.jsonl"}
    assert json.loads(files["scores.json"]) == scores
    assert json.loads(files["manifest.json"])["run"] == spec.fingerprint
    records = [json.loads(line) for line in files["records.jsonl"].splitlines()]
    assert [r["id"] for r in records] == [r["id"] for r in finished.records]
    assert [r["seconds"] for r in records] == [r["seconds"] for r in finished.records]


@needs_wandb
@pytest.mark.parametrize("wanted", [False, True])
async def test_benchmark_text_stays_here_unless_it_is_asked_for(bench, wanted) -> None:
    from wandb_files import followed

    overrides = ["wandb.mode=offline", "measures=[f1_squad]", f"wandb.records={wanted}"]
    spec = bench.spec(*overrides)
    finished = await carry_out(spec, Board("off"))
    texts = {r["question"] for r in finished.records} | {r["answer"] for r in finished.records}
    texts |= {r["reference"] for r in finished.records if len(str(r["reference"])) > 12}
    samples = [asked_of(spec.system, s) for s in spec.dataset.load(spec.protocol.rules)]
    turns = {
        turn.text for s in samples for session in s.conversation.sessions for turn in session.turns
    }
    contents = b"".join(held_by(bench.folder).values())

    def told(text: str) -> bool:
        escaped = json.dumps(text)[1:-1]
        return text.encode() in contents or escaped.encode() in contents

    (run,) = followed(bench.folder)
    assert len(run.table("per_question")["data"]) == len(finished.records)
    assert len(texts) > 20 and len(turns) > 20
    if wanted:
        assert all(map(told, texts))
    else:
        assert not [text for text in texts | turns if len(text) > 6 and told(text)]


@needs_wandb
async def test_no_key_and_no_folder_of_this_machine_is_sent(bench, monkeypatch) -> None:
    monkeypatch.setenv("ODD_NAME", "odd-value-0123456789")
    fake = {"_target_": "fakes.FakeBackend", "name": f"model-{KEY}"}
    other = {"_target_": "fakes.FakeBackend", "name": "https://me:pw12@host/odd-value-0123456789"}
    llm = {"main": fake, "auxiliary": other, "judge": fake}
    method = {
        "_target_": "fakes.Notebook",
        "build": {"style": f"{Path.home()}/notes", "api_key_env": "ODD_NAME"},
        "ask": {},
    }
    from eval.tracking.scrub import Scrub, key_names

    scrub = Scrub.of(key_names({"llm": {"main": method}}))
    assert scrub.plain(method["build"]) == {"style": "~/notes", "api_key_env": "ODD_NAME"}
    assert scrub.plain([llm])[0] == {
        "main": {**fake, "name": "model-[OPENAI_API_KEY]"},
        "auxiliary": {**other, "name": "https://host/[ODD_NAME]"},
        "judge": {**fake, "name": "model-[OPENAI_API_KEY]"},
    }

    spec = bench.spec("wandb.mode=offline", "measures=[f1_squad]", "dataset.limit=3", llm=llm)
    await carry_out(spec, Board("off"))
    assert KEY in (spec.folder / "records.jsonl").read_text(), "the fake puts it there"
    held = held_by(bench.folder)
    assert not [path for path, content in held.items() if KEY.encode() in content]
    assert not [path for path, content in held.items() if b"pw12" in content]
    assert any(b"model-[OPENAI_API_KEY]" in content for content in held.values())
    from wandb_files import followed

    (run,) = followed(bench.folder)
    assert run.about.host == "" and not run.kind("output") and not run.kind("output_raw")
    assert not list((run.folder / "files").glob("wandb-metadata.json"))
    assert not list((run.folder / "files").glob("requirements.txt"))


@needs_wandb
async def test_a_run_that_ends_early_is_closed_as_failed(bench, monkeypatch) -> None:
    from wandb_files import followed

    import eval.command as command

    async def broken(*_: object) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr(command, "run", broken)
    with pytest.raises(UserError, match="disk is full"):
        await carry_out(bench.spec("wandb.mode=offline"), Board("off"))
    (run,) = followed(bench.folder)
    assert run.status == 1 and not run.artefacts()


@needs_wandb
async def test_online_without_a_login_is_one_line_and_asks_nobody(
    bench, tmp_path, monkeypatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    board, said = board_with_text()
    spec = bench.spec("wandb.mode=online", "measures=[f1_squad]", "dataset.limit=2")
    assert len((await carry_out(spec, board)).records) == 2
    (line,) = said.getvalue().splitlines()
    assert line.startswith("warning: wandb: nobody is logged in (wandb login, or wandb.mode=off")


class Refusing:
    """Stands for wandb: everything it is asked fails, or takes long."""

    def __init__(self, error: BaseException | None = None, seconds: float = 0.0) -> None:
        self.error, self.seconds = error, seconds
        self.logged: list[object] = []
        self.summary: dict[str, object] = {}
        self.closed: list[int] = []

    def log(self, values: object) -> None:
        time.sleep(self.seconds)
        self.logged.append(values)
        if self.error is not None:
            raise self.error

    def finish(self, exit_code: int) -> None:
        self.closed.append(exit_code)


@pytest.mark.parametrize("where", ["opening", "logging"])
async def test_a_failure_of_wandb_is_one_line_and_no_lost_result(bench, monkeypatch, where) -> None:
    error = RuntimeError(f"no route to host, with {KEY}\nand a second line")
    refusing = Refusing(error)

    def opened(*_: object) -> Refusing:
        if where == "opening":
            raise error
        return refusing

    monkeypatch.setattr(sender, "opened", opened)
    monkeypatch.setattr(Tracking, "check", lambda self: None)
    board, said = board_with_text()
    spec = bench.spec("wandb.mode=online", "measures=[f1_squad]", "dataset.limit=3")
    finished = await carry_out(spec, board)
    lines = said.getvalue().splitlines()
    assert lines == [
        "warning: wandb: no route to host, with [OPENAI_API_KEY]. "
        "The results are complete without it."
    ]
    assert len(finished.records) == 3 and (spec.folder / "scores.json").is_file()
    assert refusing.closed == ([1] if where == "logging" else [])


async def test_a_slow_wandb_holds_up_neither_the_loop_nor_the_end(bench, monkeypatch) -> None:
    monkeypatch.setattr(sender, "opened", lambda *_: Refusing(seconds=12.0))
    monkeypatch.setattr(sender, "_PATIENCE", 1.5)
    monkeypatch.setattr(sender, "_end_program", lambda: None)
    monkeypatch.setattr(Tracking, "check", lambda self: None)
    settings = ("measures=[f1_squad]", "dataset.limit=3")
    await carry_out(bench.spec(*settings), Board("off"))  # loads what a run loads
    board, said = board_with_text()
    longest, last = 0.0, time.monotonic()

    async def beat() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()

    task = asyncio.create_task(beat())
    start = time.monotonic()
    finished = await carry_out(bench.spec("wandb.mode=online", *settings), board)
    took = time.monotonic() - start
    task.cancel()
    assert len(finished.records) == 3 and 1.5 < took < 12.0
    assert longest < 3.0, "something blocked the event loop while wandb slept"
    (line,) = said.getvalue().splitlines()
    assert line.startswith("warning: wandb: it has not taken everything within 2 s; wandb sync ")


async def test_live_progress_is_entered_while_the_run_goes_on(bench, monkeypatch) -> None:
    listening = Refusing()
    monkeypatch.setattr(sender, "opened", lambda *_: listening)
    monkeypatch.setattr(sender, "_EVERY", 0.02)
    monkeypatch.setattr(Tracking, "check", lambda self: None)
    slow = {"_target_": "fakes.FakeBackend", "delay": 0.05}
    llm = {"main": slow, "auxiliary": slow, "judge": slow}
    settings = ("measures=[f1_squad]", "dataset.limit=6", "concurrency.questions=1")
    await carry_out(bench.spec("wandb.mode=online", *settings, llm=llm), Board("off"))
    rows = [row for row in listening.logged if isinstance(row, dict) and "progress/done" in row]
    done = [row["progress/done"] for row in rows]
    assert done == sorted(done) and done[0] == 0 and len(set(done)) > 3
    assert any(0 < row["progress/calls"] < rows[-1]["progress/calls"] for row in rows)


async def test_disabled_means_that_wandb_is_never_loaded(bench, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    finished = await carry_out(bench.spec("measures=[f1_squad]", "dataset.limit=2"), Board("off"))
    assert len(finished.records) == 2 and not (bench.folder / "wandb").exists()


@needs_wandb
async def test_following_changes_no_result_and_no_fingerprint(bench, plain) -> None:
    alone = bench.spec("measures=[f1_squad]", "dataset.limit=4")
    first = plain(await carry_out(alone, Board("off")))
    scores = (alone.folder / "scores.json").read_bytes()
    spec = bench.spec(
        "measures=[f1_squad]", "dataset.limit=4", "resume=false", "wandb.mode=offline"
    )
    assert spec.folder == alone.folder
    assert plain(await carry_out(spec, Board("off"))) == first
    now, then = json.loads((spec.folder / "scores.json").read_bytes()), json.loads(scores)
    assert now == then


def test_a_command_over_runs_takes_the_settings_for_itself(monkeypatch) -> None:
    monkeypatch.setattr(Tracking, "check", lambda self: None)
    tracking, rest = split_settings(["dataset.limit=3", "wandb.mode=offline", "wandb.project=x"])
    assert (tracking.mode, tracking.project) == ("offline", "x")
    assert rest == ["dataset.limit=3", "wandb.mode=disabled"]
    assert split_settings(["dataset.limit=3"]) == (Tracking(), ["dataset.limit=3"])
    with pytest.raises(UserError, match="wandb.mod"):
        split_settings(["wandb.mod=offline"])


def test_a_shard_without_scores_of_all_still_has_rows(bench) -> None:
    from types import SimpleNamespace

    from eval.tracking.content import tables

    part = SimpleNamespace(scores={"items": [{"id": "other"}], "measures": {}, "by_category": {}})
    finished = asyncio.run(bench.run("dataset.limit=2", "measures=[f1_squad]"))
    score_run(finished, None)
    found = tables(finished, part, texts=False)["per_question"]
    assert len(found.rows) == 2 and "f1_squad" not in found.columns


def csv_of(*runs: str) -> str:
    lines = [f"LoCoMo,System {i},{12.5 + i},,{run}" for i, run in enumerate(runs)]
    return "\n".join(["block,system,value,reason,run", *lines]) + "\n"


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060"
    "f80f0001040100905c5a0e0000000049454e44ae426082"
)


@needs_wandb
def test_a_table_is_followed_with_its_cells_files_and_the_figures_of_its_runs(tmp_path) -> None:
    from wandb_files import followed

    results = tmp_path / "results"
    for folder in ("tables", "figures"):
        (results / folder).mkdir(parents=True)
    for ending, text in ((".md", f"| {KEY} |"), (".tex", "& 1"), (".csv", csv_of("a", "b"))):
        (results / "tables" / f"one-embedded{ending}").write_text(text)
    for name, runs in (("fits", ["b"]), ("other", ["a", "c"]), ("empty", [])):
        (results / "figures" / f"{name}-embedded.csv").write_text(csv_of(*runs))
        (results / "figures" / f"{name}-embedded.png").write_bytes(PNG)
    tracking = Tracking(mode="offline", project="mine")
    settings = ["dataset.limit=3", f"llm.main.base_url=https://h/{KEY}"]
    with follow_command(
        tracking, "table", ["one"], "embedded", settings, results, Board("off")
    ) as following:
        following.table("one", "embedded", results)

    (run,) = followed(results)
    assert run.about.display_name == "table-one-embedded" and run.about.project == "mine"
    assert run.config["tables"] == ["one"]
    hidden = "llm.main.base_url=https://h/[OPENAI_API_KEY]"
    assert run.config["settings"] == ["dataset.limit=3", hidden]
    assert run.table("table/one")["data"] == [
        ["LoCoMo", "System 0", 12.5, None, "a"],
        ["LoCoMo", "System 1", 13.5, None, "b"],
    ]
    files = run.artefacts()["table-one-embedded"]
    assert set(files) == {f"one-embedded{ending}" for ending in (".md", ".csv", ".tex")}
    assert files["one-embedded.md"] == b"| [OPENAI_API_KEY] |"
    pictures = {path.read_bytes() for path in (run.folder / "files" / "media").rglob("*.png")}
    names = [p.name for p in (run.folder / "files" / "media").rglob("*.png")]
    assert len(names) == 1 and "fits" in names[0] and pictures == {PNG}


@needs_wandb
def test_a_figure_is_followed_with_its_numbers_and_its_picture(tmp_path) -> None:
    from wandb_files import followed

    (tmp_path / "f-embedded.csv").write_text(csv_of("a"))
    (tmp_path / "f-embedded.png").write_bytes(PNG)
    with follow_command(
        Tracking(mode="offline"), "figure", ["f"], "embedded", [], tmp_path, Board("off")
    ) as following:
        following.figure("f", "embedded", tmp_path)
    (run,) = followed(tmp_path)
    assert set(run.artefacts()["figure-f-embedded"]) == {"f-embedded.csv", "f-embedded.png"}
    assert run.table("figure/f/numbers")["data"][0][2] == 12.5
    assert len(list((run.folder / "files" / "media").rglob("*.png"))) == 1


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import eval.tracking.sender as sender
from eval.progress import Board
from eval.tracking import Tracking, follow_command

sender._PATIENCE, sender._EVERY = 2, 0.2
with follow_command(Tracking(mode="offline"), "table", ["x"], "embedded", [], Path(sys.argv[1]),
                    Board("off")):
    while not list(Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")):
        time.sleep(0.1)
    mine = [p.read_text().split()[:4] for p in Path("/proc").glob("[0-9]*/stat")]
    stopped = [int(s[0]) for s in mine if s[3] == str(os.getpid()) and "wandb" in s[1]]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    assert stopped
"""


@needs_wandb
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the process")
def test_a_process_ends_though_wandb_hangs(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("WANDB_SERVICE", raising=False)  # else it would share this process's
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: wandb: it has not taken everything")


@needs_wandb
@pytest.mark.slow
def test_the_table_command_is_one_run_at_wandb(tmp_path) -> None:
    from wandb_files import followed

    results = tmp_path / "results"
    done = subprocess.run(
        [
            sys.executable, "scripts/table.py", "memgas-2", "--no-run", "wandb.mode=offline",
            f"paths.results={results}",
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = followed(results)
    assert run.config["tables"] == ["memgas-2"] and run.status == 0
    assert "wandb.mode=disabled" in run.config["settings"]
    table = run.table("table/memgas-2")
    assert {row[table["columns"].index("reason")] for row in table["data"]} & {
        "not run yet in this setting"
    }
    assert len(run.artefacts()["table-memgas-2-embedded"]) == 3
