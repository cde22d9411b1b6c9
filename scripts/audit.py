"""Audit the papers' printed numbers: python scripts/audit.py [--out FOLDER].

Every cell is tested for being possible, for agreeing with its doubles in other tables, and for
agreeing with our own counts where the data is here; sentences of the text are held against the
tables. No model, no run; some seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memsys.cli import console, guarded


def main() -> int:
    """Audit, write `audit.md` and `audit.csv`, and print a screen of summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="where to write (default results/tables)")
    options = parser.parse_args()

    from eval.audit.audit import audit_all
    from eval.audit.write import show_audit, write_audit
    from eval.config import ROOT

    out = console()
    audits = audit_all()
    show_audit(audits, out)
    folder = options.out or ROOT / "results" / "tables"
    for path in write_audit(audits, folder):
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        out.print(f"written: {shown}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    guarded(main)
