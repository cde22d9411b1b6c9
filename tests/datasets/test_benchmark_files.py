from __future__ import annotations

import hashlib
import json
import os

import pytest
import yaml
from pydantic import ValidationError

from memsys.datasets import files
from memsys.datasets.base import Rules
from memsys.datasets.configured import benchmark_names, configured
from memsys.datasets.gvd import GVD
from memsys.datasets.locomo import LoCoMo
from memsys.datasets.long_mt_bench_plus import LongMTBenchPlus
from memsys.datasets.longmemeval import LongMemEval
from memsys.datasets.manifest import DATASETS, FileSource, Release, Source, Variant, source_names
from memsys.datasets.notes import tfidf_keywords
from memsys.errors import UserError

ALL = (LoCoMo, GVD, LongMemEval, LongMTBenchPlus)
GOOD = b'[{"a": 1}]'
OTHER = b'[{"a": 2}]'


def sha(content):
    return hashlib.sha256(content).hexdigest()


def card(content=GOOD, **more):
    return FileSource(
        key="f", path="f.json", url="http://x/f", size=len(content), sha256=sha(content), **more
    )


def source(**more):
    releases = {
        "old": Release(source="x", files=(card(),)),
        "new": Release(source="x", files=(card(OTHER),)),
    }
    known = {"name": "toy", "title": "Toy", "licence": "MIT", "licence_note": "", "homepage": ""}
    return Source(citation="", releases=releases, **known, **more)


# ------------------------------------------------------------------ checksums


def test_the_published_file_is_taken(tmp_path):
    path = tmp_path / "f.json"
    path.write_bytes(GOOD)
    found = files.verified(path, card(), source())
    assert (found.size, found.sha256, found.name) == (len(GOOD), sha(GOOD), "f.json")


