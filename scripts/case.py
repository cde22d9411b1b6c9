"""One question through several systems, as the papers' case studies show it.

    python scripts/case.py mgretrieval memgas rag --conversation conv-47 --evidence D8:11
    python scripts/case.py RUN_FOLDER RUN_FOLDER --question ID --svg case.svg

A name is a method, which is run on that one question unless a finished run of the whole has it;
or a run's folder (or the end of its name, with a slash). Further arguments of the form key=value
are settings for every run (see scripts/run.py --help).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import console, guarded
from memsys.errors import UserError


def main() -> int:
    """Find the question, run what is not there, print and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="METHOD|RUN|KEY=VALUE")
    parser.add_argument("--question", metavar="ID", help="the question, by its id")
    parser.add_argument("--conversation", metavar="ID", help="its conversation, by its id")
    parser.add_argument("--evidence", metavar="TURN", help="the turn that holds its answer (D8:11)")
    parser.add_argument("--dataset", help="a config of configs/dataset (locomo, or the runs' own)")
    parser.add_argument("--protocol", help="whose rules and prompt (mgretrieval, or the runs' own)")
    parser.add_argument("--profile", default="embedded", help="embedded, paper, local")
    parser.add_argument("--no-run", action="store_true", help="only read what was run before")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the case, too")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where runs/ is (results)")
    arguments = parser.parse_intermixed_args()
    if not (arguments.question or arguments.evidence):
        raise UserError("Say which question: --question ID, or --conversation ID --evidence TURN.")

    from eval.cases.collect import Wanted, collect
    from eval.cases.svg import draw
    from eval.cases.terminal import show
    from eval.command import resources, runner
    from eval.config import names_and_settings
    from eval.progress import Board

    names, settings = names_and_settings(arguments.names)
    wanted = Wanted(
        names=names,
        settings=settings,
        question=arguments.question,
        conversation=arguments.conversation,
        evidence=arguments.evidence,
        dataset=arguments.dataset,
        protocol=arguments.protocol,
        profile=arguments.profile,
        results=arguments.results,
        run=not arguments.no_run,
    )
    out = console()
    with Board("auto") as board:
        case = runner().run(collect(wanted, resources(), board))
    show(case, out)
    if arguments.svg is not None:
        arguments.svg.write_text(draw(case), encoding="utf-8")
        out.print(f"written: {arguments.svg}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    guarded(main)
