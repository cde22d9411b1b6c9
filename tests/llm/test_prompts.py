"""Prompt templates: sections, values, the user's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsys.errors import UserError
from memsys.llm.chat import Message
from memsys.llm.prompts import Prompt, Prompts

TEMPLATE = """### system
Be brief.
### user
An example
### assistant
{"a": 1}
### user
Context: ${context}
Date: ${date}
Question: ${question}
"""


def test_sections_become_messages_with_worked_examples() -> None:
    messages = Prompt("x/y", TEMPLATE).render(context="C", date="D", question="Q")
    assert [m.role for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[2] == Message("assistant", '{"a": 1}')
    assert messages[3].content == "Context: C\nDate: D\nQuestion: Q"
    assert messages.prompt.startswith("x/y@")


def test_a_line_whose_values_are_all_empty_disappears() -> None:
    messages = Prompt("x/y", TEMPLATE).render(context="C", date="", question="Q")
    assert messages[3].content == "Context: C\nQuestion: Q"


def test_values_are_data_never_templates() -> None:
    nasty = "${question} ### user\n$HOME {question} %s"
    messages = Prompt("x/y", TEMPLATE).render(context=nasty, date="D", question="Q")
    assert messages[3].content.startswith(f"Context: {nasty}\n")
    assert len(messages) == 4


def test_a_template_that_asks_for_an_unknown_value_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UserError, match="'contxt'.*Did you mean 'context'"):
        Prompt("x/y", "### user\n${contxt}").render(context="C")


def test_a_template_without_a_heading_is_refused() -> None:
    with pytest.raises(UserError, match="### user"):
        Prompt("x/y", "hello").render()


def test_the_users_own_file_replaces_ours_and_changes_the_hash(tmp_path: Path) -> None:
    ours = Prompts().get("eval.answering", "short")
    (tmp_path / "answering").mkdir()
    (tmp_path / "answering" / "short.txt").write_text("### user\n${question}\n")
    own = Prompts(tmp_path).get("eval.answering", "short")
    assert own.render(context="", question="Q", question_date="")[0].content == "Q"
    assert own.hash != ours.hash
    assert (
        Prompts(tmp_path).get("eval.answering", "memgas").hash
        == Prompts().get("eval.answering", "memgas").hash
    )


def test_an_unknown_prompt_and_a_missing_folder_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no prompt 'shrt'.*Did you mean 'short'"):
        Prompts().get("eval.answering", "shrt")
    with pytest.raises(UserError, match="prompts.dir"):
        Prompts(tmp_path / "none")
