"""Repairs by the author model: its brief about a tool, and the draft made from its reply."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.db import transaction

from synthesis.assessment.case_words import format_case
from synthesis.assessment.tool_repair import ToolBrief, repair_tool
from synthesis.errors import InputError, ProgramError
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from webapp.accounts.models import User
from webapp.accounts.services import write_audit_entry
from webapp.edits.case_runs import find_assessment
from webapp.edits.models import Edit, EditKind
from webapp.edits.services import NO_AUTHOR
from webapp.endpoints.connections import open_chat_model
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_default_model
from webapp.environments.models import Tool, ToolCase
from webapp.environments.services import build_record
from webapp.review.tools.person_verdicts import PersonVerdict, classify_case, find_person_verdict

MOST_FAILED = 20
MOST_PASSED = 12


def build_tool_brief(tool: Tool) -> ToolBrief:
    """Return the brief for the author: the newest assessment's cases of the tool, those that went wrong first.

    A case that people accepted against its checker must not change.
    """
    version = tool.version
    newest = find_assessment(version)
    cases = list(newest.cases.filter(tool=tool.name).order_by("position")[:200]) if newest is not None else []
    verdict = find_person_verdict(tool.pk)
    wrong = [row for row in cases if classify_case(row, verdict) != "pass"]
    failed = sorted(wrong, key=lambda row: classify_case(row, verdict) != "fail")
    passed = [row for row in cases if classify_case(row, verdict) == "pass"]
    return ToolBrief(
        class_name=version.class_name,
        program=version.source,
        tool=tool.name,
        rules=tuple(map(str, version.rules)),
        state_schema=build_record(version).state_schema,
        failed=tuple(_format_case(row, verdict) for row in failed[:MOST_FAILED]),
        passed=tuple(_format_case(row, verdict) for row in passed[:MOST_PASSED]),
    )


def _format_case(row: ToolCase, said: PersonVerdict | None) -> str:
    text = format_case(row)
    if said is None or row.verdict == "pass":
        return text
    label, counts_as = said.get_case_label(row), classify_case(row, said)
    return f"{text}\npeople say: {label}; that counts as {counts_as}, whatever the verdict is"


def ask_repair(user: User, tool: Tool, origin: Edit | None, sample: int) -> Edit:
    """Ask the author model and store its reply as a draft of the person.

    Raises InputError if no model plays the author, or the reply is unusable; LLMError if the endpoint fails.
    """
    chosen = find_default_model(LLMRole.AUTHOR)
    if chosen is None:
        raise InputError(NO_AUTHOR)
    row, model = chosen
    brief = build_tool_brief(tool)

    async def request_repair() -> str:
        async with open_chat_model(row, model, "author") as author:
            return await repair_tool(Asker({"author": author}, MemoryStore()), brief, f"tool-{tool.pk}", sample)

    try:
        code = async_to_sync(request_repair)()
    except ProgramError as error:
        raise InputError(str(error)) from error
    return _store_repair_draft(user, tool, origin, code, f"{row.name}: {model}")


@transaction.atomic
def _store_repair_draft(user: User, tool: Tool, origin: Edit | None, code: str, by_model: str) -> Edit:
    edit = Edit(
        kind=EditKind.PROGRAM, environment_id=tool.version.environment_id, version=tool.version, tool=tool.name,
        body={"tool_source": code}, author=user, by_model=by_model[:300], origin=origin, serial=1,
        why=f"A repair that {by_model} wrote.",
    )  # fmt: skip
    edit.digest = edit.compute_digest()
    edit.save()
    write_audit_entry(user, "edit.repair", edit, tool=tool.name, model=by_model)
    return edit
