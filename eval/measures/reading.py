"""Items from files: a run's records with its judgements, or anyone's JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval.measures.item import Item, check_verdict
from memsys.errors import UserError

RECORDS = "records.jsonl"
Key = tuple[str, str, str]
_SHOWN = 5  # of ids that stand twice
_OURS = re.compile(r"(records|judgements-[0-9a-f]+)(\.\d+-of-\d+)?\.jsonl")


def read_items(path: Path, judgements: Path | None = None) -> list[Item]:
    """Read the items of a run's folder, a `records.jsonl`, a JSON-lines file or a JSON list.

    Records take their verdicts from `judgements`, or from every `judgements-*.jsonl` beside them.
    A question that a resumed run asked again counts once, by its last record. Raises `UserError`
    with the file and the line (or entry) for whatever cannot be read.
    """
    files = sorted(path.glob("records*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path} is a folder without {RECORDS}.")
    latest: dict[Key, Item] = {}
    for file in files:
        places: dict[str, list[str]] = {}
        for place, line in _objects(file):
            item = _item(file, place, line)
            key = _key(line)
            if key is None:
                places.setdefault(_named(line), []).append(place)
            latest[key or ("line", place, "")] = item
        _refuse_twins(file, places)
    if not latest:
        raise UserError(f"{path} holds no items to score.")
    folder = files[0].parent
    is_run = any(key[0] == "record" for key in latest)
    beside = sorted(folder.glob("judgements-*.jsonl")) if is_run else []
    for key, verdicts in _verdicts([judgements] if judgements else beside).items():
        if key in latest:
            item = latest[key]
            latest[key] = replace(item, judgements={**item.judgements, **verdicts})
    return list(latest.values())


def _item(file: Path, place: str, line: Any) -> Item:
    if not isinstance(line, dict):
        raise UserError(f"{file}, {place}: expected a JSON object.")
    try:
        return Item.of(line)
    except UserError as fault:
        raise UserError(f"{file}, {place}: {fault}.") from None


def _key(line: Any) -> Key | None:
    """Return what identifies a record: conversation and index, never its text."""
    if "index" not in line or "conversation" not in line:
        return None
    return "record", str(line["conversation"]), str(line["index"])


def _named(line: Any) -> str:
    """Return what names a plain object: its id, with its conversation where it has one."""
    conversation = line.get("conversation")
    return f"{line['id']}" if conversation is None else f"{conversation}/{line['id']}"


def _refuse_twins(file: Path, places: Mapping[str, Sequence[str]]) -> None:
    """Raise `UserError` where two plain objects have one id: which is meant nobody can tell."""
    twins = {name: where for name, where in places.items() if len(where) > 1}
    if not twins:
        return
    shown = "; ".join(f"'{n}' ({', '.join(where)})" for n, where in list(twins.items())[:_SHOWN])
    more = f"; and {len(twins) - _SHOWN} more" if len(twins) > _SHOWN else ""
    raise UserError(f"{file}: every id may stand once, but these stand more often: {shown}{more}.")


def _verdicts(files: Sequence[Path]) -> dict[Key, dict[str, Any]]:
    """Return each record's verdicts by judge; one judge's must not come from two files."""
    found: dict[Key, dict[str, Any]] = {}
    source: dict[tuple[Key, str], Path] = {}
    for file in files:
        for place, line in _objects(file):
            key = _key(line) if isinstance(line, dict) else None
            if key is None or "judge" not in line:
                raise UserError(f"{file}, {place}: expected a judgement of a record.")
            judge = str(line["judge"])
            other = source.setdefault((key, judge), file)
            if other != file:
                raise UserError(
                    f"{other.name} and {file.name} both hold verdicts of judge '{judge}':"
                    " name one with --judgements."
                )
            verdict = line.get("verdicts") or {}
            try:
                check_verdict(judge, verdict)
            except UserError as fault:
                raise UserError(f"{file}, {place}: {fault}.") from None
            found.setdefault(key, {})[judge] = verdict
    return found


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield every JSON value of a file with the words that say where it stands."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as fault:
        raise UserError(f"{path} is not UTF-8 text ({fault.reason}).") from None
    except OSError as fault:
        raise UserError(f"{path} cannot be read ({fault.strerror}).") from None
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise UserError(f"{path}: malformed JSON ({fault}).") from None
        yield from ((f"entry {i}", entry) for i, entry in enumerate(entries, 1))
        return
    lines = text.split("\n")  # not splitlines: JSON strings may hold U+2028
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as fault:
            if number == len(lines) and _OURS.fullmatch(path.name):
                return  # the torn last line of an interrupted run
            raise UserError(f"{path}, line {number}: malformed JSON ({fault}).") from None
        yield f"line {number}", value
