"""Planned against actual: each system on LoCoMo's first conversation with the scripted server.

    python scripts/bench/planned.py                        every system
    python scripts/bench/planned.py rag memr3 --limit 40   some, on some questions
    python scripts/bench/planned.py --short                the server gives the shortest replies

For each system: calls and tokens planned (low, expected, high) and used, and expected / used. The
bar: tokens within 20 %; calls within 1 where they do not depend on replies. Needs LoCoMo's file
and the embedded encoder. Results go to a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

BAR = 0.2
SHORT = 100  # characters: a field that may be no longer is a keyword


def lifelike(body: dict[str, Any]) -> str:
    """A reply as models give them: 2 to 6 entries a list, 1 to 4 words a field, 20 to 120 a text.

    Words come from all over the prompt's last message. A keyword has one or two, or is
    a name, half the time, as in the worked examples; where the message lists what to choose from,
    it is an entry, rather one that is named beside the list. Yes and no, and the values of a
    choice, come equally often.
    """
    from openai_server import content_hash

    seed = content_hash(body)
    asked = body["messages"][-1]["content"]
    words = re.findall(r"\w{3,}", asked) or ["nothing"]
    entries = _entries(asked.splitlines())
    form = (body.get("response_format") or {}).get("json_schema")
    if form is not None:
        return json.dumps(_value(form["schema"], form["schema"], seed, words, entries))
    shown = [m["content"] for m in body["messages"][:-1] if m["role"] == "assistant"]
    if shown and body["max_tokens"] > 16:  # it keeps to the form of worked examples
        return _words(seed, words, 1 + _pick(seed, 2 * max(len(s.split()) for s in shown)))
    told = re.search(r"[Uu]se at most (\d+) sentences", body["messages"][-1]["content"])
    if told:
        return _words(seed, words, 10 * int(told[1]))  # a model that does as it is told
    if body["max_tokens"] <= 16:
        return ("true", "false")[_pick(seed, 2)]
    return _words(seed, words, min(int(0.7 * body["max_tokens"]), 20 + _pick(seed, 101)))


def _entries(lines: Sequence[str]) -> Sequence[str]:
    """Return the entries of a list to choose from: short lines, those that other lines name."""
    short = [line for line in lines if 0 < len(line.split()) <= 4 and line[-1] != ":"]
    if len(short) < 5:
        return ()
    beside = " ".join(line for line in lines if line not in short).lower()
    return [entry for entry in short if entry.lower() in beside] or short


def _value(
    schema: dict[str, Any],
    root: dict[str, Any],
    seed: str,
    words: Sequence[str],
    entries: Sequence[str],
) -> Any:
    def within(part: dict[str, Any], place: str) -> Any:
        return _value(part, root, place, words, entries)

    if "$ref" in schema:
        return within(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], seed)
    if "anyOf" in schema:
        return within(schema["anyOf"][_pick(seed, len(schema["anyOf"]))], seed)
    if "enum" in schema:
        return schema["enum"][_pick(seed, len(schema["enum"]))]
    kind = schema.get("type", "object")
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: within(part, f"{seed}.{name}") for name, part in parts.items()}
    if kind == "array":
        least, most = schema.get("minItems", 2), schema.get("maxItems", 6)
        count = min(most, least + _pick(seed, max(1, most - least + 1)))
        return [within(schema["items"], f"{seed}.{i}") for i in range(count)]
    if kind == "boolean":
        return _pick(seed, 2) == 0
    if kind in ("integer", "number"):
        return schema.get("minimum", 0) + _pick(seed, 10)
    if kind == "null":
        return None
    if schema.get("maxLength", SHORT + 1) > SHORT:
        return _words(seed, words, 1 + _pick(seed, 4))
    if entries:
        return entries[_pick(seed, len(entries))]
    names = [word for word in words if word[0].isupper()]
    if names and _pick(f"{seed}name", 2):
        return names[_pick(seed, len(names))]
    return _words(seed, words, 1 + _pick(seed, 2))


def _words(seed: str, words: Sequence[str], count: int) -> str:
    return " ".join(words[_pick(f"{seed}{i}", len(words))] for i in range(count))


def _pick(seed: str, most: int) -> int:
    return int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16) % most


def judged(script: Any) -> Any:
    """Answer judges readably: an unreadable verdict would be asked for twice."""

    def reply(body: dict[str, Any]) -> str:
        return "[[yes]]" if "[[yes]]" in body["messages"][-1]["content"] else str(script(body))

    return reply


def overrides(
    method: str, base_url: str, results: Path, arguments: argparse.Namespace
) -> list[str]:
    """Return the settings of one run."""
    roles = ("main", "auxiliary", "judge")
    return [
        f"method={method}", f"protocol={arguments.protocol}", "dataset=locomo",
        "dataset.max_conversations=1", "measures=[f1_squad]", "progress=off",
        *([f"dataset.limit={arguments.limit}"] if arguments.limit else []),
        *(f"llm@llm.{role}=openai" for role in roles),
        *(f"llm.{role}.{key}" for role in roles for key in (
            "model=test-model", "tokenizer=null", f"base_url={base_url}")),
        *(["method.build.compressor=none"] if method == "secom" else []),
        f"paths.results={results}",
    ]  # fmt: skip


def systems() -> list[str]:
    """Return every method that there is a config for."""
    return sorted(path.stem for path in (ROOT / "configs" / "method").glob("*.yaml"))


async def compared(
    names: Sequence[str], base_url: str, results: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Plan each system, run it, and put both beside each other."""
    from eval.command import carry_out
    from eval.config import CONFIGS, ROOT, compose
    from eval.plan.estimate import Planner
    from eval.plan.replies import Manners
    from eval.progress import Board
    from eval.resources import Resources
    from eval.spec import RunSpec
    from eval.summary import costs

    rows = []
    for name in names:
        resources = Resources()
        config = compose(overrides(name, base_url, results / name, arguments))
        planner = Planner(resources, Manners.read(CONFIGS), conversations=1, questions=10_000)
        plan = await planner.plan(name, (), config)
        if plan.problem is not None:
            print(f"{name}: {plan.problem}", flush=True)
            continue
        done = await carry_out(RunSpec.of(config, resources, ROOT), Board("off"))
        found = costs(done.records, done.builds, done.judgements)["by_phase_and_role"].values()
        calls = sum(place["calls"] for place in found)
        tokens = sum(place["prompt_tokens"] + place["completion_tokens"] for place in found)
        planned = [a + b for a, b in zip(
            plan.total("tokens_in").plain(), plan.total("tokens_out").plain(), strict=True
        )]  # fmt: skip
        parts = {}
        for place, used in costs(done.records, done.builds, done.judgements)[
            "by_phase_and_role"
        ].items():
            phase, role = place.split("/")
            made = sum(plan.of((phase, role), key).expected for key in ("tokens_in", "tokens_out"))
            parts[place] = round(made / (used["prompt_tokens"] + used["completion_tokens"]), 3)
        rows.append({
            "parts": parts,
            "system": name, "planned_calls": plan.total("calls").plain(), "calls": calls,
            "planned_tokens": planned, "tokens": tokens,
            "ratio": planned[1] / tokens if tokens else 1.0, "failed": done.failed,
        })  # fmt: skip
        row = rows[-1]
        print(
            f"{name:<14} calls {row['planned_calls']!s:<22} used {calls:<6} "
            f"tokens {planned!s:<34} used {tokens:<9} ratio {row['ratio']:.3f} {parts}",
            flush=True,
        )
        await resources.close()
    return rows


def main() -> int:
    """Compare, print, and say whether the bar is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems", nargs="*", help="default: all")
    parser.add_argument("--protocol", default="mgretrieval")
    parser.add_argument("--limit", type=int, help="ask so many questions only")
    parser.add_argument("--short", action="store_true", help="1 to 3 entries a list, two words")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "sk-test")

    from openai_server import OpenAIServer, scripted

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    # without usage from the server, both sides count with the same tokenizer
    server = OpenAIServer(script=judged(scripted if arguments.short else lifelike), usage=False)
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    names = arguments.systems or systems()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(compared(names, server.base_url, Path(folder), arguments))
    off = [row["system"] for row in rows if abs(row["ratio"] - 1) > BAR]
    print(f"{len(rows)} systems, {len(rows) - len(off)} within {BAR:.0%}"
          + (f"; outside: {', '.join(off)}" if off else ""))  # fmt: skip
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
