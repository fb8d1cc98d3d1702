"""Themes from a task set (ES 3.1): does the task belong to a stateful, domain-specific environment, and to which?

The thresholds on usefulness and modelability are those of the released code; both are settings.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.tasksets import MAX_TASK_CHARACTERS
from synthesis.formats.values import clean_text
from synthesis.prompts import fence_text, get_prompt
from synthesis.stages import Kit, StageSettings

LEAST_WORDS = 20
"""Of a description: fewer say nothing that a state could be planned from (ours)."""
Reasoning = Annotated[str, StringConstraints(max_length=4_000)]
Score = Annotated[StrictInt, Field(ge=0, le=10)]


class JudgedTask(BaseModel):
    """Reply to `judge_task`."""

    model_config = ConfigDict(extra="ignore")

    reasoning: Reasoning = ""
    stateful: StrictBool
    domain_specific: StrictBool


class InferredTheme(BaseModel):
    """Reply to `infer_theme`."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    reasoning: Reasoning = ""
    name: Annotated[str, StringConstraints(min_length=3, max_length=120)]
    description: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    category: Annotated[str, StringConstraints(max_length=120)] = ""
    usefulness: Score
    modelability: Score


async def discover_theme(kit: Kit, text: str, key: str) -> ThemeDraft:
    """Return the theme that a task implies, under `key`.

    Raise Rejected: `task_too_long`, `not_stateful`, `not_domain_specific`, `not_useful`, `not_modelable`, each with the
    reply as evidence; MalformedReply and the errors of `Asker.reply`.
    """
    if len(text) > MAX_TASK_CHARACTERS:
        message = f"The task has {len(text):,} characters; at most {MAX_TASK_CHARACTERS:,} are read."
        raise Rejected("task_too_long", message)
    if kit.settings.stateful_only:
        require_home(await kit.ask("author", "judge_task", build_task_prompt("judge_task", text), JudgedTask))
    theme = await kit.ask(
        "author", "infer_theme", build_task_prompt("infer_theme", text), InferredTheme, _require_words
    )
    require_scores(theme, kit.settings)
    return ThemeDraft(
        key=key,
        name=" ".join(clean_text(theme.name).split()),
        description=clean_text(theme.description),
        category=" ".join(clean_text(theme.category).split()),
        origin="tasks",
        origin_text=text,
    )


def require_home(judged: JudgedTask) -> None:
    """Raise Rejected for a task without a stateful, domain-specific environment."""
    if not judged.stateful:
        message = "The task needs no records that a system keeps."
        raise Rejected("not_stateful", message, judged.model_dump())
    if not judged.domain_specific:
        message = "The task does not say which kind of system it belongs to."
        raise Rejected("not_domain_specific", message, judged.model_dump())


def require_scores(theme: InferredTheme, settings: StageSettings) -> None:
    """Raise Rejected for a theme below a threshold."""
    thresholds = {
        "not_useful": ("usefulness", theme.usefulness, settings.least_usefulness),
        "not_modelable": ("modelability", theme.modelability, settings.least_modelability),
    }
    for reason, (what, score, least) in thresholds.items():
        if score < least:
            message = f"Its {what} is {score} of 10; kept from {least} on."
            raise Rejected(reason, message, theme.model_dump())


def build_task_prompt(name: str, task: str) -> str:
    """Return a prompt on this task, which is between lines that nothing in it can close."""
    return get_prompt("themes", name).render(task=fence_text("task", task))


def _require_words(theme: InferredTheme) -> None:
    words = len(theme.description.split())
    if words < LEAST_WORDS:
        raise InputError(f"description: {words} words; it must have at least {LEAST_WORDS}")