BLOB = hashlib.sha1(b"blob 14\0" + b'[{"a": 33333}]').hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (OTHER, "f.json of the release 'new' (set dataset.release=new)"),
        (b"<!DOCTYPE html><p>404", "it is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (GOOD[:5], "the download broke off"),
        (b'[{"a": 33333}]', "it is the corrected copy"),
        (b'[{"a": 44444}]', "its sha256 is"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, content, message):
    path = tmp_path / "f.json"
    path.write_bytes(content)
    variants = (Variant(size=14, git_blob=BLOB[:8], what="the corrected copy."),)
    with pytest.raises(UserError) as error:
        files.verified(path, card(), source(variants=variants))
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_without_a_published_checksum_is_recorded(tmp_path):
    path = tmp_path / "f.json"
    path.write_bytes(OTHER)
    unknown = FileSource(key="f", path="f.json", hub="a/b")
    assert files.verified(path, unknown, source()).sha256 == sha(OTHER)


def test_big_files_are_hashed_once_until_they_change(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BIG_FILE", 4)
    monkeypatch.setattr(files, "CHECKSUMS", tmp_path / "stores" / "checksums.json")
    hashed = []
    original = files.hash_file
    monkeypatch.setattr(files, "hash_file", lambda path: hashed.append(path) or original(path))
    path = tmp_path / "big.json"
    path.write_bytes(GOOD)
    os.utime(path, ns=(1, 1))

    def again():
        files._sha256.cache_clear()  # as a new process would
        return files.sha256_of(path)

    assert [again(), again()] == [sha(GOOD)] * 2
    assert len(hashed) == 1
    path.write_bytes(OTHER)
    os.utime(path, ns=(2, 2))
    assert again() == sha(OTHER)
    assert len(hashed) == 2
    (tmp_path / "stores" / "checksums.json").write_text("torn {")
    assert again() == sha(OTHER)


# ------------------------------------------------------------------ where files are found


def place(root, content, name="locomo10.json"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_without_any_file_the_sample_is_read_and_said(no_data, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(files, "search_folders", lambda _: [tmp_path])
    monkeypatch.setattr("memsys.datasets.base.search_folders", lambda _: [tmp_path])
    info = LoCoMo().info()
    assert (info.is_sample, info.release, info.label) == (True, "sample", "synthetic sample")
    assert "synthetic sample" in caplog.text
    with pytest.raises(UserError) as error:
        LoCoMo(sample="never").info()
    for part in ("scripts/fetch.py locomo", "locomo10.json from https://", str(tmp_path)):
        assert part in str(error.value)


def test_memsys_data_comes_before_the_checkout(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMSYS_DATA", str(tmp_path))
    folders = files.search_folders(LoCoMo().source)
    assert folders == [tmp_path / "locomo", DATASETS / "locomo" / "data"]


def test_a_wrong_file_never_falls_back_to_the_sample(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMSYS_DATA", str(tmp_path))
    place(tmp_path / "locomo", b"[]")
    with pytest.raises(UserError, match="not locomo10.json as published"):
        LoCoMo().info()


def test_half_a_benchmark_never_falls_back_to_the_sample(monkeypatch, tmp_path):
    monkeypatch.setattr("memsys.datasets.base.search_folders", lambda _: [tmp_path])
    place(tmp_path, b"{}", "en/memory_bank_en.json")
    with pytest.raises(UserError, match="probing_questions_en.jsonl from https://"):
        GVD().info()


def test_another_release_is_never_replaced_by_the_sample(monkeypatch, tmp_path):
    monkeypatch.setattr("memsys.datasets.base.search_folders", lambda _: [tmp_path])
    place(tmp_path, b"[]", "longmemeval_s_cleaned.json")
    with pytest.raises(UserError, match="set dataset.release=cleaned"):
        LongMemEval().info()
    # parts to rebuild from are no release
    place(tmp_path, b"[]", "mtbenchplus.json")
    assert LongMTBenchPlus().info().is_sample


def test_an_explicit_path_is_the_only_place(tmp_path):
    with pytest.raises(UserError, match="does not hold locomo10.json"):
        LoCoMo(path=tmp_path / "nowhere").info()
    place(tmp_path, b"[]", "copy.json")
    assert LoCoMo(path=tmp_path / "copy.json", release="custom").info().label == "custom file"
    with pytest.raises(UserError, match="as published"):
        LoCoMo(path=tmp_path / "copy.json").info()
    with pytest.raises(UserError, match="needs dataset.path"):
        LoCoMo(release="custom").info()


def test_information_names_no_place_on_this_machine(tmp_path):
    path = place(tmp_path, b"[]")
    plain = LoCoMo(path=path, release="custom").info().plain()
    assert str(tmp_path) not in json.dumps(plain)
    assert plain["files"] == [{"name": "locomo10.json", "size": 2, "sha256": sha(b"[]")}]


@pytest.mark.parametrize("kind", [GVD, LongMemEval, LongMTBenchPlus])
def test_annotations_are_refused_where_there_are_none(kind):
    with pytest.raises(UserError, match="metadata=dataset works with LoCoMo only"):
        kind(sample="always", metadata="dataset").info()
    with pytest.raises(UserError, match="metadata=dataset"):
        list(kind(sample="always", metadata="dataset").load(Rules()))


def test_annotation_metadata_is_labelled():
    info = LoCoMo(sample="always", metadata="dataset").info()
    assert info.plain()["metadata"] == "dataset"


@pytest.mark.data
def test_annotation_metadata_is_labelled_on_the_real_file(real):
    real("locomo/locomo10.json")
    assert LoCoMo(metadata="dataset").info().label == "annotation metadata"
    assert LoCoMo().info().label is None


# ------------------------------------------------------------------ cards and configs


def test_every_benchmark_has_a_card_for_people_and_one_for_machines():
    assert source_names() == ["gvd", "locomo", "long_mt_bench_plus", "longmemeval"]
    for kind in ALL:
        card = kind(sample="always").source
        assert card.title == kind.title
        assert (card.folder / "README.md").is_file()
        for release in card.releases.values():
            for file in release.files:
                assert file.url or file.hub
                assert file.sha256 is None or len(file.sha256) == 64


def test_no_python_in_the_datasets_folder_and_small_samples():
    assert not list(DATASETS.rglob("*.py"))
    size = sum(p.stat().st_size for p in DATASETS.glob("*/sample/**/*") if p.is_file())
    assert size < 300_000


@pytest.mark.parametrize("name", benchmark_names())
def test_configs_spell_out_every_setting(name):
    benchmark = configured(name)
    path = DATASETS.parent / "configs" / "dataset" / f"{name}.yaml"
    settings = yaml.safe_load(path.read_text("utf-8"))
    del settings["_target_"]
    assert set(settings) == set(type(benchmark).model_fields)
    if name != "longmemeval_s" and name.startswith("longmemeval"):
        return
    assert benchmark == type(benchmark)()


def test_overrides(capsys):
    assert configured("longmemeval-m").variant == "m"
    assert configured("gvd", ["language=cn", "limit=3"]) == GVD(language="cn", limit=3)
    for overrides, message in (
        (["langauge=cn"], "Did you mean 'language'"),
        (["language=fr"], "dataset.language=fr"),
        (["limit"], "key=value"),
        (["limit=0"], "dataset.limit=0"),
    ):
        with pytest.raises(UserError, match=message):
            configured("gvd", overrides)
    with pytest.raises(UserError, match="Did you mean 'locomo'"):
        configured("locmo")


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError):
        LoCoMo(captoins="all")
    with pytest.raises(ValidationError):
        Rules(evidence="repaird")


def test_rules_take_numbers_as_codes():
    assert Rules(categories=[1, 2]).categories == ("1", "2")


def test_keywords_are_at_most_twenty():
    sessions = next(iter(LoCoMo(sample="always").load(Rules()))).conversation.sessions
    keywords = tfidf_keywords(sessions)
    assert len(keywords) == len(sessions)
    assert all(len(set(k.split("; "))) == 20 for k in keywords)
