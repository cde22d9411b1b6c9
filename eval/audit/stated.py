"""MGRetrieval's stated numbers: whether ratios, tokens, money and counts fit.

Our source of the paper has no table bodies, so its numbers can only be held against one another
and against the data. Ranges allow for the rounding of every printed number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from eval.audit.cells import Cell, select
from eval.audit.findings import Finding, Kind, Place
from eval.audit.numbers import Printed, quotient_range, shown

PAPER = "MGRetrieval"
GAIN = "{measure} relative gain vs {other} (%)"
MEASURES = ("F1", "BLEU-1")
OTHERS = ("FULL", "MemoryOS", "MemR3")

Range = tuple[Fraction, Fraction, Fraction]
"""The least, the printed and the greatest value that rounding allows."""


@dataclass(frozen=True)
class Stated:
    """The numbers of the text, by name."""

    cells: Sequence[Cell]

    def cell(self, metric: str, method: str = PAPER) -> Cell:
        """Return the one cell of this metric; the first of several that say the same."""
        return select(self.cells, {"metric": metric, "method": method})[0]

    def number(self, metric: str, method: str = PAPER) -> Printed:
        """Return the number of a cell."""
        printed = self.cell(metric, method).printed
        assert printed is not None, metric
        return printed

    def gain(self, measure: str, other: str) -> Printed:
        """Return the stated gain over another system, in percent."""
        return self.number(GAIN.format(measure=measure, other=other))

    def finding(
        self, metric: str, test: str, kind: Kind, why: str, against: str = "", method: str = PAPER
    ) -> Finding:
        """Return a finding about one stated number."""
        cell = self.cell(metric, method)
        return Finding(Place.of(cell), cell.text, test, kind, why, against)


def gains(stated: Stated) -> Iterator[Finding]:
    """Derive the order of the systems on Qwen2.5-14B, and the gains on Qwen3-14B."""
    for measure in MEASURES:
        printed = {other: stated.gain(measure, other) for other in OTHERS}
        order = sorted(OTHERS, key=lambda other: printed[other].value)
        relative = {other: _relative(printed["MemoryOS"], printed[other]) for other in OTHERS}
        chain = " > ".join((PAPER, *order))
        ratios = ", ".join(
            f"{other}/MemoryOS = {shown(relative[other][1], 3)}" for other in order[1:]
        )
        place = Place(PAPER, "appendix A.5", "LoCoMo", "Qwen2.5-14B", f"order on {measure}")
        best: Kind = "agrees" if order[0] == "MemoryOS" else "disagrees"
        test = "stated gains against 'MemoryOS is the strongest baseline' (§4.2)"
        yield Finding(place, chain, test, best, ratios, "" if best == "agrees" else "§4.2")
        beats: Kind = "agrees" if printed["MemoryOS"].high < printed["FULL"].low else "disagrees"
        place = Place(PAPER, "§4.2", "LoCoMo", "Qwen2.5-14B", f"MemoryOS against FULL, {measure}")
        yield Finding(
            place, "competitive or strong", "stated gains", beats,
            f"MemoryOS/FULL = {shown(1 / relative['FULL'][1], 3)}", "appendix A.5",
        )  # fmt: skip
        yield _other_model(stated, measure, printed["MemoryOS"])
        for other, gain in printed.items():
            why = f"{other}/{PAPER} = {shown(1 / (1 + gain.value / 100), 3)}"
            metric = GAIN.format(measure=measure, other=other)
            yield stated.finding(metric, "order of the systems", best, why, "§4.2")


def _other_model(stated: Stated, measure: str, second: Printed) -> Finding:
    metric = f"{measure} relative gain vs second-best (%)"
    mean = stated.number(metric)
    low, value, high = (
        2 * a - b
        for a, b in ((mean.low, second.high), (mean.value, second.value), (mean.high, second.low))
    )
    kind: Kind = "possible" if high > 0 else "disagrees"
    why = (
        f"if a mean of two gains, with MemoryOS second on Qwen2.5-14B ({second.text} %), the gain "
    )
    why += f"on Qwen3-14B is {shown(value)} % ({shown(low, 3)}–{shown(high, 3)})"
    return stated.finding(metric, "mean of two gains", kind, why, "appendix A.5")


def filled_gains(stated: Stated, cells: Sequence[Cell]) -> Iterator[Finding]:
    """Recompute the stated gains from the cells of Table 1, where somebody has filled them in."""
    for measure in MEASURES:
        for other in OTHERS:
            row = {"table": "1", "llm": "Qwen2.5-14B", "metric": measure}
            mine, theirs = (select(cells, {**row, "method": name}) for name in (PAPER, other))
            if not mine or not theirs:
                continue
            a, b = mine[0].printed, theirs[0].printed
            assert a is not None and b is not None
            printed = stated.gain(measure, other)
            low, high = (value - 100 for value in quotient_range(a, b))
            kind: Kind = "agrees" if low <= printed.high and high >= printed.low else "disagrees"
            why = f"{a.text}/{b.text} − 1 = {shown(100 * a.value / b.value - 100)} %"
            metric = GAIN.format(measure=measure, other=other)
            yield stated.finding(metric, "recomputed from Table 1", kind, why, "Table 1")


def _relative(second: Printed, other: Printed) -> Range:
    """S(other)/S(MemoryOS) from the gains of MGRetrieval over both."""

    def ratio(a: Fraction, b: Fraction) -> Fraction:
        return (1 + a / 100) / (1 + b / 100)

    return (
        ratio(second.low, other.high),
        ratio(second.value, other.value),
        ratio(second.high, other.low),
    )


def tokens(
    stated: Stated, questions: int | None, texts: dict[str, Fraction] | None, missing: str
) -> Iterator[Finding]:
    """Derive FULL's and MemoryOS's tokens; hold FULL's against the length of LoCoMo."""
    per_answer = stated.number("main LLM tokens per response")
    less = stated.number("token reduction vs FULL (%)")
    low, high = (
        per_answer.low / (1 - less.low / 100),
        per_answer.high / (1 - less.high / 100),
    )
    full = per_answer.value / (1 - less.value / 100)
    test = "5,799 tokens a response / (1 − reduction) against the length of a conversation"
    test = test.replace("5,799", f"{int(per_answer.value):,}")
    implied = f"FULL = {shown(full / 1000, 1)} k tokens a question "
    implied += f"({shown(low, 0)}–{shown(high, 0)})"
    metric = "token reduction vs FULL (%)"
    if texts is None:
        yield stated.finding(metric, test, "not testable", f"{implied}; {missing}")
    else:
        near = min(texts, key=lambda name: abs(texts[name] - full))
        counts = ", ".join(f"{name} {shown(n / 1000, 1)} k" for name, n in texts.items())
        plain = max(n for name, n in texts.items() if name != RAW)
        kind: Kind = "odd" if full > Fraction(6, 5) * plain else "agrees"
        why = f"{implied}; our count (o200k, a question): {counts}; nearest: {near}"
        yield stated.finding(metric, test, kind, why)
        whole = min(texts.values())
        fits: Kind = "agrees" if per_answer.value < whole / 2 else "disagrees"
        yield stated.finding(
            "main LLM tokens per response", "far below the whole memory's length (§4.2)", fits,
            f"{per_answer.text} of at least {shown(whole, 0)}", "our own count",
        )  # fmt: skip
    twice = [stated.number(m) for m in (_REDUCTION, "token reduction vs MemoryOS (%)")]
    same: Kind = "agrees" if twice[0].text == twice[1].text else "disagrees"
    why = "read as one claim: main-model tokens of building and answering"
    yield stated.finding(_REDUCTION, "same in appendix A.5", same, why, "appendix A.5")
    metric = "token reduction vs MemoryOS (%)"
    yield stated.finding(metric, "same in section 4.2", same, why, "section 4.2")
    if questions is not None:
        main, other = _main_tokens(stated, questions)
        why = f"{shown(main / 10**6, 3)} M, so MemoryOS {shown(other / 10**6, 3)} M, "
        why += f"over {questions:,} questions"
        yield stated.finding(_REDUCTION, "main-model tokens of the pipeline", "possible", why)
    yield from _calls(stated, per_answer)


