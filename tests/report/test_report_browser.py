"""The report in a real browser: by mouse, by keyboard, and with hostile text; no network at all."""

from __future__ import annotations

import functools
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.report.build import build_report

from .conftest import Case, add_systems, call, record

RUNS, QUESTIONS = 10, 2_000


@functools.cache
def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def wait_until_shown(page: Any, place: str) -> None:
    """Wait until a place of the report is drawn, its details unpacked."""
    page.wait_for_selector(f'html[data-shown="{place}"]')


class Visit:
    """A page of one report, with everything that it complained about or reached for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        options = {"viewport": {"width": 1366, "height": 820}, **options}
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.url = path.as_uri()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.context.route("**/*", self._route)
        self.open()

    def _route(self, route: Any) -> None:
        url = route.request.url
        if url.partition("#")[0] == self.url or url.startswith("data:"):
            route.continue_()
        else:
            self.requests.append(url)
            route.abort()

    def open(self, place: str = "") -> None:
        self.page.goto(self.url + place)
        wait_until_shown(self.page, place)

    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def rows(self) -> int:
        return int(self.page.locator(".list-status").inner_text().split()[0].replace(",", ""))

    def expect_rows(self, number: int) -> None:
        said = re.compile(rf"^{number:,} question")
        self.page.locator(".list-status", has_text=said).wait_for()

    def question(self) -> str:
        return str(self.page.locator("#question h1").inner_text())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with sync_api.sync_playwright() as started:
        running = started.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    case = Case(tmp_path_factory.mktemp("report"))
    add_systems(case, case.conversation())
    tables, figures = case.results / "tables", case.results / "figures"
    tables.mkdir()
    figures.mkdir()
    (tables / "mine-paper.csv").write_text(
        "table,profile,block,system,measure,definition,value,low,high,n,failed,published,"
        "difference,level,verdict,settings that differ,run,reason\n"
        "mine,paper,Block one,Pyramid,f1,F1 (made up),41,38,44,9,0,40,1,own prompts,agrees,"
        "prompts: ours; judge: little-model (paper: big),results/runs/locomo/pyramid/pyramid-run,\n"
        "mine,paper,Block one,Absent,f1,F1 (made up),,,,0,0,30,,,,,,not run yet\n"
    )
    (figures / "curve.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg' width='60' height='40'>"
        "<script>window.top.planted = 4</script><image href='https://example.invalid/x.png'/>"
        "<rect width='60' height='40' fill='teal'/></svg>"
    )
    out = case.folder / "report.html"
    build_report([case.results / "runs"], out, results=case.results)
    return out


@pytest.fixture
def visit(browser: Any, report: Path) -> Iterator[Visit]:
    here = Visit(browser, report)
    yield here
    here.context.close()
    assert here.complaints == []
    assert here.requests == []


def test_every_view_opens_and_the_overview_says_what_it_compares(visit) -> None:
    page = visit.page
    overview = page.locator("main").inner_text()
    for said in ("41.00", "38.00 – 44.00", "paper 40.00 +1.00", "agrees", "own prompts",
                 "not run yet", "judge: little-model (paper: big)"):  # fmt: skip
        assert said in overview
    hover = page.locator("table.matrix td.num").first.get_attribute("title")
    assert "level: own prompts" in hover and "prompts: ours" in hover
    page.get_by_role("button", name="every value as a list").click()
    row = page.locator("table.long tbody tr").first.inner_text()
    assert "38.00 – 44.00" in row and "prompts: ours; judge" in row
    for name in ("Figures", "By category", "Cost", "Failures", "Questions"):
        page.get_by_role("link", name=name, exact=True).click()
        page.locator(".top a[aria-current=page]", has_text=name).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Failures", exact=True).wait_for()
    assert "Timeout" in page.locator("main").inner_text()


def test_categories_stand_with_the_measures_whole_definition(visit) -> None:
    visit.open("#view=breakdown")
    said = visit.page.locator("main").inner_text()
    assert "F1 (made up; n=2)" in said
    assert "10.0 – 90.0" in said


def test_a_figure_is_drawn_and_its_script_is_dead(visit) -> None:
    visit.open("#view=figures")
    image = visit.page.locator("figure img")
    image.wait_for()
    visit.page.wait_for_function("document.querySelector('figure img').naturalWidth === 60")
    assert visit.page.evaluate("window.planted") is None


def test_costs_name_phase_role_model_and_missing_prices(visit) -> None:
    visit.open("#view=cost")
    text = visit.page.locator("main").inner_text()
    for said in ("build", "question", "judge", "little-model", "no price", "tokens in"):
        assert said in text


@pytest.mark.parametrize("name", ["pyramid", "granularity", "routes", "facts", "layers", "other"])
def test_planted_markup_stays_text_and_each_trace_is_drawn(visit, name) -> None:
    visit.open(f"#q=locomo/memgas/mill/0&system={name}-run")
    page = visit.page
    pane = page.locator("#question")
    first = page.locator("details.system-fold").first
    assert name in first.locator("summary").first.inner_text()
    trace = first.locator(".trace").inner_text()
    drawn = {
        "pyramid": ["Keyword pyramid", "mill ∧ key", "round 1", "sufficient", "draft answer"],
        "granularity": ["Weights by granularity", "1.2500", "turn", "seeds", "u2", "ppr"],
        "routes": ["Routes", "where is the key", "forced: the model chose reflect", "nothing new"],
        "facts": ["Linked facts", "hangs behind", "kept", "dropped"],
        "layers": ["Nodes by layer", "layer 1", "leaves", "2. u2"],
        "other": ["clarified", "which key?", "nested", "deep"],
    }[name]
    for said in drawn:
        assert said in trace
    text = pane.inner_text()
    assert text.count("<script>window.planted = 1</script>") >= 2, "conversation and answer"
    page.locator(".unit-fold summary").nth(1).click()
    assert "Session one in short. <script>" in first.locator(".unit-text").last.inner_text()
    assert page.locator("#app script, #app img").count() == 0
    assert page.evaluate("window.planted") is None


def test_evidence_stands_in_its_place_with_hits_marked(visit) -> None:
    visit.open("#q=locomo/memgas/mill/0&system=pyramid-run")
    page = visit.page
    speakers = page.locator(".excerpt .turn .speaker small").all_inner_texts()
    assert [s.strip() for s in speakers] == ["D1:3", "D1:4", "D1:5", "D1:6", "D1:7"]
    assert "D1:5" in page.locator(".turn.gold").inner_text()
    gaps = page.locator(".excerpt .gap").all_inner_texts()
    assert gaps == ["… 2 turns", "… 5 turns"]
    units = page.locator("details.system-fold").first.locator(".unit")
    assert "evidence turn" in units.nth(0).inner_text()
    assert "evidence session" in units.nth(1).inner_text()
    calls = page.locator("details.system-fold").first.locator("table").last.inner_text()
    for said in ("answering/x@12ab", "little-model", "100", "made", "invalid"):
        assert said in calls
    visit.open("#q=locomo/memgas/mill/1")
    assert "not in the conversation: D9:9" in page.locator("#question").inner_text()


def test_filters_by_mouse_and_the_back_button(visit) -> None:
    visit.open("#view=questions")
    page = visit.page
    assert visit.rows() == 2
    page.get_by_label("System", exact=True).select_option(label="routes")
    page.get_by_label("Result").select_option("failed")
    visit.expect_rows(1)
    page.locator(".row").first.click()
    page.get_by_role("heading", name=re.compile("What colour")).wait_for()
    linked = visit.hash()
    assert "q=locomo/memgas/mill/1" in linked
    page.get_by_role("button", name="clear filters").click()
    visit.expect_rows(2)
    page.locator(".row").first.click()
    page.get_by_role("heading", name=re.compile("Where does")).wait_for()
    page.go_back()
    page.get_by_role("heading", name=re.compile("What colour")).wait_for()
    page.go_back()
    visit.expect_rows(1)
    assert visit.hash() == linked
    other = page.context.new_page()
    other.goto(visit.url + linked)
    wait_until_shown(other, linked)
    assert "What colour" in other.locator("#question h1").inner_text()
    other.close()


def test_right_wrong_and_disagreement_follow_measure_and_threshold(visit) -> None:
    visit.open("#view=questions&measure=f1")
    page = visit.page
    result = page.get_by_label("Result")
    result.select_option("disagree")
    visit.expect_rows(1)
    assert "Where does" in page.locator(".row").first.inner_text()
    result.select_option("right")
    visit.expect_rows(1)
    assert "What colour" in page.locator(".row").first.inner_text()
    threshold = page.get_by_label("Right from")
    threshold.fill("0.9")
    threshold.press("Enter")
    visit.expect_rows(0)
    result.select_option("wrong")
    visit.expect_rows(1)
    threshold.fill("0.2")
    threshold.press("Enter")
    visit.expect_rows(0)
    page.get_by_text("Compare 6 of 6 systems").click()
    page.get_by_label("pyramid", exact=True).uncheck()
    page.get_by_text("Compare 5 of 6 systems").wait_for()


def test_all_by_keyboard(visit) -> None:
    page = visit.page
    page.keyboard.press("/")
    page.locator("#filter-text:focus").wait_for()
    page.keyboard.type("sails")
    visit.expect_rows(1)
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    visit.expect_rows(2)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "list":
            break
    page.locator("#list:focus").wait_for()
    page.keyboard.press("ArrowDown")
    page.get_by_role("heading", name=re.compile("Where does")).wait_for()
    page.keyboard.press("j")
    page.get_by_role("heading", name=re.compile("What colour")).wait_for()
    page.keyboard.press("Home")
    page.get_by_role("heading", name=re.compile("Where does")).wait_for()
    assert page.locator("#list").get_attribute("aria-activedescendant") == "row-0"
    page.keyboard.press("Enter")
    page.locator("#question:focus").wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    before = page.locator("details[open]").count()
    page.keyboard.press("Space")
    page.wait_for_function(f"document.querySelectorAll('details[open]').length !== {before}")


def test_a_prompt_shows_its_wording_where_it_is_at_hand(browser, tmp_path) -> None:
    from memsys.llm.prompts import Prompts

    prompt = Prompts().get("eval.answering", "short")
    case = Case(tmp_path)
    named = [call(prompt=f"{prompt.id}@{prompt.hash}"), call(prompt="answering/short@000000000000")]
    case.run("rag", [record(calls=named)], values=[{"f1": 1.0}])
    out = tmp_path / "report.html"
    build_report([case.results / "runs"], out, results=case.results)
    here = Visit(browser, out)
    here.open("#q=locomo/memgas/mill/0")
    calls = here.page.locator(".calls")
    assert calls.locator("button").count() == 1, "the other one has changed since"
    calls.get_by_role("button", name=f"answering/short@{prompt.hash[:4]}").click()
    wording = here.page.locator(".system-detail blockquote").inner_text()
    assert wording.split() == prompt.text.split()
    assert here.complaints == [] and here.requests == []
    here.context.close()


OLD = "Object.defineProperty(globalThis, 'DecompressionStream', { value: undefined });"


def unreadable(browser: Any, path: Path, script: str = "") -> str:
    """What the page of a report that cannot be read says, and nothing in the console."""
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    if script:
        page.add_init_script(script)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=unreadable]")
    said = str(page.get_by_role("alert").inner_text())
    page.close()
    assert complaints == []
    return said


def test_an_old_browser_and_a_damaged_file_are_told_apart(browser, report, tmp_path) -> None:
    assert "has no DecompressionStream" in unreadable(browser, report, OLD)
    text = report.read_text("utf-8")
    start = text.index('id="index">') + len('id="index">')
    torn = tmp_path / "torn.html"
    torn.write_text(text[: start + 40] + text[start + 80 :], encoding="utf-8")
    assert "damaged or incomplete" in unreadable(browser, torn)


def test_a_question_whose_details_are_damaged_says_so(browser, report, tmp_path) -> None:
    text = report.read_text("utf-8")
    start = text.index('id="part-0-0">') + len('id="part-0-0">')
    torn = tmp_path / "torn.html"
    torn.write_text(text[: start + 40] + text[start + 80 :], encoding="utf-8")
    here = Visit(browser, torn)
    here.open("#q=locomo/memgas/mill/0")
    assert "damaged or incomplete" in here.page.locator("#question").inner_text()
    here.context.close()


def test_an_unknown_question_is_said_to_be_unknown(visit) -> None:
    visit.open("#q=locomo/memgas/mill/999")
    assert "no question locomo/memgas/mill/999" in visit.page.locator("#question").inner_text()


def test_colours_follow_the_system_and_the_switch(browser, report) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        here = Visit(browser, report, color_scheme=scheme)
        shade = "getComputedStyle(document.documentElement).backgroundColor"
        shades[scheme] = here.page.evaluate(shade)
        other = "dark" if scheme == "light" else "light"
        here.page.locator(".theme label", has_text=other).click()
        shades[f"{scheme} to {other}"] = here.page.evaluate(shade)
        assert here.complaints == []
        here.context.close()
    assert shades["light"] == shades["dark to light"] != shades["dark"] == shades["light to dark"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 records as long as real ones: 100 recalled units, 30 ranked sessions, four calls."""
    case = Case(tmp_path_factory.mktemp("large"))
    sessions = [f"session_{i}" for i in range(1, 31)]
    for run in range(RUNS):
        records, values = [], []
        for index in range(QUESTIONS):
            conversation = f"conv-{index % 10}"
            records.append(
                record(
                    index,
                    conversation=conversation,
                    id=f"{conversation}_qa{index}",
                    question=f"What did the {index}th visitor of the mill say about the weather?",
                    answer=f"That it was day {index * run % 31} of the rain, and no better.",
                    category=str(1 + index % 5),
                    recalled=[[f"{s}:{t}", 1 / (t + 1)] for s in sessions for t in range(4)][:100],
                    ranked_sessions=sessions,
                    trace={"seeds": [f"{s}-turn" for s in sessions[:15]], "notes": "rain " * 60},
                    calls=[call(seconds=0.1 * i) for i in range(4)],
                )
            )
            values.append(dict.fromkeys(("f1", "bleu1", "rougeL"), index * (run + 3) % 7 / 6))
        case.run(f"system{run}", records, values=values)
    out = case.folder / "large.html"
    build_report([case.results / "runs"], out, results=case.results)
    return out


