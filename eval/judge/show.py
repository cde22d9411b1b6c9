"""What a person reads of a judge's calibration."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from eval.judge.calibration import Calibration
from eval.judge.control_answers import CONTROLS


def show_calibration(found: Calibration, console: Console) -> None:
    """Print a judge's acceptance rates, one line a control and score."""
    title = f"Judge '{found.judge}' on answers of known worth ({found.questions} questions)"
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1))
    for heading in ("control", "a sound judge", "score", "accepted", "%", "no verdict"):
        table.add_column(heading, justify="left" if heading in ("control", "score") else "right")
    for score, rates in found.rates.items():
        for name, rate in rates.items():
            share = "–" if rate.share is None else f"{100 * rate.share:.0f}"
            lost = str(rate.lost or "")
            kind, wanted = name.replace("_", " "), f"{CONTROLS[name]}s"
            table.add_row(kind, wanted, score, rate.words() if rate.n else "–", share, lost)
    console.print(table)