RAW = "its JSON"
_REDUCTION = "main LLM token reduction vs MemoryOS, full pipeline (%)"
_MONEY = "total monetary cost reduction vs MemoryOS, full pipeline (%)"


def _calls(stated: Stated, per_answer: Printed) -> Iterator[Finding]:
    metric = "main LLM calls per response"
    calls = stated.number(metric)
    most = stated.number("maximum rounds r").value
    rounds = calls.value - 1
    kind: Kind = "possible" if 1 <= rounds <= most else "impossible"
    why = f"with one rewriting call, {shown(rounds)} rounds on average (1 to {most} are possible); "
    why += f"without it, {calls.text}; {shown(per_answer.value / calls.value, 0)} tokens a call"
    yield stated.finding(metric, "rounds and one rewriting call", kind, why, f"1 and {most}")


def items(stated: Stated, item: Fraction) -> Iterator[Finding]:
    """Hold the auxiliary tokens of a memory item against the item's own length."""
    metric = "auxiliary tokens per memory item"
    calls = stated.number("auxiliary calls per memory item")
    each = stated.number(metric).value / calls.value
    kind: Kind = "possible" if each > item else "impossible"
    why = f"{shown(each, 0)} tokens a call, {shown(item, 0)} of them the exchange itself (o200k)"
    yield stated.finding(metric, f"{calls.text} calls that read the item", kind, why, "its length")


def _main_tokens(stated: Stated, questions: int) -> tuple[Fraction, Fraction]:
    main = questions * stated.number("main LLM tokens per response").value
    return main, main / (1 - stated.number(_REDUCTION).value / 100)


