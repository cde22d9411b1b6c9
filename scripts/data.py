"""Look at benchmarks: python scripts/data.py show locomo conv-26 --question 3 | check | stats.

`show` prints a conversation, a question and its evidence in place; `check` loads every benchmark
that is found and prints its counts; `stats` prints MemGAS's Table 5, ours beside the published.
Settings of a dataset are given as --set key=value, e.g. --set language=cn.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from memsys.cli import console
from memsys.datasets.base import Benchmark, Rules, Sample
from memsys.datasets.configured import benchmark_names, configured
from memsys.datasets.statistics import Statistics, collect
from memsys.datasets.tokens import MEND, Counter, model_tokenizer, o200k
from memsys.dialogue import Question, Session
from memsys.errors import UserError, suggest

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "results" / "published" / "memgas.csv"
DASH = "–"
# the papers' names of our configs
TABLE_5 = {
    "locomo": "LoCoMo-10",
    "long_mt_bench_plus": "Long-MT-Bench+",
    "longmemeval_s": "LongMemEval-s",
    "longmemeval_m": "LongMemEval-m",
}
out = console(highlight=False)


def protocol_rules(name: str) -> Rules:
    """Return the rules of `configs/protocol/<name>.yaml`."""
    folder = ROOT / "configs" / "protocol"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = [p.stem for p in folder.glob("*.yaml")]
        raise UserError(f"no protocol is called '{name}'.{suggest(name, known)}")
    return Rules.model_validate(yaml.safe_load(path.read_text("utf-8")).get("rules", {}))


def show(options: argparse.Namespace) -> int:
    """Print a conversation, or a question with its evidence in place."""
    benchmark = configured(options.dataset, options.set)
    sample = find_sample(benchmark, protocol_rules(options.protocol), options.conversation)
    sessions: Iterable[Session] = sample.conversation.sessions
    evidence: set[str] = set()
    if options.question is not None:
        question = find_question(sample, options.question)
        out.print(question_panel(question, benchmark))
        evidence = set(question.evidence_turns)
        gold = set(question.evidence_sessions)
        for session in sessions:
            whole = options.all or session.id in gold or not gold
            out.print(session_view(session, evidence, whole=whole))
        return 0
    for session in sessions:
        out.print(session_view(session, evidence, whole=True))
    for question in sample.questions:
        out.print(Text(f"{question.index:4}  [{question.category}] {question.text}"))
    return 0


def find_sample(benchmark: Benchmark, rules: Rules, name: str) -> Sample:
    """Return the conversation with this id."""
    names = []
    for sample in benchmark.load(rules):
        if sample.conversation.id == name:
            return sample
        names.append(sample.conversation.id)
    raise UserError(f"{benchmark.title} has no conversation '{name}'.{suggest(name, names[:50])}")


def find_question(sample: Sample, index: int) -> Question:
    """Return the question with this index in its conversation."""
    for question in sample.questions:
        if question.index == index:
            return question
    indices = [question.index for question in sample.questions]
    bounds = f"{min(indices)} to {max(indices)}" if indices else "none"
    raise UserError(
        f"{sample.conversation.id} has no question {index} under this protocol ({bounds})."
    )


def question_panel(question: Question, benchmark: Benchmark) -> Panel:
    """Return the question, its gold answer and what is known about it."""
    body = Text(question.text + "\n", style="bold")
    name = benchmark.CATEGORY_NAMES[question.category]
    rows = {
        "category": f"{question.category} ({name})" if name != question.category else name,
        "date": question.query().date_text or DASH,
        "gold": question.reference or DASH,
        "trap": question.trap or "",
        "evidence": ", ".join(question.evidence_turns) or DASH,
        **question.extra,
    }
    for key, value in rows.items():
        if value:
            body.append(f"\n{key}: ", style="dim")
            body.append(value)
    return Panel(body, title=f"{question.conversation}, question {question.index}")


def session_view(session: Session, evidence: set[str], *, whole: bool) -> Text:
    """Return a session with its evidence marked, or one line about it."""
    title = f"{session.id}  {session.date_text or '(no date)'}"
    if not whole:
        return Text(f"{title}  ({len(session.turns)} turns)", style="dim")
    view = Text(f"\n{title}\n", style="bold cyan")
    for turn in session.turns:
        marked = turn.id in evidence
        view.append("► " if marked else "  ", style="bold yellow")
        view.append(f"{turn.id} ", style="dim")
        view.append(f"{turn.speaker}: ", style="bold")
        view.append(turn.text, style="bold yellow" if marked else "")
        if turn.caption:
            view.append(f"  [image: {turn.caption}]", style="italic")
        view.append("\n")
    return view


def check(options: argparse.Namespace) -> int:
    """Load every benchmark that is found and print its counts; 2 if one is not in order."""
    rules = protocol_rules(options.protocol)
    columns = ("dataset", "release", "conversations", "sessions", "turns", "questions", "scorable")
    table = Table(*columns, "by category", title=f"protocol {options.protocol}")
    faults: list[str] = []
    shared: list[str] = []
    for name in options.datasets or benchmark_names():
        try:
            benchmark = configured(name, options.set)
            info = benchmark.info()
            found = collect(benchmark.load(rules))
        except UserError as error:
            faults.append(f"{name}: {error}")
            table.add_row(name, "not in order: see below")
            continue
        counts = (found.conversations, found.sessions, found.turns, found.questions)
        by_category = "/".join(str(found.categories[c]) for c in benchmark.CATEGORY_NAMES)
        numbers = [f"{n:,}" for n in (*counts, found.with_evidence)]
        table.add_row(name, info.release, *numbers, by_category)
        if found.sharing.saved > 0.01:
            shared.append(f"{name}: {found.sharing.describe()}")
    out.print(table, *shared, sep="\n")
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 2 if faults else 0


def stats(options: argparse.Namespace) -> int:
    """Print the statistics of MemGAS's Table 5, ours beside the published."""
    counters: dict[str, Counter] = {}
    if counter := o200k(options.vocabulary):
        counters["o200k"] = counter
    for name in options.tokenizer:
        counters[Path(name).name] = model_tokenizer(name)
    published = published_cells()
    columns = ["dataset", "", "conversations", "sessions", "queries", "tokens (o200k)"]
    columns += [f"tokens ({Path(name).name})" for name in options.tokenizer]
    columns += ["dates", "evidence", "gold answers", "subject"]
    table, rows = Table(*columns), [columns]
    for name in options.datasets or list(TABLE_5):
        benchmark = configured(name, options.set)
        info = benchmark.info()
        found = collect(benchmark.load(Rules(evidence="memgas", category5="trap")), counters)
        ours = own_cells(found, [Path(t).name for t in options.tokenizer])
        rows.append([name, info.label or "ours", *ours])
        if cells := published.get(TABLE_5.get(name, "")):
            rows.append([name, "published", *paper_cells(cells, len(options.tokenizer))])
    for row in rows[1:]:
        table.add_row(*row)
    out.print(table)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        out.print(f"written: {options.out}")
    if "o200k" not in counters:
        out.print(f"o200k is not here: `{MEND}`, or --vocabulary FILE (o200k_base.tiktoken).")
    return 0


