"""Look over this machine: Python, disk, GPU, packages, data, models, keys, stores.

    python scripts/doctor.py
    python scripts/doctor.py --profile paper

Every line says ok, warn or missing, and what mends it. Leaves with status 2 if something is
missing that the embedded profile needs. No key's value is ever shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import console, guarded
from memsys.errors import UserError, suggest

_COLOURS = {"ok": "green", "warn": "yellow", "missing": "red"}


def main() -> int:
    """Examine and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", default="embedded", help="embedded (default), paper, local")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where results go (results)")
    arguments = parser.parse_args()

    from rich.markup import escape

    from eval.config import ROOT
    from eval.doctor.examine import examine
    from eval.outside import config_names

    if arguments.profile not in (known := config_names("profile")):
        raise UserError(
            f"--profile {arguments.profile} is not known.{suggest(arguments.profile, known)}"
        )
    out = console()
    area, broken, counts = "", 0, dict.fromkeys(_COLOURS, 0)
    for line in examine(arguments.profile, arguments.results or ROOT / "results"):
        counts[line.status] += 1
        broken += line.needed and line.status == "missing"
        shown = line.area if line.area != area else ""
        area = line.area
        mend = f"\n{'':19}[dim]→ {escape(line.mend)}[/dim]" if line.mend else ""
        out.print(
            f"{shown:<10} [{_COLOURS[line.status]}]{line.status:<7}[/] {escape(line.text)}{mend}",
            highlight=False,
            soft_wrap=True,
        )
    said = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
    ready = "not ready" if broken else "ready"
    out.print(f"\nprofile=embedded is {ready}; {said}", highlight=False)
    return UserError.exit_status if broken else 0


if __name__ == "__main__":
    guarded(main)