def money(
    stated: Stated,
    questions: int,
    items: dict[str, int],
    prices: tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]],
) -> Iterator[Finding]:
    """Recompute the money saved for every reading of a memory item, and say which reading fits.

    `prices` are (input, output) dollars of the main and of the auxiliary model. The shares of
    output tokens are not stated: 0 to 10 % are allowed on either side.
    """
    saved = stated.number(_MONEY)
    main, other = _main_tokens(stated, questions)
    build = stated.number("auxiliary tokens per memory item").value
    ask = stated.number("auxiliary tokens per query").value
    shares = [Fraction(i, 20) for i in range(3)]  # 0, 5, 10 % of tokens are output
    fitting: list[str] = []
    said: list[str] = []
    for name, n in items.items():
        auxiliary = n * build + questions * ask

        def saving(a: Fraction, b: Fraction, auxiliary: Fraction = auxiliary) -> Fraction:
            return 100 * (1 - (main * _blend(prices[0], a) + auxiliary * _blend(prices[1], b))
                          / (other * _blend(prices[0], a)))  # fmt: skip

        all_shares = [saving(a, b) for a in shares for b in shares]
        low, high = min(all_shares), max(all_shares)
        if low <= saved.high and high >= saved.low:
            fitting.append(name)
        said.append(
            f"{n:,} {name}s: {shown(saving(shares[0], shares[0]), 1)} % at input prices, "
            f"{shown(low, 1)}–{shown(high, 1)} % with up to 10 % output tokens"
        )
    why = "; ".join(said) + f". Fits: {' and '.join(f'one item = one {f}' for f in fitting) or '–'}"
    kind: Kind = "agrees" if fitting else "disagrees"
    yield stated.finding(
        _MONEY, "recomputed from items, tokens and prices", kind, why, "its tokens"
    )


def _blend(price: tuple[Fraction, Fraction], output: Fraction) -> Fraction:
    return (1 - output) * price[0] + output * price[1]


def times(stated: Stated) -> Iterator[Finding]:
    """Say what the two response times mean as a ratio."""
    mine, theirs = (stated.number("response time (s)", m) for m in (PAPER, "MemR3"))
    ratio = mine.value / theirs.value
    kind: Kind = "agrees" if ratio < 1 else "disagrees"
    why = f"{mine.text}/{theirs.text} = {shown(ratio, 3)}"
    for method in (PAPER, "MemR3"):
        yield stated.finding(
            "response time (s)", "MGRetrieval below MemR3 (§4.2)", kind, why, "§4.2", method
        )


def settings(stated: Stated) -> Iterator[Finding]:
    """Hold the settings used against the sweeps that they come from."""
    for metric, sweep in (("pyramid depth l", "sweep of l"), ("maximum rounds r", "sweep of r")):
        used, grid = stated.cell(metric).text, stated.cell(sweep).text.split(";")
        kind: Kind = "agrees" if used in grid else "disagrees"
        yield stated.finding(metric, "in its sweep", kind, f"of {', '.join(grid)}", "§4.4")


def case(
    stated: Stated, mentions: dict[str, tuple[int, int]] | None, f1: float | None, missing: str
) -> Iterator[Finding]:
    """Hold the case study against the rules of the method and against the conversation."""
    first = "case study: memories retrieved in round 1"
    second = "case study: new memories in round 2"
    last = "case study: rounds until sufficient"
    rounds, most = stated.number(last), stated.number("maximum rounds r")
    kind: Kind = "possible" if rounds.value <= most.value else "impossible"
    why = f"at most {most.text} rounds"
    yield stated.finding(last, "within the maximum", kind, why, f"1 and {most.text}")
    total = int(stated.number(first).value + stated.number(second).value)
    test = f"{stated.number(first).text} + {stated.number(second).text} items hold both keywords"
    answer = "case study: final answer"
    if mentions is None:
        yield from (stated.finding(m, test, "not testable", missing) for m in (first, second))
        yield stated.finding(answer, "against the gold answer", "not testable", missing)
        return
    fitting = [name for name, (hits, _) in mentions.items() if hits == total]
    why = "items that mention both: " + ", ".join(
        f"{hits} of {n} {name}s" for name, (hits, n) in mentions.items()
    )
    why += f"; {total} fits one item = one {' or '.join(fitting)}" if fitting else ""
    agreed: Kind = "agrees" if fitting else "odd"
    yield from (stated.finding(m, test, agreed, why) for m in (first, second))
    right: Kind = "agrees" if f1 == 1 else "disagrees"
    why = "–" if f1 is None else f"set F1 {f1:.2f}"
    yield stated.finding(answer, "against the gold answer", right, why, "the gold answer")


def dataset(
    stated: Stated,
    counted: Callable[[str], tuple[Fraction | None, str]],
    names: dict[str, str],
) -> Iterator[Finding]:
    """Hold the counts of the data against ours; a round number stands for its leading digit."""
    for metric, key in names.items():
        ours, why = counted(key)
        if ours is None:
            yield stated.finding(metric, "our own count", "not testable", why, method="")
            continue
        printed = stated.number(metric, "")
        zeros = len(printed.text) - len(printed.text.rstrip("0"))
        half = Fraction(10**zeros, 2) if zeros > 1 else printed.unit / 2
        fits = abs(ours - printed.value) <= half
        kind: Kind = "agrees" if fits else "disagrees"
        said = shown(ours, 0 if ours.denominator == 1 else 1)
        yield stated.finding(metric, "our own count", kind, f"{said}: {why}", "our own count", "")
