"""The file itself: self-contained, strict, and deaf to whatever a benchmark or a model wrote."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.config import ROOT
from eval.report.build import build_report
from eval.report.figures import read_figures
from eval.report.page import ASSETS, SCRIPTS, packed_block, page
from memsys.errors import UserError

from .conftest import CLOSING, PLANTED, record


class Blocks(HTMLParser):
    """Every script and style of a page, as a browser would split them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self._text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open, self._text = (tag, dict(attrs)), ""

    def handle_data(self, data) -> None:
        self._text += data

    def handle_endtag(self, tag) -> None:
        if self._open and tag == self._open[0]:
            self.found.append((*self._open, self._text))
            self._open = None


def built(case, **options) -> str:
    out = case.folder / "report.html"
    build_report([case.results / "runs"], out, results=case.results, **options)
    return out.read_text(encoding="utf-8")


def unpacked(text: str) -> dict[str, str]:
    """The JSON of each of a page's blocks, by name."""
    return {
        str(attributes["id"]): gzip.decompress(base64.b64decode(inner)).decode("utf-8")
        for tag, attributes, inner in Blocks(text).found
        if tag == "script" and "id" in attributes
    }


@given(st.text() | st.sampled_from([PLANTED, CLOSING, "</SCRIPT >", "<!--<script>", "]]>"]))
def test_no_text_can_leave_its_block(text) -> None:
    block = packed_block("index", {"text": text, text: [text]})
    inner = block.removeprefix('<script type="application/gzip" id="index">')
    inner = inner.removesuffix("</script>\n")
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", inner)
    assert json.loads(unpacked(block)["index"]) == json.loads(
        json.dumps({"text": text, text: [text]})
    )
    assert packed_block("index", {"text": text, text: [text]}) == block, "no time is in it"


def test_the_page_is_its_own_policy(systems) -> None:
    blocks = Blocks(built(systems))
    (policy,) = [
        attributes["content"]
        for tag, attributes in blocks.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "img-src data:" in policy
    assert "unsafe" not in policy and "http" not in policy

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    styles = [text for tag, _, text in blocks.found if tag == "style"]
    scripts = [t for tag, attributes, t in blocks.found if tag == "script" and not attributes]
    assert len(styles) == len(scripts) == 1
    assert f"style-src 'sha256-{digest(styles[0])}'" in policy
    assert f"script-src 'sha256-{digest(scripts[0])}'" in policy


def test_nothing_is_loaded_and_no_markup_comes_from_data(systems) -> None:
    blocks = Blocks(built(systems))
    allowed = {"html", "head", "meta", "title", "style", "body", "noscript", "div", "script"}
    assert {tag for tag, _ in blocks.tags} == allowed
    assert not any("src" in attributes or "href" in attributes for _, attributes in blocks.tags)
    kinds = [attributes.get("type") for tag, attributes, _ in blocks.found if tag == "script"]
    assert kinds == ["application/gzip"] * 4 + [None]


def test_what_was_planted_arrives_as_text(systems) -> None:
    by_id = unpacked(built(systems))
    index, chunk = json.loads(by_id["index"]), json.loads(by_id["chunk-0"])
    assert index["questions"]["text"][1].endswith(CLOSING)
    assert any(PLANTED in (answer or "") for run in index["runs"] for answer in run["answer"])
    assert PLANTED in chunk["sessions"]["session_1"]["turns"]["4"][2]
    assert any(PLANTED in text for text in chunk["texts"])


def test_scripts_never_make_markup_or_reach_out() -> None:
    assert sorted(SCRIPTS) == sorted(path.name for path in ASSETS.glob("*.js"))
    sources = {path.name: path.read_text("utf-8") for path in ASSETS.glob("*.js")}
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|createContextualFragment|DOMParser|"
        r"\beval\(|new Function|fetch\(|XMLHttpRequest|WebSocket|import\(|https?://"
    )
    for name, text in sources.items():
        assert not re.search(forbidden, text), name
    assert not re.search(r"url\(|@import|https?://", (ASSETS / "report.css").read_text("utf-8"))
    assert sum(text.count("\n") for text in sources.values()) < 1500


def test_no_system_is_known_by_name() -> None:
    methods = {path.stem for path in (ROOT / "configs" / "method").glob("*.yaml")}
    named = {"mgretrieval", "memgas", "memr3", "hipporag2", "raptor", "memorybank", "amem", "secom"}
    assert named <= methods
    for path in [*ASSETS.glob("*.js"), *ASSETS.parent.glob("*.py")]:
        text = path.read_text("utf-8")
        for name in named:
            uses = [line for line in text.splitlines() if re.search(rf"['\"`]{name}['\"`]", line)]
            # papers have the names of two systems: the overview prints them
            assert all("PAPERS" in line for line in uses), (path.name, uses)


def test_without_text_no_word_of_the_conversation_is_in_the_file(case) -> None:
    data = case.conversation()
    quote = "The key hangs behind the mill door. Bram said so, and the windmill stood still."
    unit = case.memory("ab" * 32, _unit("u1", quote))
    trace = {"filtered": quote, "rounds": [{"critical_memories": [quote]}], "seeds": ["u1"]}
    extra = {"note": quote}
    case.run("rag", [record(trace=trace, extra=extra)], builds=[unit], data=data)
    assert quote in "".join(unpacked(built(case)).values())
    text = "".join(unpacked(built(case, text=False)).values())
    assert "hangs behind the mill" not in text
    assert "windmill" not in text
    assert "Where does the key hang?" in text
    assert "text left out" in text
    assert '"seeds":["u1"]' in text, "what no text is stays"


