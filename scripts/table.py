"""Reproduce tables: run what they need, or fill them from runs that are there.

    python scripts/table.py memgas-1 mgretrieval-1 --profile embedded
    python scripts/table.py --paper memgas --number 1 --profile paper
    python scripts/table.py --list

A paper's tables come in the order of their numbers; a number may have several (one for each
variant of a benchmark). Further arguments of the form key=value are settings for every run (see
scripts/run.py --help). docs/tables.md tells how a table is written and read.
"""

from __future__ import annotations

import argparse

from memsys.cli import FAILED_QUESTIONS, console, guarded

_SETTING = """\
First: retrieval, for real. All questions of LoCoMo if its file is here (make data, or MEMSYS_DATA),
with all-MiniLM at 512 word pieces; its values may be compared with the published ones.
Then: Table 1 of both papers on a cut (or on the synthetic sample), answered by SmolLM2-135M. That
shows that every system runs from end to end. It is no reproduction: the model is far too small.
(make reproduce PAPER=memgas TABLE=1 adds the samples of LongMemEval-s and Long-MT-Bench+.)"""


def main() -> int:
    """Reproduce the named tables, or all of a paper."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="TABLE|KEY=VALUE")
    parser.add_argument("--paper", action="append", default=[], help="memgas, mgretrieval")
    parser.add_argument("--number", help="which of the paper's tables; default: all")
    parser.add_argument("--profile", default="embedded", help="embedded, paper, local")
    parser.add_argument("--no-run", action="store_true", help="only fill from finished runs")
    parser.add_argument("--parallel", type=int, default=16, help="runs at a time (default 16)")
    parser.add_argument("--first-block", action="store_true", help="only each table's first block")
    parser.add_argument("--say-setting", action="store_true", help="explain what is real here")
    parser.add_argument("--list", action="store_true", help="list the tables there are")
    arguments = parser.parse_intermixed_args()

    from eval.config import names_and_settings, results_folder
    from eval.tables.spec import described, find_tables, load_table, table_names

    if arguments.list:
        for name in table_names():
            print(f"{name:<24} {load_table(name).title}")
        return 0
    names, extra = names_and_settings(arguments.names)
    left_out: list[str] = []
    for paper in arguments.paper:
        filled, others = described(find_tables(paper, arguments.number), arguments.profile)
        names, left_out = names + filled, left_out + others
    if not names:
        parser.error("name a table, or --paper, or --list")
    for name in names:
        load_table(name).blocks_of(arguments.profile)
    names = list(dict.fromkeys(names))

    from eval.command import resources, runner
    from eval.progress import Board
    from eval.run import first_error
    from eval.tables.reproduce import Runs, reproduce
    from eval.tracking import follow_command, split_settings

    tracking, extra = split_settings(extra)
    results, profile = results_folder(extra), arguments.profile
    out = console()
    if arguments.say_setting:
        out.print(_SETTING, highlight=False)
    with (
        Board("auto") as board,
        follow_command(tracking, "table", names, profile, extra, results, board) as following,
    ):
        runs = Runs(resources(), board, parallel=arguments.parallel, ask=not arguments.no_run)
        try:
            first = arguments.first_block
            runner().run(reproduce(names, profile, extra, runs, out, first_block=first))
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        for name in names:
            following.table(name, profile, results)
    totals = runs.totals
    out.print(
        f"\n{totals.runs} runs: {totals.asked} questions asked, {totals.failed} failed; "
        f"{totals.built} memories built; {totals.paid_calls} chat calls made, "
        f"{totals.stored_calls} from the store; {resources().embedded()} texts embedded",
        highlight=False,
        soft_wrap=True,
    )
    if totals.schema_calls:
        share = 100 * totals.valid_replies / totals.schema_calls
        out.print(
            f"replies valid against their schema: {share:.1f} % of {totals.schema_calls}",
            highlight=False,
        )
    if left_out:
        out.print(f"not described for profile={arguments.profile}: {', '.join(left_out)}")
    if totals.missing:
        out.print(f"{totals.missing} rows could not be run here; the reasons are above")
    return FAILED_QUESTIONS if totals.failed else 0


if __name__ == "__main__":
    guarded(main)
