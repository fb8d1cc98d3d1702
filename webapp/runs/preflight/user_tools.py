"""Preflight of users with tools: whether the environments have those that are to be the user's."""

from __future__ import annotations

from collections.abc import Iterable

from training.config import EvaluationJob, Reinforcement
from webapp.datasets.row_facts import Facts
from webapp.runs.preflight.job_lookup import ResolvedJob

PARAM = "changes.attempts.user_tools"
LISTED = 40


def check_user_tools(asked: ResolvedJob, config: Reinforcement | EvaluationJob, sides: Iterable[Facts | None]) -> None:
    """Refuse tools of the user's that no conversation has, and environments that would leave the agent none.

    `sides` are the rows that attempts are made at; sides that are too large to read now are not checked.
    """
    names, known_facts = config.attempts.user_tools, [facts for facts in sides if facts is not None]
    if not names or not known_facts:
        return
    talks = {
        (row.environment, row.tools) for facts in known_facts for row in facts.rows if row.setting == "conversation"
    }
    if not talks:
        message = "Only a simulated user has tools of its own, and no task is a conversation: name no tools."
        asked.refuse(PARAM, "no_conversation", message)
        return
    tool_names = sorted({tool for _, tools in talks for tool in tools})
    unknown = [name for name in names if name not in tool_names]
    if unknown:
        more = f" and {len(tool_names) - LISTED} more" if len(tool_names) > LISTED else ""
        message = (
            f"No conversation has the tool {unknown[0][:200]!r}. They have: {', '.join(tool_names[:LISTED])}{more}."
        )
        asked.refuse(PARAM, "unknown_tool", message)
    bare = sorted(environment for environment, tools in talks if tools and set(tools) <= set(names))
    if bare:
        message = f"Every tool of the environment {bare[0]} is named; leave the agent one at least."
        asked.refuse(PARAM, "no_tool_left", message)