def _unit(name: str, text: str):
    from memsys.system import Unit

    return Unit(name, text, ("D1:5",), ("session_1",))


def test_the_report_names_no_folder_of_this_machine(systems) -> None:
    text = built(systems)
    assert not any(str(systems.folder) in part for part in (text, *unpacked(text).values()))


def test_figures_are_images_svg_first(tmp_path) -> None:
    hostile = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    (tmp_path / "a.svg").write_text(hostile)
    (tmp_path / "a.png").write_bytes(b"png")
    (tmp_path / "b.png").write_bytes(b"png")
    (tmp_path / "huge.svg").write_bytes(b"<svg>" + b" " * 4_000_001)
    a, b, huge = read_figures(tmp_path)
    assert a["src"].startswith("data:image/svg+xml;base64,")
    assert base64.b64decode(a["src"].partition(",")[2]).decode() == hostile
    assert b["src"].startswith("data:image/png;base64,")
    assert "src" not in huge and "too large" in huge["note"]
    assert read_figures(tmp_path / "nowhere") == []


def test_a_report_appears_whole_or_not_at_all(systems, monkeypatch) -> None:
    out = systems.folder / "out" / "report.html"
    built = build_report([systems.results / "runs"], out, results=systems.results)
    assert (built.runs, built.questions) == (6, 2)
    assert built.size == out.stat().st_size
    before = out.read_bytes()

    def broken(*_):
        yield "half"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eval.report.build.page", broken)
    with pytest.raises(UserError, match="No space left"):
        build_report([systems.results / "runs"], out, results=systems.results)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_only_empty_runs_are_said_to_be_empty(case) -> None:
    case.run("rag", [])
    with pytest.raises(UserError, match="No run has a record yet"):
        built(case)


def test_the_command_writes_the_file_and_says_what_it_holds(systems) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "report.py")]
    out = systems.folder / "r.html"
    options = ["--results", str(systems.results), "--out", str(out)]
    done = subprocess.run(
        [*command, *options, "--no-text"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "6 runs, 2 questions" in done.stdout
    assert out.is_file()
    bad = subprocess.run(
        [*command, str(systems.folder / "nothing")], capture_output=True, text=True, cwd=ROOT
    )
    assert bad.returncode == 2
    assert "is not a folder" in bad.stderr


async def test_a_run_of_the_engine_is_read_whole(tmp_path) -> None:
    """What the engine writes today is what the report reads: nothing made by hand in between."""
    from eval.config import RunConfig, compose
    from eval.prices import PriceList
    from eval.progress import Board
    from eval.resources import Resources
    from eval.run import run
    from eval.spec import RunSpec
    from eval.summary import score_run

    composed = compose(
        ["method=rag", "protocol=mgretrieval", "dataset.sample=always", "progress=off",
         f"paths.results={tmp_path / 'results'}"]
    )  # fmt: skip
    fake = {"_target_": "fakes.FakeBackend"}
    method = {"_target_": "fakes.Notebook", "build": {"style": "short"}, "ask": {"top_k": 2}}
    values = {**composed.values, "llm": dict.fromkeys(("main", "auxiliary", "judge"), fake),
              "method": method, "measures": ["f1_set", "recall_all@3"]}  # fmt: skip
    choices = {**composed.choices, "method": "notebook"}
    spec = RunSpec.of(RunConfig(values, choices), Resources(), tmp_path)
    finished = await run(spec, PriceList({}), Board("off"))
    score_run(finished, None)

    out = tmp_path / "report.html"
    results = tmp_path / "results"
    made = build_report([results / "runs"], out, results=results)
    assert made.questions == len(finished.records)
    by_id = unpacked(out.read_text(encoding="utf-8"))
    index = json.loads(by_id["index"])
    (column,) = index["runs"]
    assert column["answer"] == [r["answer"] for r in finished.records]
    assert set(column["values"]) == {"f1_set", "recall_all@3"}
    assert column["spending"][0]["phase"] == "build"
    assert "sample" in column["data"]
    parts = [json.loads(by_id[name]) for name in by_id if name.startswith("part-")]
    shown = [q for part in parts for q in part["questions"].values()]
    gold = [q for q in shown if q["turns"]]
    assert gold and all(q["around"] and not q["missing"] for q in gold), "the sample's own text"
    records = [part["records"] for part in parts]
    assert all(memory for part in records for memory in part["memory"])
    assert all(units for part in records for units, *_ in part["recalled"])
    assert all(calls for part in records for calls in part["calls"])
    hits = [hit for part in records for _, _, of, *_ in part["recalled"] for hit in of]
    assert any(hits), "hits are found"


def test_a_page_without_blocks_is_a_page() -> None:
    assert "".join(page("x & y", {}, ())).startswith("<!doctype html>")
    assert "<title>x &amp; y</title>" in "".join(page("x & y", {}, ()))


def test_assets_are_where_the_page_looks() -> None:
    assert Path(ASSETS / "report.css").is_file()
