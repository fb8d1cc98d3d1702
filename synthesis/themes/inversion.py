"""Themes inverted from sets of tools (Agent-World 3.1, second source).

The author names a system that would have these tools, and its users' requests. Prompt and bounds are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from synthesis.prompts import fence_text, get_prompt
from synthesis.prompts.tool_text import describe_tools
from synthesis.stages import Kit
from synthesis.themes.specifications import is_described
from synthesis.themes.tasks import LEAST_WORDS, Reasoning

TOOL_CHARS = 30_000
TASK_CHARS = 12_000
"""Of the tasks that came with the tools; of more, an even sample is shown."""


class InvertedTheme(BaseModel):
    """Reply to `invert_tools`."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    reasoning: Reasoning = ""
    name: Annotated[str, StringConstraints(min_length=3, max_length=120)]
    description: Annotated[str, StringConstraints(min_length=1, max_length=5_000)]
    category: Annotated[str, StringConstraints(max_length=120)] = Field(default="")


def needs_inversion(theme: ThemeDraft) -> bool:
    """Return whether a theme is only a set of tools: it has no description, or tasks with more information."""
    return theme.origin == "documents" and (not is_described(theme) or bool(theme.tasks))


async def invert_theme(kit: Kit, theme: ThemeDraft) -> ThemeDraft:
    """Return the theme with the name and description that its tools and tasks imply; all else stays as it is.

    Raise MalformedReply and the errors of `Asker.reply`.
    """
    tasks = "\n".join(f"- {' '.join(task.split())}" for task in sample_tasks(theme.tasks, TASK_CHARS))
    known_text = f"{theme.name}\n{theme.description if is_described(theme) else ''}".strip()
    words = get_prompt("themes", "invert_tools").render(
        about=fence_text("source", known_text),
        tools=fence_text("tools", describe_tools(theme.tools, TOOL_CHARS)),
        tasks=fence_text("tasks", tasks or "none are known"),
    )
    reply = await kit.ask("author", "invert_tools", words, InvertedTheme, _require_words)
    return theme.model_copy(
        update={
            "name": " ".join(clean_text(reply.name).split()),
            "description": clean_text(reply.description),
            "category": theme.category or " ".join(clean_text(reply.category).split()),
        }
    )


def sample_tasks(tasks: Sequence[str], most: int) -> list[str]:
    """Return as many tasks, spread evenly, as have at most `most` characters together; at least one."""
    step = 1
    while step < len(tasks) and sum(map(len, tasks[::step])) > most:
        step += 1
    return list(tasks[::step])


def _require_words(reply: InvertedTheme) -> None:
    words = len(reply.description.split())
    if words < LEAST_WORDS:
        raise InputError(f"description: {words} words; it must have at least {LEAST_WORDS}")
