"""What runs will cost, before any call: calls, tokens, money, hours, and what is stored already.

    python scripts/plan.py memgas-1 --profile paper --rate-requests 500 --rate-tokens 200000
    python scripts/plan.py method=mgretrieval protocol=mgretrieval dataset=locomo
    python scripts/plan.py method=mgretrieval method.ask.depth=2,3,4
    python scripts/plan.py --against results/runs/locomo/mgretrieval/FINGERPRINT

The systems run for real, on a model that answers at once: nothing is loaded, asked or stored.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import guarded


def main() -> int:
    """Plan tables, a sweep or a run; or compare a finished run with its plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="TABLE|KEY=VALUE")
    parser.add_argument("--profile", default="embedded", help="of tables: embedded, paper, local")
    parser.add_argument("--rate-requests", type=float, help="requests a minute and model")
    parser.add_argument("--rate-tokens", type=float, help="tokens a minute and model")
    parser.add_argument("--conversations", type=int, default=2, help="dry-run so many (default 2)")
    parser.add_argument("--questions", type=int, default=20, help="of each (default 20)")
    parser.add_argument("--name", help="of results/plans/NAME.json")
    parser.add_argument("--against", type=Path, metavar="RUN_FOLDER")
    arguments = parser.parse_intermixed_args()
    if arguments.conversations < 1 or arguments.questions < 1:
        parser.error("--conversations and --questions are at least 1")
    if arguments.against is None and not arguments.names:
        parser.error("name a table, or give key=value settings of a run, or --against")

    from eval.plan.command import against, plan

    if arguments.against is not None:
        against(arguments.against)
    else:
        plan(
            arguments.names,
            profile=arguments.profile,
            rates=(arguments.rate_requests, arguments.rate_tokens),
            conversations=arguments.conversations,
            questions=arguments.questions,
            name=arguments.name,
        )
    return 0


if __name__ == "__main__":
    guarded(main)
