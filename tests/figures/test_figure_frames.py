"""Frames against values computed by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from eval.figures import bars, distribution, lines, matrix, radar
from eval.figures.costs import question_costs
from eval.figures.data import read_run
from eval.figures.make import category_names, comma_separated
from eval.figures.spec import parse_figure
from eval.tables.spec import Block, Row, TableSpec
from memsys.errors import UserError

TABLE = TableSpec.model_validate(
    {
        "title": "A sweep", "paper": "ours", "protocol": "mgretrieval",
        "columns": [
            {"measure": "f1_set", "heading": "F1"},
            {"measure": "recall_all@1", "heading": "R@1"},
            {"measure": "recall_all@2", "heading": "R@2"},
            {"cost": "question.main.tokens", "heading": "tokens"},
        ],
        "rows": [{"label": "l = 2", "method": "memgas"}],
        "blocks": {"embedded": [{"label": "LoCoMo", "dataset": "locomo"}]},
    }
)  # fmt: skip
SWEEP = """
kind: lines
title: A sweep
paper: ours
table: sweep-depth
x: {label: l, pattern: 'l = (?P<x>\\d+)', chosen: 4}
panels:
  - {label: score, columns: [F1]}
  - {label: tokens, costs: {question.main.tokens: main}}
"""


def sweep(text: str = SWEEP, **changes):
    return parse_figure(text, "x").model_copy(update=changes)


def test_a_point_of_a_sweep_is_the_mean_and_its_clustered_interval(bench, question) -> None:
    # f1: 1, 0 in conversation a; 1, 1 in b: mean 0.75, cluster totals of residuals -0.5 and 0.5
    right, wrong = {"answer": "red car"}, {"answer": "no"}
    records = [
        question(0, "a", main=[10, 20], **right), question(1, "a", main=[30], **wrong),
        question(0, "b", main=[40], **right), question(1, "b", main=[], **right),
    ]  # fmt: skip
    data = [bench.data("l = 2", records), bench.data("l = 4 (paper)", records)]
    points = lines.frame(sweep(), data, TABLE, category_names)
    assert [(p.x, p.chosen, p.panel) for p in points] == [
        (2.0, False, "score"), (2.0, False, "tokens"), (4.0, True, "score"), (4.0, True, "tokens"),
    ]  # fmt: skip
    score, tokens = points[:2]
    # se = sqrt(2/1 · (0.5² + 0.5²)) / 4 = 0.25; t(1) at 97.5 % = 12.7062, so the cut at 0 and 100
    assert (score.value, score.low, score.high, score.n) == (75.0, 0.0, 100.0, 4)
    # tokens: 30 + 2 calls, 30 + 1, 40 + 1, nothing
    assert tokens.value == (32 + 31 + 41 + 0) / 4
    assert (tokens.measure, tokens.low) == ("question.main.tokens", 0.0)


def test_types_of_question_have_a_facet_each(bench, question) -> None:
    records = [
        question(0, category="1", answer="no"), question(1, category="1"),
        question(2, category="4"), question(3, category="9"),
    ]  # fmt: skip
    points = lines.frame(
        sweep(by="category"), [bench.data("l = 2", records)], TABLE, category_names
    )
    scores = {p.facet: (p.value, p.n) for p in points if p.panel == "score"}
    assert scores == {
        "all questions": (75.0, 4), "multi-hop": (50.0, 2), "single-hop": (100.0, 1)
    }  # fmt: skip


def test_series_panels_ordinals_and_references_are_read_from_labels(bench, question) -> None:
    spec = sweep(
        SWEEP.replace(
            "{label: l, pattern: 'l = (?P<x>\\d+)', chosen: 4}",
            "{label: l, scale: ordinal, chosen: all, unnamed: plain,"
            " pattern: '^K (?P<x>\\d+|all)(?P<series>, \\w+)?(?P<panel> / .+)?'}",
        ),
        references=("Floor",),
    )
    labels = ["K 1", "K all", "K 1, best", "K all, best / dot", "Floor", "nothing to do with it"]
    points = lines.frame(
        spec, [bench.data(label, [question(0)]) for label in labels], TABLE, category_names
    )
    found = [(p.line, p.x, p.x_text, p.chosen, p.facet) for p in points if p.panel == "score"]
    assert found == [
        ("plain", 0.0, "1", False, "all questions"), ("plain", 1.0, "all", True, "all questions"),
        ("best", 0.0, "1", False, "all questions"), ("best", 1.0, "all", True, "dot"),
        ("Floor", None, "", False, "all questions"),
    ]  # fmt: skip


def test_a_sweep_over_columns_has_a_curve_a_row(bench, question) -> None:
    spec = sweep(
        SWEEP.replace("l = (?P<x>", "R@(?P<x>")
        .replace("{label: l,", "{source: columns, label: K,")
        .replace("[F1]", '["R@1", "R@2"]')
    )
    late = question(0, ranked_sessions=["s2", "s1"])
    points = lines.frame(spec, [bench.data("BM25", [late])], TABLE, category_names)
    assert [(p.line, p.x, p.value) for p in points] == [("BM25", 1.0, 0.0), ("BM25", 2.0, 100.0)]


def test_a_row_that_could_not_run_keeps_its_place_and_reason(bench, question) -> None:
    data = [bench.data("l = 2", [question(0)]), bench.missing("l = 3", "no key")]
    points = lines.frame(sweep(), data, TABLE, category_names)
    assert [(p.x, p.value, p.reason) for p in points if p.panel == "score"] == [
        (2.0, 100.0, ""), (3.0, None, "no key"),
    ]  # fmt: skip


def test_bad_descriptions_of_sweeps_are_named(bench, question) -> None:
    data = [bench.data("l = 2", [question(0)])]
    with pytest.raises(UserError, match="no row of sweep-depth is a point"):
        lines.frame(sweep(SWEEP.replace("l = (", "k = (")), data, TABLE, category_names)
    for column in ("BLEU", "tokens"):
        with pytest.raises(UserError, match=f"has no measure '{column}'"):
            bad = sweep(SWEEP.replace("[F1]", f"[{column}]"))
            lines.frame(bad, data, TABLE, category_names)
    words = [bench.data("l = many", [question(0)])]
    bad = sweep(SWEEP.replace("(?P<x>\\d+)", "(?P<x>\\w+)"))
    with pytest.raises(UserError, match="'many' is no number"):
        lines.frame(bad, words, TABLE, category_names)


def test_where_keeps_the_records_that_fit(bench, question) -> None:
    records = [question(0, steps=[10]), question(1, steps=[10, 20])]
    data = bench.data("r = 2", records, row={"where": {"rounds": 2}})
    assert [record["index"] for record in data.records] == [1]
    none = bench.data("r = 9", records, row={"where": {"rounds": 9}})
    assert none.reason == "no record has {'rounds': 9}" and not none.records


def test_costs_question_by_question(question) -> None:
    calls = [
        {"role": role, "phase": phase, "prompt_tokens": 10, "completion_tokens": 3}
        for role, phase in (("main", "question"), ("auxiliary", "question"), ("main", "build"))
    ]
    failed = question(1, error="gave up", calls=calls[:1])
    records = [question(0, calls=calls, context_tokens=70), failed]
    assert question_costs(records, "question.main.tokens") == [13, 13]
    assert question_costs(records, "question.all.calls") == [2, 1]
    assert question_costs(records, "question.auxiliary.prompt_tokens") == [10, 0]
    assert question_costs(records, "question.context_tokens") == [70, None]
    for bad in ("build.main.tokens", "question.main.usd", "question.seconds"):
        with pytest.raises(UserError, match="question by question"):
            question_costs(records, bad)
    with pytest.raises(UserError, match="Did you mean 'main'"):
        question_costs(records, "question.mian.tokens")


DISTRIBUTION = """
kind: distribution
title: Lengths
paper: mgretrieval
number: "3"
table: mgretrieval-1
label: tokens
"""


def test_context_lengths_sum_over_rounds_and_keep_the_rest(bench, question) -> None:
    records = [question(0, steps=[30, 12]), question(1, error="x"), question(2, context_tokens=9)]
    data = [bench.data("MGRetrieval", records), bench.missing("RAG", "no key")]
    points = distribution.frame(parse_figure(DISTRIBUTION, "x"), data)
    found = [(p.system, p.index, p.tokens, p.rounds, p.by_round, p.largest) for p in points]
    assert found == [
        ("MGRetrieval", 0, 42, 2, "30 12", 30), ("MGRetrieval", 2, 9, 1, "", 9),
        ("RAG", None, None, None, "", None),
    ]  # fmt: skip
    assert [p.n for p in points] == [2, 2, 0] and points[2].reason == "no key"


def test_a_run_that_only_retrieved_has_no_context_lengths(bench, question) -> None:
    points = distribution.frame(
        parse_figure(DISTRIBUTION, "x"), [bench.data("RAG", [question(0, answer=None)])]
    )
    assert [(p.tokens, p.reason) for p in points] == [(None, "no question was answered")]


def test_bins_are_equal_steps_of_the_logarithm_that_hold_all_lengths() -> None:
    found = distribution.edges([10, 0, 99])
    assert found[0] == 10.0 and found[-2] <= 99 < found[-1]
    steps = {round(b / a, 9) for a, b in pairwise(found)}
    assert steps == {round(10 ** (1 / 16), 9)}


BARS = """
kind: bars
title: Best
paper: memgas
number: "1a"
table: memgas-7
measures: ["recall_all@1"]
best_of: [Session, Turn]
best_label: Optimal
"""


def ranked(question, index: int, hit: bool, **changes):
    return question(index, ranked_sessions=["s1", "s2"] if hit else ["s2", "s1"], **changes)


def test_the_best_is_taken_for_each_question_over_shared_questions(bench, question) -> None:
    session = [ranked(question, i, hit) for i, hit in enumerate([1, 0, 0, 1])]
    # in another order, and one question missing: joined by conversation and index
    turn = [ranked(question, i, hit) for i, hit in [(2, 0), (1, 1), (0, 0)]]
    other = [ranked(question, i, True) for i in range(4)]
    data = [
        bench.data("Session", session), bench.data("Turn", turn), bench.data("MemGAS", other)
    ]  # fmt: skip
    found = bars.frame(parse_figure(BARS, "x"), data)
    assert [(b.system, b.role, b.value, b.n) for b in found] == [
        ("Session", "single", 50.0, 4), ("Turn", "single", pytest.approx(100 / 3), 3),
        ("Optimal", "best", pytest.approx(200 / 3), 3), ("MemGAS", "other", 100.0, 4),
    ]  # fmt: skip
    best = found[2]
    assert "best of Session, Turn for each question" in best.definition
    assert best.run.split() == [data[0].folder, data[1].folder]


def test_there_is_no_best_where_an_alternative_is_missing(bench, question) -> None:
    data = [bench.data("Session", [ranked(question, 0, True)]), bench.missing("Turn", "no GPU")]
    best = bars.frame(parse_figure(BARS, "x"), data)[2]
    assert (best.value, best.reason, best.run) == (None, "Turn: no GPU", "")


def test_a_best_needs_values_of_single_questions_and_rows_that_exist(bench, question) -> None:
    data = [bench.data("Session", [question(0)]), bench.data("Turn", [question(0)])]
    with pytest.raises(UserError, match="no value for a question"):
        bars.frame(parse_figure(BARS.replace("recall_all@1", "bleu_corpus"), "x"), data)
    with pytest.raises(UserError, match="'Session' in best_of"):
        bars.frame(parse_figure(BARS, "x"), data[1:])


RADAR = """
kind: radar
title: Types
paper: memgas
number: "6"
table: memgas-1
measures: [f1_squad]
"""


def test_spokes_are_means_by_type_in_the_benchmarks_order_few_flagged(bench, question) -> None:
    records = [question(i, category="4", answer="red car" if i % 2 else "no") for i in range(30)]
    records += [question(40, category="2"), question(41, category="2", error="gave up")]
    data = [bench.data("MemGAS", records), bench.missing("RAPTOR", "no umap")]
    spokes = radar.frame(parse_figure(RADAR, "x"), data, category_names)
    assert [(s.system, s.name, s.value, s.n, s.failed, s.few, s.reason) for s in spokes] == [
        ("MemGAS", "temporal", 100.0, 1, 1, True, ""),
        ("MemGAS", "single-hop", 50.0, 30, 0, False, ""),
        ("RAPTOR", "", None, 0, 0, False, "no umap"),
    ]


MATRIX = """
kind: matrix
title: Errors
paper: memgas
number: "7"
table: memgas-1
judge: judge_memgas
stated:
  - {dataset: locomo, row: MemGAS, outcome: "retrieved, answered right", value: 52.6}
