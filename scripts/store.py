"""Look into, check, share and thin out the stores of replies, memories and vectors.

    python scripts/store.py inspect
    python scripts/store.py verify [--mend]
    python scripts/store.py export FILE.zip [RUN …] [--vectors]
    python scripts/store.py import FILE.zip
    python scripts/store.py prune --older 90 | --model 'gpt-4o*' | --unreferenced  [--yes]

RUN is any part of a run's path (locomo/memgas, a fingerprint); without one, all runs are meant.
"""

from __future__ import annotations

import argparse
import fnmatch
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memsys.cli import guarded
from memsys.errors import UserError

if TYPE_CHECKING:
    from memsys.stores.survey import Entry

ROOT = Path(__file__).resolve().parents[1]
FOUND_DAMAGE = 3
DAY = 86_400.0


def main() -> int:
    """Carry out one of the five commands."""
    arguments = _parser().parse_args()
    results = Path(arguments.results)
    arguments.results = results if results.is_absolute() else ROOT / results
    stores = Path(arguments.stores or arguments.results / "stores")
    arguments.stores = stores if stores.is_absolute() else ROOT / stores
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "inspect": inspect,
        "verify": verify,
        "export": export,
        "import": take_in,
        "prune": prune,
    }
    return commands[arguments.command](arguments)


def inspect(arguments: argparse.Namespace) -> int:
    """Show what each store holds, by model, and which runs there are."""
    from eval.holdings import find_runs
    from memsys.stores.survey import survey

    _table(list(survey(arguments.stores)))
    runs = find_runs(arguments.results)
    print(f"\n{len(runs)} runs under {arguments.results / 'runs'}")
    for run in runs if arguments.runs else []:
        print(f"  {run.relative_to(arguments.results / 'runs')}")
    return 0


def verify(arguments: argparse.Namespace) -> int:
    """Check every byte; with --mend, remove what is damaged or torn first."""
    from memsys.stores.prune import mend
    from memsys.stores.survey import verify as check

    if arguments.mend:
        _say_busy(mend(arguments.stores))
    damaged = 0
    for store, health in check(arguments.stores).items():
        damaged += health.damaged
        print(
            f"{store:<9} {health.rows:>9,} sound {health.damaged:>6,} damaged "
            f"{health.torn:>8,} bytes torn"
        )
    if damaged:
        print("What is damaged counts as absent and is fetched again; --mend removes it.")
    return FOUND_DAMAGE if damaged else 0


def export(arguments: argparse.Namespace) -> int:
    """Write runs, and what the stores hold of them, into one file."""
    from eval.holdings import find_runs, holdings, secrets
    from memsys.stores.archive import Cargo
    from memsys.stores.archive import export as write
    from memsys.stores.vectors import VectorStore

    runs = find_runs(arguments.results, arguments.runs)
    if not runs:
        raise UserError(f"There are no runs under {arguments.results / 'runs'}.")
    held = holdings(runs)
    shelves = VectorStore(arguments.stores / "vectors").shelves() if arguments.vectors else ()
    cargo = Cargo(runs, held.replies, held.memories, [s for s in shelves if held.embeds_with(s)])
    count = write(
        arguments.file,
        cargo,
        stores=arguments.stores,
        results=arguments.results,
        secrets=secrets(runs),
    )
    size = arguments.file.stat().st_size
    print(
        f"{arguments.file}: {len(runs)} runs, {count['replies']:,} replies, "
        f"{count['memory files'] // 3:,} memories, {count['shelves']} shelves of vectors "
        f"({_size(size)})."
    )
    missing = len(held.replies) - count["replies"]
    if missing:
        print(f"{missing:,} replies that these runs used are no longer in the store.")
    print("Records and replies quote the benchmark: share them under its licence only.")
    return 0


def take_in(arguments: argparse.Namespace) -> int:
    """Take an export in; what is here already stays as it is."""
    from memsys.stores.archive import take_in as read

    taken = read(arguments.file, stores=arguments.stores, results=arguments.results)
    for kind in ("runs", "replies", "memories", "vectors"):
        print(f"{kind:<9} {taken.new[kind]:>9,} new {taken.same[kind]:>9,} already here")
    for label, names in (
        ("Differs from what is here, which was kept", taken.differing),
        ("Damaged in the file, so left out", taken.damaged),
    ):
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
            print(f"{label}: {shown}.")
    return FOUND_DAMAGE if taken.differing or taken.damaged else 0


