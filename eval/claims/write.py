"""Writing a judged ledger: Markdown, CSV, and the terminal."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.claims.ledger import Judged, JudgedLedger
from eval.claims.outcome import FAILS, HOLDS, UNKNOWN, Verdict

_FIELDS = (
    "paper", "profile", "id", "claim", "scope", "source", "verdict", "part", "published", "ours",
    "part verdict", "value", "in this setting", "why", "runs",
)  # fmt: skip
_STYLES: dict[Verdict, str] = {HOLDS: "green", FAILS: "red", UNKNOWN: "dim"}
_LEGEND = (
    "*holds*: every part does, by an interval over conversations that excludes zero (or lies "
    "within the margin stated) · *does not hold*: some part's interval says the opposite · *cannot "
    "be judged here*: the setting is not the paper's, a run is missing, or the data cannot tell. "
    "*In this setting*: what the verdict would be if the setting were the paper's. Direction is "
    "judged first; how the published value stands to our interval is said beside it."
)


def write_ledger(judged: JudgedLedger, folder: Path) -> list[Path]:
    """Write `claims-<paper>-<profile>.md` and `.csv` into `folder`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"claims-{judged.ledger.paper}-{judged.profile}"
    written = []
    for suffix, text in ((".md", markdown(judged)), (".csv", comma_separated(judged))):
        path = folder / f"{stem}{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def markdown(judged: JudgedLedger) -> str:
    """Return one row a claim, then every claim's parts with the runs behind them."""
    lines = [f"# {judged.ledger.title}", "", f"Profile `{judged.profile}`. {_LEGEND}", ""]
    lines += [f"{_tally(judged)}.", ""]
    headings = ["id", "claim", "published", "ours", "verdict", "in this setting", "why"]
    lines += [_line(headings), _line(["---"] * len(headings))]
    for one in judged.claims:
        claim = one.claim
        shown = [claim.id, claim.claim, claim.published, _ours(one), one.verdict, one.here, one.why]
        lines.append(_line(shown))
    for one in judged.claims:
        claim = one.claim
        lines += ["", f"## {claim.id}. {claim.claim}", "", f"{claim.scope}; {claim.source}."]
        lines += ["", *([claim.note, ""] if claim.note else [])]
        for outcome in one.outcomes:
            said = [outcome.ours or "–"]
            said += [f"published {outcome.published}"] if outcome.published else []
            said += [outcome.value] if outcome.value else []
            judged_here = outcome.here not in (None, UNKNOWN)
            said += [f"in this setting it {outcome.here}"] if judged_here else []
            text = f"- {outcome.what}: {'; '.join(said)}. **{outcome.verdict}**"
            lines.append(f"{text}{f' ({outcome.why})' if outcome.why else ''}")
        lines += [f"- run: `{run}`" for run in one.runs]
    return "\n".join(lines).rstrip() + "\n"


def comma_separated(judged: JudgedLedger) -> str:
    """Return one row for each part of each claim."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    for one in judged.claims:
        claim = one.claim
        head = (judged.ledger.paper, judged.profile, claim.id, claim.claim, claim.scope)
        for o in one.outcomes:
            writer.writerow(
                [
                    *head, claim.source, one.verdict, o.what, o.published or claim.published,
                    o.ours, o.verdict, o.value, o.here or o.verdict, o.why, " ".join(o.runs),
                ]
            )  # fmt: skip
    return out.getvalue()


def show_ledger(judged: JudgedLedger, console: Console) -> None:
    """Print the ledger; reasons that most claims share are said once below."""
    common = _common(judged)
    table = Table(
        title=f"{judged.ledger.title} (profile {judged.profile})",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    for heading in ("id", "claim", "published", "ours", "verdict"):
        table.add_column(heading, overflow="fold")
    for one in judged.claims:
        style = _STYLES[one.verdict]
        claim = one.claim
        shown = f"[{style}]{one.verdict}[/{style}]"
        table.add_row(claim.id, claim.claim, claim.published, _ours(one, 2), shown)
    console.print(table)
    console.print(_tally(judged), highlight=False)
    for reason in common:
        console.print(f"  everywhere: {reason}", highlight=False, markup=False, soft_wrap=True)
    for one in judged.claims:
        own = [r for r in one.why.split("; ") if r and r not in common]
        if own:
            text = f"  {one.claim.id}: {'; '.join(own[:4])}" + ("; …" if len(own) > 4 else "")
            console.print(text, highlight=False, markup=False, soft_wrap=True)


def _common(judged: JudgedLedger) -> list[str]:
    """Return the reasons that at least half of the claims share."""
    counts: dict[str, int] = {}
    for one in judged.claims:
        for reason in dict.fromkeys(one.why.split("; ")):
            counts[reason] = counts.get(reason, 0) + 1
    return [r for r, n in counts.items() if r and 2 * n >= len(judged.claims)]


def _ours(one: Judged, most: int | None = None) -> str:
    seen = [o.ours for o in one.outcomes if o.ours]
    shown = " / ".join(seen[:most])
    more = len(seen) - len(seen[:most])
    return (shown + (f" and {more} more" if more else "")) or "–"


def _tally(judged: JudgedLedger) -> str:
    counts = judged.counts()
    said = ", ".join(f"{counts[v]} {v}" for v in (HOLDS, FAILS, UNKNOWN))
    return f"{len(judged.claims)} claims: {said}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
