"""A case on the terminal. Every text is data: none of it is read as markup."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text as RichText

from eval.cases.blocks import Bars, Block, Chips, Facts, Steps, Text, visible
from eval.cases.case import Case, Told

_BAR = 24  # characters of the longest bar
_UNIT = 160  # characters of a memory that are shown


def _line(text: str = "", style: str = "") -> RichText:
    return RichText(visible(text), style=style)


def show(case: Case, console: Console) -> None:
    """Print the question with its evidence, then one panel a system."""
    question = case.question
    head = [_line(question.text, style="bold")]
    if question.query().date_text:
        head.append(_line(f"asked on {question.query().date_text}", style="dim"))
    head.append(_line(f"reference: {question.reference or '–'}", style="green"))
    head += [_line(f"  {place}  {text}") for place, text in case.evidence]
    title = f"{question.conversation} · {question.id} · category {question.category}"
    console.print(Panel(Group(*head), title=_line(title), title_align="left"))
    for one in case.told:
        body: RenderableType = Group(*_parts(one))
        console.print(Panel(body, title=_line(one.name, style="bold"), title_align="left"))


def _parts(one: Told) -> list[RenderableType]:
    if one.reason:
        return [_line(one.reason, style="yellow")]
    parts: list[RenderableType] = []
    if one.recalled:
        parts.append(_heading("recalled"))
    for r in one.recalled:
        mark = "✓" if r.hit else " "
        text = f"{mark} {r.rank:>2}. {r.unit}  {r.score:.3f}  {_cut(r.text)}"
        parts.append(_line(text, style="green" if r.hit else ""))
    if one.more:
        parts.append(_line(f"      … {one.more} more", style="dim"))
    for block in one.blocks:
        parts += _block(block)
    parts.append(_heading("answer"))
    parts.append(_line(one.answer, style="bold"))
    scores = [f"{name} {100 * value:.1f}" for name, value in one.scores.items()]
    parts.append(_line(" · ".join([*scores, *one.facts]), style="dim"))
    return parts


def _heading(text: str) -> RenderableType:
    return Rule(_line(text, style="cyan"), align="left", characters="·")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _UNIT else f"{text[: _UNIT - 1]}…"


def _block(block: Block) -> list[RenderableType]:
    parts: list[RenderableType] = [_heading(block.title)]
    if isinstance(block, Text):
        parts.append(_line(block.text))
    elif isinstance(block, Facts):
        parts.append(_line(" · ".join(f"{name} {value}" for name, value in block.values.items())))
    elif isinstance(block, Bars):
        wide = max((len(name) for name in block.values), default=0)
        for (name, value), length in zip(block.values.items(), block.lengths(), strict=True):
            bar = "█" * round(_BAR * length)
            parts.append(_line(f"{name:<{wide}} {bar:<{_BAR}} {value:.4g}"))
    elif isinstance(block, Chips):
        line = _line()
        for chip in block.values:
            line.append(f"[{visible(chip)}]", style="green" if chip in block.marked else "")
            line.append(" ")
        parts.append(line)
    elif isinstance(block, Steps):
        for number, step in enumerate(block.steps, 1):
            parts.append(_line(f"{number}. {' · '.join(step.facts)}"))
            parts += [_line(f"     {name}: {_cut(text)}", style="dim") for name, text in step.texts]
    return parts