"""


def shares(found) -> dict[str, tuple[int | None, float | None]]:
    return {s.outcome: (s.questions, s.value) for s in found}


def test_the_four_cases(bench, question) -> None:
    records = [
        question(0), question(1), question(2, ranked_sessions=["s2", "s1"]),
        question(3, ranked_sessions=["s2", "s1"]), question(4, error="gave up", answer=None),
        question(5, has_evidence=False, evidence_sessions=[]), question(6), question(7),
    ]  # fmt: skip
    verdicts = {0: 1.0, 1: 0.0, 2: 1.0, 3: 0.0, 4: None, 5: 1.0, 6: 2 / 3, 7: None}
    found = matrix.frame(
        parse_figure(MATRIX, "x"), [bench.data("MemGAS", records, verdicts, ask={"top_k": 1})]
    )
    third = pytest.approx(100 / 3)
    assert shares(found) == {
        matrix.BOTH: (2, third), matrix.GENERATION: (2, third),
        matrix.RETRIEVAL: (1, pytest.approx(100 / 6)), matrix.NEITHER: (1, pytest.approx(100 / 6)),
    }  # fmt: skip
    assert {s.n for s in found} == {6} and {s.k for s in found} == {1}
    assert [s.without_gold for s in found] == [0, 1, 0, 0]
    assert [s.published for s in found] == [52.6, None, None, None]
    assert {(s.failed, s.unjudged) for s in found} == {(1, 1)}


def test_all_gold_sessions_must_be_in_the_first_k_and_k_has_a_default(bench, question) -> None:
    both = question(0, evidence_sessions=["s1", "s4"], ranked_sessions=["s1", "s2", "s3", "s4"])
    spec = parse_figure(MATRIX, "x")
    by_default = matrix.frame(spec, [bench.data("A", [both], {0: 1.0})])
    own = matrix.frame(spec, [bench.data("A", [both], {0: 1.0}, ask={"top_k": 4})])
    assert shares(by_default)[matrix.GENERATION] == (1, 100.0) and by_default[0].k == 3
    assert shares(own)[matrix.BOTH] == (1, 100.0) and own[0].k == 4


def test_systems_without_a_ranking_have_the_answers_axis_alone(bench, question) -> None:
    records = [question(i, ranked_sessions=None) for i in range(4)]
    data = bench.data("Full History", records, {0: 1.0, 1: 0.0, 2: 0.0, 3: 0.0})
    found = matrix.frame(parse_figure(MATRIX, "x"), [data])
    assert shares(found) == {matrix.RIGHT: (1, 25.0), matrix.WRONG: (3, 75.0)}
    assert {s.k for s in found} == {None}


def test_a_control_that_is_shown_the_evidence_reads_all_of_it(bench, question) -> None:
    gold = ["s1", "s2", "s3", "s4"]
    seen = question(
        0, evidence_sessions=gold, ranked_sessions=[*gold, "s5"], trace={"control": "Oracle"}
    )
    data = bench.data("Oracle", [seen], {0: 0.0}, row={"ours": True})
    found = matrix.frame(parse_figure(MATRIX, "x"), [data])
    assert shares(found)[matrix.RETRIEVAL] == (1, 100.0)
    assert all(s.ours and s.k is None for s in found)


def test_rows_without_verdicts_say_so(bench, question) -> None:
    data = [bench.data("A", [question(0)], {}), bench.missing("B", "no key")]
    found = matrix.frame(parse_figure(MATRIX, "x"), data)
    assert [(s.value, s.reason) for s in found] == [
        (None, "no answer was judged"), (None, "no key")
    ]  # fmt: skip


def test_the_papers_shares_fit_its_recall_only_with_abstentions_as_not_retrieved() -> None:
    """The rule behind `without_gold`: 263 + 106 of 500 retrieved are the 369 of 470 of Table 2."""
    both, generation, neither = 263, 38, 93
    retrieval = 500 - both - generation - neither
    assert (round(both / 5, 1), round(neither / 5, 1)) == (52.6, 18.6)
    assert round((both + generation) / 5, 2) == 60.20
    assert round(100 * (both + retrieval) / 470, 2) == 78.51


def test_a_frame_as_csv_ends_with_where_it_came_from(bench, question) -> None:
    data = [bench.data("l = 4", [question(0)], cut="3 questions")]
    text = comma_separated(lines.frame(sweep(), data, TABLE, category_names))
    head, first = text.splitlines()[:2]
    assert head == (
        "block,system,facet,panel,line,x,x_text,chosen,measure,definition,value,low,high,"
        "n,failed,level,differences,run,reason"
    )
    assert first.startswith("LoCoMo,l = 4,all questions,score,F1,4.000000,4,yes,f1_set,")
    assert ",100.000000,,,1,0,cut,data: cut to 3 questions; prompts: ours," in first


def test_shards_of_an_unfinished_run_are_read_together(bench, question, tmp_path) -> None:
    folder = bench.folder([question(0)], None)
    (folder / "records.jsonl").rename(folder / "records.1-of-2.jsonl")
    data = read_run(
        Block(label="b", dataset="locomo"), Row(label="r", method="memgas"), folder, bench.root
    )
    assert len(data.records) == 1
    assert data.folder.startswith("results/runs/")
