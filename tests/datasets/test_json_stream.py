from __future__ import annotations

import gc
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsys.datasets import json_stream
from memsys.datasets.json_stream import no_collection, stream_records
from memsys.errors import UserError

TRICKY = 'quote " brace { [ } ] backslash \\ {"id": 1}, {"id": é 😀\n'
RECORDS = [{"id": f"r{i}", "text": TRICKY, "inner": [i, {"x": {"y": []}}]} for i in range(40)]


@pytest.fixture(params=[64, 100, 4 * 2**20])
def block(request, monkeypatch):
    """Blocks so small that keys, escapes and characters are cut in two, and the real size."""
    monkeypatch.setattr(json_stream, "BLOCK", request.param)


@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"separators": (",", ":")}])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_records_come_out_as_they_went_in(save, block, layout, ascii_only):
    text = json.dumps(RECORDS, ensure_ascii=ascii_only, **layout)
    assert list(stream_records(save(text))) == RECORDS
    assert list(stream_records(save("\ufeff" + text + "\n"))) == RECORDS


def test_an_empty_list(save, block):
    assert list(stream_records(save(" [ ]\n"))) == []


def test_records_that_begin_with_another_key(save, block):
    records = [{"id": 1}, {"other": 2}, {"id": 3}, {"last": 4}, {"last": 5}]
    assert list(stream_records(save(records))) == records


inner = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.fixed_dictionaries({"first key": inner}), min_size=1, max_size=8))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80
)
def test_any_list_of_records(save, values):
    assert list(stream_records(save(values))) == values


@pytest.mark.parametrize("end", [-1, -2, -30, 700, 1500, 2000])
def test_a_broken_download_names_the_record(save, block, end):
    text = json.dumps(RECORDS)
    whole = []
    with pytest.raises(UserError) as error:
        for record in stream_records(save(text[:end])):
            whole.append(record)
    assert whole == RECORDS[: len(whole)]
    message = str(error.value)
    assert "file.json" in message
    assert f"record {len(whole) + 1}" in message or f"after record {len(whole)}" in message


def test_damage_in_the_middle_names_the_record(save, block):
    text = json.dumps(RECORDS)
    place = text.index('"r20"')
    with pytest.raises(UserError, match="record 21 is not valid JSON"):
        list(stream_records(save(text[:place] + "oops" + text[place:])))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!DOCTYPE html><html>", "a web page"),
        ('{"id": 1}', "not a JSON list of records"),
        ("", "not a JSON list of records"),
        ("[1, 2]", "not a JSON list of records"),
        ('[{"id": 1}] trailing', "not a JSON list that ends after record 1"),
    ],
)
def test_other_files(save, text, message):
    with pytest.raises(UserError, match=message):
        list(stream_records(save(text)))


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        list(stream_records(tmp_path / "none"))


def test_only_one_record_is_held_at_a_time(save, monkeypatch):
    monkeypatch.setattr(json_stream, "BLOCK", 100_000)
    path = save([{"id": i, "text": "x" * 50_000} for i in range(200)])
    import tracemalloc

    tracemalloc.start()
    for _ in stream_records(path):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # of 10 MB


def test_the_collector_is_left_as_it_was():
    assert gc.isenabled()
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
