"""Repairs by the author model: what it is told of a tool, and the draft that its reply becomes."""

from __future__ import annotations

import json
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction

from synthesis.errors import InputError, LLMError, ProgramError
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from synthesis.skeleton.tool_repair import ToolBrief, repair_tool
from webapp.accounts.models import User
from webapp.accounts.services import audit
from webapp.edits.models import Edit, EditKind
from webapp.edits.services import digest_of
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.endpoints.services import opened
from webapp.environments.case_groups import EXPECTED
from webapp.environments.models import Assessment, Tool, ToolCase

MOST_FAILED = 20
MOST_PASSED = 12
VALUE_CHARS = 500
NO_AUTHOR = "No model plays the author. An administrator chooses one under Endpoints, Roles."


def brief_of(tool: Tool) -> ToolBrief:
    """What the author is told: the newest assessment's cases of the tool, those that went wrong first."""
    version = tool.version
    newest = Assessment.objects.filter(version=version).order_by("-id").first()
    cases = list(newest.cases.filter(tool=tool.name).order_by("position")[:200]) if newest is not None else []
    failed = sorted((row for row in cases if row.verdict != "pass"), key=lambda row: row.verdict != "fail")
    passed = [row for row in cases if row.verdict == "pass"]
    return ToolBrief(
        class_name=version.class_name,
        program=version.source,
        tool=tool.name,
        rules=tuple(map(str, version.rules)),
        failed=tuple(_spelled(row) for row in failed[:MOST_FAILED]),
        passed=tuple(_spelled(row) for row in passed[:MOST_PASSED]),
    )


def _spelled(row: ToolCase) -> str:
    happened = _short(row.result) if row.ok else row.error[:VALUE_CHARS]
    lines = [
        f"call: {row.tool}({_short(row.arguments)})",
        f"expected: {EXPECTED[row.case]}",
        f"happened: {happened}",
        f"changes of the state: {_short(row.patch) if row.patch else 'none'}",
    ]
    return "\n".join([*lines, f"verdict: {row.verdict}. {row.reason[:VALUE_CHARS]}"])


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"


def ask_repair(user: User, tool: Tool, origin: Edit | None, sample: int) -> Edit:
    """Ask the author model and keep its reply as a draft of the person's. Raises InputError: nobody plays the author,
    or no usable reply; LLMError: the endpoint."""
    chosen = default_of(LLMRole.AUTHOR)
    if chosen is None:
        raise InputError(NO_AUTHOR)
    row, model = chosen
    try:
        endpoint = opened(row)
    except InputError as error:
        raise LLMError("refused", f"The author's endpoint {row.name} cannot be used: {error}") from error
    brief = brief_of(tool)

    async def asked() -> str:
        from synthesis.llm.client import connect  # takes a second to import, which no page should wait for

        async with connect(endpoint) as connection:
            asker = Asker({"author": connection.chat(model)}, MemoryStore())
            return await repair_tool(asker, brief, f"tool-{tool.pk}", sample)

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
    edit.digest = digest_of(edit)
    edit.save()
    audit(user, "edit.repair", edit, tool=tool.name, model=by_model)
    return edit
