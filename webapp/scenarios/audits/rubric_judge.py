"""The judge that this installation has registered for rubrics."""

from __future__ import annotations

from functools import partial

from webapp.endpoints.connections import chat_with
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.scenarios.audits.services import NamedJudge


def registered_judge() -> NamedJudge | None:
    """The default model of the role judge; None where no administrator has set one.

    That its endpoint must not be used shows when it is opened, as LLMError: audits of checks ask no judge.
    """
    default = default_of(LLMRole.JUDGE)
    if default is None:
        return None
    row, model = default
    return NamedJudge(f"{row.name}: {model}", partial(chat_with, row, model, "judge"))
