"""Repairs by the author model: what it is told of a tool, and the draft that its reply becomes."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.db import transaction

from synthesis.assessment.case_words import case_text
from synthesis.assessment.tool_repair import ToolBrief, repair_tool
from synthesis.errors import InputError, ProgramError
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from webapp.accounts.models import User
from webapp.accounts.services import audit
from webapp.edits.case_runs import assessment_of
from webapp.edits.models import Edit, EditKind
from webapp.edits.services import NO_AUTHOR
from webapp.endpoints.connections import chat_with
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.environments.models import Tool, ToolCase
from webapp.environments.services import record_of
from webapp.review.tools.person_verdicts import PersonVerdict, counts_as, person_verdict

MOST_FAILED = 20
MOST_PASSED = 12


def brief_of(tool: Tool) -> ToolBrief:
    """What the author is told: the newest assessment's cases of the tool, those that went wrong first.

    A case that people took for right against its checker is to stay as it is.
    """
    version = tool.version
    newest = assessment_of(version)
    cases = list(newest.cases.filter(tool=tool.name).order_by("position")[:200]) if newest is not None else []
    said = person_verdict(tool.pk)
    wrong = [row for row in cases if counts_as(row, said) != "pass"]
    failed = sorted(wrong, key=lambda row: counts_as(row, said) != "fail")
    passed = [row for row in cases if counts_as(row, said) == "pass"]
    return ToolBrief(
        class_name=version.class_name,
        program=version.source,
        tool=tool.name,
        rules=tuple(map(str, version.rules)),
        state_schema=record_of(version).state_schema,
        failed=tuple(_told(row, said) for row in failed[:MOST_FAILED]),
        passed=tuple(_told(row, said) for row in passed[:MOST_PASSED]),
    )


def _told(row: ToolCase, said: PersonVerdict | None) -> str:
    text = case_text(row)
    if said is None or row.verdict == "pass":
        return text
    return f"{text}\npeople say: {said.label_of(row)}; that counts as {counts_as(row, said)}, whatever the verdict is"


def ask_repair(user: User, tool: Tool, origin: Edit | None, sample: int) -> Edit:
    """Ask the author model and keep its reply as a draft of the person's. Raises InputError: nobody plays the author,
    or no usable reply; LLMError: the endpoint."""
    chosen = default_of(LLMRole.AUTHOR)
    if chosen is None:
        raise InputError(NO_AUTHOR)
    row, model = chosen
    brief = brief_of(tool)

    async def asked() -> str:
        async with chat_with(row, model, "author") as author:
            return await repair_tool(Asker({"author": author}, MemoryStore()), brief, f"tool-{tool.pk}", sample)

    try:
        code = async_to_sync(asked)()
    except ProgramError as error:
        raise InputError(str(error)) from error
    return _kept(user, tool, origin, code, f"{row.name}: {model}")


@transaction.atomic
def _kept(user: User, tool: Tool, origin: Edit | None, code: str, by_model: str) -> Edit:
    edit = Edit(
        kind=EditKind.PROGRAM, environment_id=tool.version.environment_id, version=tool.version, tool=tool.name,
        body={"tool_source": code}, author=user, by_model=by_model[:300], origin=origin, serial=1,
        why=f"A repair that {by_model} wrote.",
    )  # fmt: skip
    edit.digest = edit.compute_digest()
    edit.save()
    audit(user, "edit.repair", edit, tool=tool.name, model=by_model)
    return edit