def own_cells(found: Statistics, tokenizers: list[str]) -> list[str]:
    """Return a row of averages a conversation."""
    mean = found.per_conversation
    tokens = [
        f"{mean(found.tokens[name]):,.1f}" if name in found.tokens else DASH
        for name in ("o200k", *tokenizers)
    ]
    return [
        f"{found.conversations}",
        f"{mean(found.sessions):.1f}",
        f"{mean(found.questions):.1f}",
        *tokens,
        "yes" if found.dated_sessions else "no",
        "yes" if found.with_evidence else "no",
        "yes" if found.with_reference else "no",
        "User-AI" if found.with_assistant else "User-User",
    ]


def paper_cells(cells: dict[str, str], tokenizers: int) -> list[str]:
    """Return the published row in the same columns."""
    names = ("Total Conversations", "Avg. Sessions", "Avg. Query", "Avg. Token")
    rest = ("Sessions Dates", "Retrieval Ground-Truth", "QA Ground-Truth", "Conversation Subject")
    return [cells.get(n, DASH) for n in names] + [DASH] * tokenizers + [cells[n] for n in rest]


def published_cells() -> dict[str, dict[str, str]]:
    """Return Table 5 as printed: dataset to metric to value."""
    cells: dict[str, dict[str, str]] = {}
    with PUBLISHED.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["table"] == "5":
                cells.setdefault(row["dataset"], {})[row["metric"]] = row["value"]
    return cells


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("show", help="a conversation, a question, its evidence in place")
    one.add_argument("dataset")
    one.add_argument("conversation")
    one.add_argument("--question", type=int, metavar="INDEX", help="position in its list, from 0")
    one.add_argument("--all", action="store_true", help="print sessions without evidence too")
    one.set_defaults(run=show)
    two = commands.add_parser("check", help="load what is found and count")
    two.set_defaults(run=check)
    three = commands.add_parser("stats", help="MemGAS's Table 5, ours beside the published")
    three.add_argument("--vocabulary", type=Path, help="an o200k_base.tiktoken file")
    three.add_argument("--out", type=Path, help="write the table as CSV, too")
    three.add_argument("--tokenizer", action="append", default=[], help="a model's folder or id")
    three.set_defaults(run=stats)
    for command in (two, three):
        command.add_argument("datasets", nargs="*", help="config names (default: all)")
    for command in (one, two):
        command.add_argument("--protocol", default="memgas", help="whose rules for questions")
    for command in (one, two, three):
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    from memsys.cli import guarded

    guarded(lambda: main(sys.argv[1:]))