def processor_seconds(visit: Visit) -> float:
    """What the page's process has computed since it was started."""
    session = visit.context.new_cdp_session(visit.page)
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "ProcessTime"))


@pytest.mark.slow
def test_twenty_thousand_records_load_in_three_seconds_and_scroll(browser, large) -> None:
    assert large.stat().st_size < 25e6
    start = time.monotonic()
    here = Visit(browser, large)
    waited = time.monotonic() - start
    assert processor_seconds(here) < 3
    if os.getloadavg()[0] < (os.cpu_count() or 1):  # else other work decides how long it waits
        assert waited < 3
    here.open("#view=questions")
    here.expect_rows(QUESTIONS)
    here.page.locator("#list").focus()
    here.page.keyboard.press("End")
    here.page.get_by_role("heading", name=re.compile("1999th visitor")).wait_for()
    assert here.page.locator(".row").count() < 40, "only the rows in sight exist"
    timed = """(change) => { const start = performance.now(); return new Promise((done) => {
        addEventListener('hashchange', () => requestAnimationFrame(() => done(
            performance.now() - start)), { once: true }); location.hash = change; }); }"""
    for change in ("view=questions&result=disagree", "view=questions&order=spread",
                   "view=questions&text=1234th"):  # fmt: skip
        taken = min(here.page.evaluate(timed, f"{change}&at=0.{n}") for n in (3, 4, 5, 6, 7))
        assert taken < 100, f"{change}: {taken:.0f} ms"
    here.expect_rows(1)
    assert here.complaints == [] and here.requests == []
    here.context.close()