def prune(arguments: argparse.Namespace) -> int:
    """Show what would be removed and what it cost; with --yes, remove it."""
    from eval.holdings import find_runs, holdings
    from memsys.stores.prune import prune as remove
    from memsys.stores.survey import survey
    from memsys.stores.vectors import VectorStore

    if arguments.older is None and arguments.model is None and not arguments.unreferenced:
        raise UserError("Say what to prune: --older DAYS, --model NAME, --unreferenced.")
    used: set[str] = set()
    if arguments.unreferenced:
        held = holdings(find_runs(arguments.results))
        shelves = VectorStore(arguments.stores / "vectors").shelves()
        used = {*held.replies, *held.memories}
        used |= {shelf.folder.name for shelf in shelves if held.embeds_with(shelf)}

    def chosen(entry: Entry) -> bool:
        old = arguments.older is None or entry.at < time.time() - arguments.older * DAY
        names = entry.model.split("+")
        made = arguments.model is None or any(fnmatch.fnmatch(n, arguments.model) for n in names)
        return old and made and entry.key not in used

    selected = tuple(arguments.only or ("replies", "memories", "vectors"))
    entries = [entry for entry in survey(arguments.stores, selected) if chosen(entry)]
    if not entries:
        print("Nothing in the stores fits.")
        return 0
    _table(entries)
    if not arguments.yes:
        print("\nNothing was removed: the same command with --yes removes this.")
        return 0
    _say_busy(remove(arguments.stores, entries))
    print("\nRemoved. What runs need of it again will be made, and paid for, again.")
    return 0


def _table(entries: Sequence[Entry]) -> None:
    from eval.config import CONFIGS
    from eval.holdings import dollars
    from eval.prices import PriceList

    prices = PriceList.read(CONFIGS)
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.store, entry.model].append(entry)
    print(f"{'store':<9} {'items':>10} {'size':>10} {'tokens':>13} {'US$':>9}  written, by")
    for (store, model), group in sorted(groups.items()):
        cost, unknown = dollars(prices, (call for entry in group for call in entry.calls))
        paid = "no price" if unknown else f"{cost:,.2f}"
        items, size = sum(e.items for e in group), _size(sum(e.size for e in group))
        print(
            f"{store:<9} {items:>10,} {size:>10} "
            f"{sum(e.tokens for e in group):>13,} {paid:>9}  "
            f"{_date(e.at for e in group)}, {model}"
        )


def _date(times: Iterable[float]) -> str:
    known = sorted(times)
    first, last = (time.strftime("%Y-%m-%d", time.localtime(t)) for t in (known[0], known[-1]))
    return first if first == last else f"{first} to {last}"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def _say_busy(busy: Sequence[Path]) -> None:
    if busy:
        print(f"{len(busy)} segments were left alone: a running process writes to them.")


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--results", default="results", help="where runs are (default: results)")
    shared.add_argument("--stores", help="where the stores are (default: stores, in results)")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[shared])

    one = command("inspect", "what the stores hold, by model")
    one.add_argument("--runs", action="store_true", help="list the runs too")
    one = command("verify", "check every byte; exit status 3 if anything is damaged")
    one.add_argument("--mend", action="store_true", help="remove what is damaged or torn")
    one = command("export", "runs, and all that the stores hold of them, in one file; never a key")
    one.add_argument("file", type=Path)
    one.add_argument("runs", nargs="*", metavar="RUN")
    one.add_argument("--vectors", action="store_true", help="their encoders' vectors too")
    one = command("import", "take an export in; nothing that is here is overwritten")
    one.add_argument("file", type=Path)
    one = command("prune", "what fits all conditions is removed; without --yes only shown")
    one.add_argument("--older", type=float, metavar="DAYS", help="written so many days ago")
    one.add_argument("--model", metavar="NAME", help="made by this model (* stands for anything)")
    one.add_argument("--unreferenced", action="store_true", help="used by no run that is here")
    one.add_argument("--only", action="append", choices=["replies", "memories", "vectors"])
    one.add_argument("--yes", action="store_true", help="remove it")
    return parser


if __name__ == "__main__":
    guarded(main)
