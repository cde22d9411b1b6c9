"""Judge a finished run again, and find out how far its judge can be trusted.

    python scripts/judge.py RUN_FOLDER
    python scripts/judge.py RUN_FOLDER judge=memgas judge.repeats=3 llm.judge.temperature=...

The run's answers are judged where that judge has not done so yet (nothing is answered again).
Then the judge is shown answers of which we know what they are worth, made from the run's own
questions by rule; how often it accepts each kind is printed, kept in the run's folder, and
printed beside every score that it gives. See docs/judges.md.
"""

from __future__ import annotations

import argparse

from memsys.cli import console, guarded
from memsys.errors import UserError


def main() -> int:
    """Judge, calibrate, score, show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", metavar="RUN_FOLDER", help="a run's folder, or the end of its name")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="judge=…, judge.repeats=3, llm@llm.judge=…",
    )
    parser.add_argument(
        "--questions", type=int, default=40, metavar="N", help="make controls of N questions (40)"
    )
    parser.add_argument("--results", metavar="DIR", help="where runs/ is (results)")
    arguments = parser.parse_intermixed_args()
    if arguments.questions < 1:
        raise UserError(f"--questions {arguments.questions}: give at least 1.")

    from pathlib import Path

    from eval import summary
    from eval.command import carry_out, resources, runner
    from eval.config import ROOT
    from eval.judge.calibration import calibrate
    from eval.judge.show import show_calibration
    from eval.judging import Judging
    from eval.progress import Board
    from eval.rerun import check_overrides, spec_of
    from eval.runfolder import find_run

    check_overrides(arguments.overrides)
    folder = find_run(arguments.run, Path(arguments.results or ROOT / "results"))
    spec = spec_of(folder, resources(), tuple(arguments.overrides))
    judging = Judging.of(spec)
    if judging is None:
        raise UserError("This run has no judge: name one, such as judge=memgas (answers only).")
    out = console()
    with Board(str(spec.config.values["progress"])) as board:
        finished = runner().run(carry_out(spec, board))
        found = runner().run(calibrate(spec, judging, finished.records, arguments.questions))
    summary.score_run(finished, judging)
    summary.show(finished, out)
    show_calibration(found, out)
    return 0


if __name__ == "__main__":
    guarded(main)
