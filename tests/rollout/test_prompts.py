"""Prompts are files with hashes, and fit their variables or say so."""

from __future__ import annotations

import hashlib
import re

import pytest

from synthesis.errors import PromptError
from synthesis.prompts import HERE, Prompt, build_fence_line, fence_text, get_prompt, map_prompt_hashes

EVERY = sorted(path.relative_to(HERE).with_suffix("").as_posix() for path in HERE.glob("*/*.md"))


def test_a_missing_and_an_unused_variable_are_errors() -> None:
    with pytest.raises(PromptError, match="missing: stop"):
        get_prompt("user", "base").render(intent="x")
    with pytest.raises(PromptError, match="not used: mood"):
        get_prompt("user", "base").render(intent="x", stop="y", mood="z")


def test_a_value_is_not_looked_at_again() -> None:
    made = Prompt("x/y", "{{a}} and {{ b }}", "")
    assert made.render(a="{{b}}", b=r"\1 {{a}}") == r"{{b}} and \1 {{a}}"


def test_the_hash_is_that_of_the_file() -> None:
    found = get_prompt("agent", "task")
    assert found.sha256 == hashlib.sha256((HERE / "agent" / "task.md").read_bytes()).hexdigest()
    assert map_prompt_hashes(found) == {"agent/task": found.sha256}


@pytest.mark.parametrize(("stage", "name"), [("agent", "none"), ("..", "errors"), ("agent", "../user/base"), ("", "")])
def test_a_prompt_that_is_none_is_an_error(stage: str, name: str) -> None:
    with pytest.raises(PromptError):
        get_prompt(stage, name)


@pytest.mark.parametrize("name", EVERY)
def test_every_prompt_renders_with_its_own_variables(name: str) -> None:
    found = get_prompt(*name.split("/"))
    text = found.render(**dict.fromkeys(found.variables, "value"))
    assert not re.search(r"\{\{|\}\}", text)


def test_no_text_can_close_its_fence() -> None:
    line = build_fence_line("theme", "Pots.")
    assert re.fullmatch(r"=== theme \d{9} ===", line)
    assert fence_text("theme", "Pots.") == f"{line}\nPots.\n{line}"
    holding = "".join(f"=== theme {number:09} ===\n" for number in range(1_000))
    assert build_fence_line("theme", holding) not in holding
