"""Measures as values: names, titles, equality, typing errors; adding one touches no file."""

import pickle
import re
import subprocess
import sys

import pytest

from eval.measures.base import CorpusMeasure
from eval.measures.item import Item
from eval.measures.registry import makers, parse, parse_all
from memsys.errors import UserError

TEXT = (
    "f1_locomo f1_squad f1_set f1_memoryos bleu_corpus bleu1 rouge1 rouge2 rougeL rouge1_stem "
    "rouge2_stem rougeL_stem meteor meteor_nowordnet bertscore subspan_em recall_all@3 "
    "recall_any@5 recall_fraction@10 ndcg@3 ndcg_standard@3 judge_memgas judge_longmemeval "
    "judge_gvd_acc judge_gvd_corr judge_gvd_cohe"
)
NAMES = TEXT.split()


@pytest.mark.parametrize("name", NAMES)
def test_every_published_name(name):
    measure = parse(name)
    assert str(measure) == measure.name == name
    assert measure == parse(name)
    assert hash(measure) == hash(parse(name))
    assert pickle.loads(pickle.dumps(measure)) == measure
    assert re.fullmatch(r"[^()]+ \(.+\)", measure.title)
    assert measure.version >= 1
    assert measure.higher_is_better
    assert measure.needs in ("answer", "ranking", "judgement")


def test_all_names_and_titles_differ():
    assert {re.sub(r"@\d+", "@k", n) for n in NAMES} == set(makers())
    titles = [parse(name).title for name in NAMES]
    assert len(set(titles)) == len(titles)


def test_post_processing_is_part_of_name_and_title():
    for name in NAMES:
        measure = parse(name)
        if measure.needs == "answer":
            prefixed = parse(f"secom:{name}")
            assert prefixed.name == f"secom:{name}"
            assert prefixed != measure
            assert prefixed.title != measure.title
            assert isinstance(prefixed, CorpusMeasure) == isinstance(measure, CorpusMeasure)
        else:
            with pytest.raises(UserError, match="does not read"):
                parse(f"secom:{name}")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("f1_squd", "f1_squad"),
        ("rougel", "rougeL"),
        ("recal_all@3", "recall_all@3"),
        ("secon:f1_squad", "secom"),
        ("meteor_no_wordnet", "meteor_nowordnet"),
        ("recall_all", "recall_all@k"),
    ],
)
def test_typing_errors_suggest_the_nearest_name(typed, meant):
    with pytest.raises(UserError, match=re.escape(f"Did you mean '{meant}'?")):
        parse(typed)


def test_lists_of_names():
    assert [m.name for m in parse_all("f1_set, ndcg@3,,f1_set")] == ["f1_set", "ndcg@3"]
    with pytest.raises(UserError):
        parse_all("f1_set,nonsense")


def test_judged_measures_read_verdicts():
    verdict = {"scores": {"correct": 1.0}, "model": "m", "prompts": ["judge/memgas@abc"]}
    items = [
        Item("1", answer="a", judgements={"memgas": verdict}),
        Item("2", answer="a", judgements={"memgas": {"scores": None}}),
        Item("3", answer="a"),
        Item("4", failed=True, judgements={"memgas": verdict}),
    ]
    measure = parse("judge_memgas")
    assert measure.per_item(items) == [1.0, None, None, None]
    title = measure.describe(items, 1)
    assert title == "GPT4o-J (MemGAS's binary judge; m; judge/memgas@abc; k/1)"
    twice = {**verdict, "samples": [{}, {}]}
    assert measure.describe([Item("1", judgements={"memgas": twice})], 1).endswith("n=1)")


def test_no_heavy_import_before_it_is_needed():
    code = (
        "import sys, eval.measures.registry as r; r.makers();"
        "print([m for m in ('torch', 'transformers', 'nltk', 'scipy', 'pandas', 'rouge_score')"
        " if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == "[]"
