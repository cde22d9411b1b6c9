"""The ledgers themselves: whole, naming rows that exist; and a ledger from runs to files."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from eval.claims.evidence import Shelf
from eval.claims.ledger import judged, wanted
from eval.claims.outcome import UNKNOWN
from eval.claims.spec import ledger_names, load_ledger
from eval.claims.write import comma_separated, markdown, show_ledger, write_ledger
from eval.prices import PriceList
from eval.tables.published import Published
from eval.tables.spec import load_table
from memsys.errors import UserError


def test_mgretrievals_ledger_has_all_25_claims_in_order() -> None:
    ledger = load_ledger("mgretrieval")
    assert [claim.id for claim in ledger.claims] == [f"C{i}" for i in range(1, 26)]
    assert all(c.claim and c.published and c.scope and c.source for c in ledger.claims)


@pytest.mark.parametrize("paper", ledger_names())
def test_every_row_block_and_measure_that_a_claim_names_exists(paper: str) -> None:
    named = wanted(load_ledger(paper))
    tables = {name: load_table(name) for name in {one.table for one in named}}
    for one in named:
        spec = tables[one.table]
        assert one.row in [row.label for row in spec.rows], one
        if one.block is not None:
            blocks = spec.blocks["paper"]
            assert one.block in [b.dataset for b in blocks] + [b.label for b in blocks], one
        if one.main is not None:
            mains = [block.setting.get("main") for block in spec.blocks["paper"]]
            assert one.main in mains, one


def test_published_values_are_those_of_the_stated_file() -> None:
    stated = {cell["value"] for cell in Published.read("mgretrieval-stated").cells}
    numbers = {
        f"{abs(part.published):.2f}"
        for claim in load_ledger("mgretrieval").claims
        if claim.id not in ("C9", "C25")  # derived: a ratio of times, two gains
        for part in claim.parts
        if part.check in ("gain", "value")
    }
    assert {n for n in numbers if n not in stated} <= {"5799.00", "2.00", "1.00"}
    assert round((6.98 / 12.77 - 1) * 100, 2) == -45.34


def test_faulty_ledgers_are_one_sentence(tmp_path, monkeypatch) -> None:
    with pytest.raises(UserError, match="Did you mean 'mgretrieval'"):
        load_ledger("mgretrival")
    part = "{check: gain, table: t, row: a, over: [b], published: 1.0"
    claim = "{id: A, claim: c, published: p, scope: s, source: o, parts: [%s]}"
    monkeypatch.setattr("eval.claims.spec.LEDGERS", tmp_path)
    for name, extra in (("none", "}"), ("both", ", measure: f1_set, cost: question.main.calls}")):
        text = f"paper: x\ntitle: y\nclaims: [{claim % (part + extra)}]\n"
        (tmp_path / f"{name}.yaml").write_text(text)
        with pytest.raises(UserError, match="exactly one of measure and cost"):
            load_ledger(name)
    good = claim % (part + ", measure: f1_set}")
    (tmp_path / "twice.yaml").write_text(f"paper: x\ntitle: y\nclaims: [{good}, {good}]\n")
    with pytest.raises(UserError, match="the same id"):
        load_ledger("twice")


async def test_without_any_run_every_claim_is_open_and_says_so(world) -> None:
    for paper in ledger_names():
        found = await judged(load_ledger(paper), world.shelf(), PriceList({}))
        assert {claim.verdict for claim in found.claims} == {UNKNOWN}
        assert all(claim.why for claim in found.claims)
    text = markdown(found)
    assert "25 claims: 0 holds, 0 does not hold, 25 cannot be judged here." in text


@pytest.fixture
async def small(world):
    """Table 1's runs on a tiny model and a cut: all values, hardly a verdict."""
    for method, quality in (
        ("mgretrieval", 0.8), ("full", 0.5), ("rag", 0.4), ("memr3", 0.5), ("memorybank", 0.3),
        ("amem", 0.3), ("memoryos", 0.6),
    ):  # fmt: skip
        world.add(method, quality=quality, main="SmolLM2-135M", cut="first 1 conversations")
    ledger = load_ledger("mgretrieval")
    chosen = [c for c in ledger.claims if c.id in ("C1", "C3", "C11", "C12", "C24")]
    ledger = ledger.model_copy(update={"claims": tuple(chosen)})
    return await judged(ledger, Shelf("embedded", world), PriceList({}))


async def test_a_small_setting_shows_its_values_and_judges_mechanics_alone(small) -> None:
    claims = {one.claim.id: one for one in small.claims}
    assert {one.verdict for one in claims.values()} == {UNKNOWN}
    gain = claims["C3"].outcomes[0]
    assert gain.ours.startswith("+") and "main: SmolLM2-135M (paper: Qwen2.5-14B" in gain.why
    assert "data: cut to first 1 conversations" in claims["C3"].why
    assert "no block with Qwen3-14B" in claims["C1"].why
    calls = claims["C11"].outcomes
    assert [o.verdict for o in calls] == ["holds", "holds", UNKNOWN, UNKNOWN]
    assert claims["C24"].outcomes[-1].verdict == "holds"


async def test_files_and_screen_say_the_same(small, tmp_path) -> None:
    paths = write_ledger(small, tmp_path / "out")
    assert [p.name for p in paths] == [
        "claims-mgretrieval-embedded.md",
        "claims-mgretrieval-embedded.csv",
    ]
    rows = list(csv.DictReader(io.StringIO(comma_separated(small))))
    assert len(rows) == sum(len(one.outcomes) for one in small.claims)
    assert rows[0]["published"] == "+8.91 %" and rows[0]["verdict"] == UNKNOWN
    assert rows[0]["runs"].startswith("locomo/mgretrieval/")
    text = markdown(small)
    assert "## C11. Auxiliary calls and tokens a memory item, and a query" in text
    assert "2.00 (n = 60); published 2. **holds**" in text
    console = Console(width=160, record=True, file=io.StringIO())
    show_ledger(small, console)
    shown = console.export_text()
    assert "5 claims: 0 holds, 0 does not hold, 5 cannot be judged here" in shown
    assert "everywhere: main: SmolLM2-135M (paper: Qwen2.5-14B-Instruct)" in shown
    assert "C1: profile embedded has no block with Qwen3-14B" in shown


async def test_a_block_that_a_profile_lacks_lends_no_other_blocks_values(world) -> None:
    ledger = load_ledger("memgas")
    chosen = tuple(c for c in ledger.claims if c.id == "G5")
    world.add("memgas")
    found = await judged(
        ledger.model_copy(update={"claims": chosen}), world.shelf("embedded"), PriceList({})
    )
    (claim,) = found.claims
    assert "profile embedded has no block longmemeval_m" in claim.why
    assert not any(outcome.ours for outcome in claim.outcomes)
