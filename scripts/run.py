"""Run one system on one benchmark; with -m, sweep.

    python scripts/run.py method=mgretrieval dataset=locomo protocol=mgretrieval
    python scripts/run.py -m method=mgretrieval method.ask.depth=2,3,4,5,6

Any setting of configs/ can be given as key=value; --help lists groups and settings.
"""

from __future__ import annotations

import sys

from memsys.cli import guarded


def main() -> int:
    """Validate first, so that a typo is one sentence, then hand over to Hydra."""
    if len(sys.argv) == 2 and sys.argv[1] in ("-h", "--help"):
        from eval.help import run_help

        print(run_help(__doc__ or ""))
        return 0
    from eval.sweep import sweep_or_run

    return sweep_or_run(sys.argv[1:])


if __name__ == "__main__":
    guarded(main)
