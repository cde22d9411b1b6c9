"""Sessions, scripted replies and settings that the tests of MemoryOS share."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path

import yaml
from doubles import tools

from baselines.memoryos import MemoryOS, MemoryOSAsk, MemoryOSBuild
from memsys.dialogue import Query, Session, Turn

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "configs/method/memoryos.yaml").read_text())
EVAL = MemoryOSBuild(**{**CONFIG["build"], **CONFIG["presets"]["official"]["build"]})
EVAL_ASK = MemoryOSAsk(**{**CONFIG["ask"], **CONFIG["presets"]["official"]["ask"]})
PAPER = MemoryOSBuild()
QUERY = Query("What did Mia buy?")


def spoken(name, speakers, day=1):
    """A session whose speakers are given by letters: `MLLM`."""
    names = {"M": "Mia", "L": "Leo"}
    turns = tuple(Turn(f"{name}.{i}", names[s], f"{name} line{i}") for i, s in enumerate(speakers))
    return Session(name, turns, datetime(2023, 6, day, 9))


def theme(content, keywords=()):
    return {"theme": "t", "keywords": list(keywords), "content": content}


def replying(**replies):
    """A script; a reply given by name is a text or a function of the last message."""
    usual = {
        "continuity": "true",
        "chain": "the thread so far",
        "themes": lambda text: json.dumps({"themes": [theme(text.split()[-1])]}),
        "persona": '{"profile": "likes boats", "facts": ["Mia bought a kayak."]}',
        "assistant_facts": '{"facts": ["Leo has wax."]}',
        "merge": "merged profile",
        "keywords": "kayak, boat",
        "protocol": "a kayak",
    }

    def script(request, role, prompt):
        folder, name = prompt.split("/")
        reply = {**usual, **replies}.get("protocol" if folder == "protocol" else name, "")
        return reply(request.messages[-1].content) if callable(reply) else reply

    return script


ONE = json.dumps({"themes": [theme("boats and water", ["boat"])]})


def memoryos(script=None, build=PAPER, ask=None, encoder=None, window=128_000):
    return MemoryOS(
        build, ask or MemoryOSAsk(), tools(script or replying(), encoder, window=window)
    )


def build(system, *sessions):
    return asyncio.run(system.remember(None, sessions))


def said(*sessions):
    return {t.id for s in sessions for t in s.turns}


def held(memory):
    return {t for u in memory.units for t in u.turns}


LONG = [spoken("a", "ML" * 6), spoken("b", "LMMLLM" * 2, 3), spoken("c", "ML" * 4, 9)]
