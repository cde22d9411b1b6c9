"""A case as a figure: one column a system, drawn into a self-contained SVG file.

The file names no font, script or address of elsewhere; every text in it is escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

from eval.cases.blocks import Bars, Block, Chips, Facts, Steps, Text, visible
from eval.cases.case import Case, Told

COLUMN, GAP, PAD = 400, 16, 10
LINE, CHARACTER = 15, 6.1  # pixels: height of a line, mean width of a character at 11 px
WIDE, BOLD, TITLE, CAPITAL = 6.7, 7.4, 8.8, 8.4  # of wider characters: in chips, bold, titles
UNIT_LINES, STEPS = 3, 16  # lines of a memory, steps of a list that are drawn

_STYLE = """
text { font: 11px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1c1c1c; }
.title { font-weight: bold; font-size: 13px; } .head { fill: #5a5a5a; font-size: 10px; }
.bold { font-weight: bold; } .soft { fill: #5a5a5a; } .gold { fill: #12662f; }
.page { fill: #ffffff; } .card { fill: #f6f7f9; stroke: #c9ced6; }
.box { fill: #ffffff; stroke: #d4d8df; } .hit { fill: #e2f4e6; stroke: #4b9c63; }
.bar { fill: #4a78b8; } .answer { fill: #eef3fb; stroke: #4a78b8; }
@media (prefers-color-scheme: dark) {
text { fill: #e8e8e8; } .head, .soft { fill: #a8adb5; } .gold { fill: #7fd49a; }
.page { fill: #15171a; } .card { fill: #1e2126; stroke: #3a3f47; }
.box { fill: #262a30; stroke: #414750; } .hit { fill: #1d3a27; stroke: #4b9c63; }
.bar { fill: #6a9be0; } .answer { fill: #1c2a40; stroke: #6a9be0; }
}
"""


def draw(case: Case) -> str:
    """Return the case as the text of an SVG file."""
    width = PAD + len(case.told) * (COLUMN + GAP) - GAP + PAD
    width = max(width, 2 * PAD + COLUMN + 200)
    question = case.question
    pen = _Pen(PAD, PAD, width - 2 * PAD)
    pen.text(question.text, "title")
    where = [question.conversation, question.id, f"category {question.category}"]
    pen.text(
        " · ".join([*where, question.query().date_text] if question.query().date_text else where),
        "soft",
    )
    for place, text in case.evidence:
        pen.text(f"{place}:  {text}", "")
    pen.text(f"reference: {question.reference or '–'}", "gold bold")
    pen.y += PAD
    top, body, bottom = pen.y, list(pen.marks), pen.y
    columns = []
    for i, one in enumerate(case.told):
        x = PAD + i * (COLUMN + GAP)
        column = _Pen(x + PAD, top + PAD, COLUMN - 2 * PAD)
        _column(column, one)
        columns.append((x, column))
        bottom = max(bottom, column.y + PAD)
    for x, column in columns:
        body.append(_rect(x, top, COLUMN, bottom - top, "card"))
        body += column.marks
    height = bottom + PAD
    title = escape(f"{question.id}: {question.text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" role="img"><title>{title}</title>'
        f"<style>{_STYLE}</style>{_rect(0, 0, width, height, 'page')}{''.join(body)}</svg>\n"
    )


@dataclass
class _Pen:
    """Draws from the top down into a column at `x`, `width` pixels wide."""

    x: float
    y: float
    width: float
    marks: list[str] = field(default_factory=list)

    def text(self, text: str, style: str, most: int = 0) -> None:
        """Write a text, broken into lines, of which at most `most` are kept."""
        character = TITLE if "title" in style else BOLD if "bold" in style else CHARACTER
        lines = list(wrapped(text, int(self.width / character)))
        if most and len(lines) > most:
            lines = [*lines[: most - 1], f"{lines[most - 1]} …"]
        for line in lines:
            self.y += LINE
            self.marks.append(
                f'<text x="{self.x:.0f}" y="{self.y - 4:.0f}" class={quoteattr(style)}>'
                f"{escape(line)}</text>"
            )

    def heading(self, text: str) -> None:
        """Write the title of a block."""
        self.y += LINE / 2
        self.text(text, "head")

    def boxed(self, lines: Sequence[tuple[str, str]], style: str, most: int = 0) -> None:
        """Write lines, each with its style, into a box."""
        inner = _Pen(self.x + 6, self.y + 3, self.width - 12)
        for text, how in lines:
            inner.text(text, how, most)
        self.marks.append(_rect(self.x, self.y + 1, self.width, inner.y - self.y + 2, style))
        self.marks += inner.marks
        self.y = inner.y + 6


def escape(text: str) -> str:
    """Return a text as XML data."""
    return xml_escape(visible(text))


def _rect(x: float, y: float, width: float, height: float, style: str) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.1f}" height="{height:.0f}" rx="4" '
        f"class={quoteattr(style)}/>"
    )


def _column(pen: _Pen, one: Told) -> None:
    pen.text(one.name, "title")
    if one.reason:
        pen.text(one.reason, "soft")
        return
    if one.recalled:
        pen.heading("recalled")
    for r in one.recalled:
        lines = [(f"{r.rank}. {r.unit}   {r.score:.3f}", "bold")]
        lines += [(" ".join(r.text.split()), "")] if r.text else []
        pen.boxed(lines, "hit" if r.hit else "box", UNIT_LINES)
    if one.more:
        pen.text(f"… {one.more} more", "soft")
    for block in one.blocks:
        pen.heading(block.title)
        _block(pen, block)
    pen.heading("answer")
    pen.boxed([(one.answer, "bold")], "answer")
    scores = [f"{name} {100 * value:.1f}" for name, value in one.scores.items()]
    pen.text(" · ".join([*scores, *one.facts]), "soft")


def _block(pen: _Pen, block: Block) -> None:
    if isinstance(block, Text):
        pen.text(block.text, "")
    elif isinstance(block, Facts):
        pen.text(" · ".join(f"{name} {value}" for name, value in block.values.items()), "")
    elif isinstance(block, Bars):
        _bars(pen, block)
    elif isinstance(block, Chips):
        _chips(pen, block)
    elif isinstance(block, Steps):
        for number, step in enumerate(block.steps[:STEPS], 1):
            lines = [(f"{number}. {' · '.join(step.facts)}", "")]
            pen.boxed([*lines, *((f"{n}: {t}", "soft") for n, t in step.texts)], "box", UNIT_LINES)
        if len(block.steps) > STEPS:
            pen.text(f"… {len(block.steps) - STEPS} more", "soft")


def _bars(pen: _Pen, block: Bars) -> None:
    for (name, value), share in zip(block.values.items(), block.lengths(), strict=True):
        length = (pen.width - 170) * share
        pen.marks.append(_rect(pen.x + 90, pen.y + 3, max(length, 1), LINE - 5, "bar"))
        number = pen.x + 94 + max(length, 1)
        pen.marks.append(
            f'<text x="{number:.0f}" y="{pen.y + 11:.0f}" class="soft">{value:.4g}</text>'
        )
        pen.text(name, "")


def _chips(pen: _Pen, block: Chips) -> None:
    """Draw the chips in rows; a row that is full is followed by another."""
    x, height = pen.x, LINE + 2
    for value in block.values:
        capitals = sum(character.isupper() for character in value)
        length = columns_of(value) * WIDE + capitals * (CAPITAL - WIDE)
        width = min(pen.width, length + 12)
        if x + width > pen.x + pen.width and x > pen.x:
            x, pen.y = pen.x, pen.y + height + 3
        style = "hit" if value in block.marked else "box"
        pen.marks.append(_rect(x, pen.y + 2, width, height - 2, style))
        pen.marks.append(
            f'<text x="{x + 5:.0f}" y="{pen.y + 13:.0f}" class="">{escape(value)}</text>'
        )
        x += width + 4
    pen.y += height + 4


def columns_of(text: str) -> int:
    """Return how many columns a text takes; a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrapped(text: str, columns: int) -> Iterator[str]:
    """Break a text into lines of at most `columns`, at spaces where there are any."""
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in paragraph.split():
            while columns_of(word) > columns:  # one long word, or a text without spaces
                if line:
                    yield line
                    line = ""
                cut = _fitting(word, columns)
                yield word[:cut]
                word = word[cut:]
            joined = f"{line} {word}".strip()
            if columns_of(joined) <= columns:
                line = joined
            else:
                yield line
                line = word
        if line:
            yield line


def _fitting(word: str, columns: int) -> int:
    taken = 0
    for i, character in enumerate(word):
        taken += columns_of(character)
        if taken > columns:
            return max(i, 1)
    return len(word)
