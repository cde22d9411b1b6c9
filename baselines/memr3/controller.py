"""The loop's state, the reply of one `generate` call, and the three rules of the router."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator

from baselines.memr3.settings import MemR3Ask

Action = Literal["retrieve", "reflect", "answer"]
ACTIONS: tuple[Action, ...] = ("retrieve", "reflect", "answer")


def _texts(value: Any) -> Any:
    """Read a list of texts from what a model may write instead: one text, nothing, objects."""
    if isinstance(value, dict):
        value = ["; ".join(_texts(list(value.values())))]
    if not isinstance(value, list):
        value = [] if value is None else [value]
    items = (_texts(item)[:1] if isinstance(item, dict) else [item] for item in value)
    texts = (str(item) for flat in items for item in flat if isinstance(item, str | int | float))
    return [text for text in texts if text.strip()]


def _text(value: Any) -> Any:
    """Read a text from what a model may write instead: nothing, or a list of texts."""
    return "; ".join(_texts(value))


def _action(value: Any) -> Any:
    """Read an action; an unknown one is a reflection (authors' code)."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in ACTIONS else "reflect"


Text = Annotated[str, BeforeValidator(_text)]


class Step(BaseModel):
    """The reply of one `generate` call: E', G', the chosen action and its payload."""

    evidence: Annotated[list[str], BeforeValidator(_texts)]
    gaps: Text
    decision: Annotated[Action, BeforeValidator(_action)]
    retrieval_query: Text = ""
    detailed_answer: Text = ""
    reasoning: Text = ""


@dataclass
class State:
    """What the loop carries from step to step (paper §3): E, G, S, X, Δq, F, k, the streak."""

    evidence: list[str] = field(default_factory=list)  # E
    gaps: str = ""  # G
    snippets: list[int] = field(default_factory=list)  # S: the last retrieval's chunks, best first
    shown: list[int] = field(default_factory=list)  # X, in the order shown
    refinement: str = ""  # Δq
    reasoning: str = ""  # F
    draft: str = ""
    iteration: int = 0  # k
    streak: int = 0  # reflections since the last retrieval


def forced(state: State, chunks: int, ask: MemR3Ask) -> Action | None:
    """Return the only action allowed next, if a rule fixes it whatever the model says."""
    if not state.snippets and ask.empty_retrieval == "reflect":
        return "reflect"
    if state.streak >= ask.n_cap and len(state.shown) < chunks:
        return "retrieve"
    return None


def route(state: State, decision: Action, chunks: int, ask: MemR3Ask) -> Action:
    """Return the action to take after a `generate` call: budget, rules, then the model."""
    if state.iteration >= ask.n_max:
        return "answer"
    return forced(state, chunks, ask) or decision
