import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from memsys.dialogue import Session, Turn
from memsys.mgretrieval.items import memory_items

SESSION = Session(
    "session_3",
    (
        Turn("D3:1", "Ann", "Look!", caption="a red kite"),
        Turn("D3:2", "Ben", "Nice."),
        Turn("D3:3", "Ann", "One."),
        Turn("D3:4", "Ann", "Two."),
        Turn("D3:5", "Ben", "Three."),
    ),
    datetime(2023, 5, 8, 13, 56),
)


def test_exchanges_pair_a_turn_with_the_next_speaker() -> None:
    items = memory_items(SESSION, "exchange")
    assert [i.unit.id for i in items] == ["session_3:0-1", "session_3:2", "session_3:3-4"]
    assert [i.unit.turns for i in items] == [("D3:1", "D3:2"), ("D3:3",), ("D3:4", "D3:5")]
    assert [i.speakers for i in items] == [("Ann", "Ben"), ("Ann",), ("Ann", "Ben")]
    assert items[0].unit.text == (
        "[8 May 2023, 1:56 pm]\nAnn: Look! [image: a red kite]\nBen: Nice."
    )
    assert {i.unit.sessions for i in items} == {("session_3",)}


def test_single_turns() -> None:
    items = memory_items(SESSION, "turn")
    assert [i.unit.id for i in items] == [f"session_3:{n}" for n in range(5)]
    assert memory_items(Session("empty", ()), "exchange") == []


@pytest.mark.data
def test_locomo_has_as_many_items_as_the_paper_implies() -> None:
    source = Path(os.environ.get("MEMSYS_DATA", "")) / "locomo" / "locomo10.json"
    if not source.is_file():
        pytest.skip("needs the real LoCoMo under MEMSYS_DATA")
    exchanges = turns = 0
    for sample in json.loads(source.read_text(encoding="utf-8")):
        for key, said in sample["conversation"].items():
            if isinstance(said, list):
                spoken = (Turn(turn["dia_id"], turn["speaker"], turn["text"]) for turn in said)
                session = Session(key, tuple(spoken))
                exchanges += len(memory_items(session, "exchange"))
                turns += len(memory_items(session, "turn"))
    assert (exchanges, turns) == (3011, 5882)
