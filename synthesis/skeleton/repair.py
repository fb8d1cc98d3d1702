"""Repair of fragments to a program that passes the check (ours).

Assembly, then rounds of repair with the errors fed back; EnvScaler's released code discards programs that do not parse.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from synthesis.drafts import AssembledProgram, CodeDraft, Plan, ThemeDraft
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.envscaler_export import environment_to_envscaler
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.values import shorten_text
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import ALLOWED_MODULES
from synthesis.skeleton.assembly import merge_fragments
from synthesis.skeleton.fragments import normalize_fragment
from synthesis.skeleton.name_agreement import find_disagreements
from synthesis.skeleton.plan_text import format_plan
from synthesis.skeleton.static import PROGRAM_CHARS, build_program, examine_program
from synthesis.stages import Kit

_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")


async def assemble_program(kit: Kit, theme: ThemeDraft, plan: Plan, code: CodeDraft) -> AssembledProgram:
    """Return one program of these fragments, repaired if the check finds faults.

    `invalid_before_repair` names the fragments that were refused while they were written, and the faults of the first
    program. Raise Rejected (`invalid_program`) after `settings.repairs` rounds, the errors of `Kit.ask_code`, and
    SandboxUnavailable.
    """
    source = merge_fragments(code)
    first = problems = await kit.run(examine_program, kit.sandbox, source, code.class_name, plan)
    rounds = 0
    while problems and rounds < kit.settings.repairs:
        kit.check_stop()
        words = build_repair_prompt(plan, code.class_name, source, problems)
        source = normalize_fragment(await kit.ask_code("author", "repair", words, _require_bounded, sample=rounds))
        problems = await kit.run(examine_program, kit.sandbox, source, code.class_name, plan)
        rounds += 1
    if problems:
        evidence = {"problems": problems, "at_first": first, "repairs": rounds, "program": source[:PROGRAM_CHARS]}
        more_text = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        after = f"{rounds} round{'s' * (rounds != 1)} of repair"
        message = f"The program is not valid after {after}: {problems[0]}{more_text}."
        raise Rejected("invalid_program", message, evidence=evidence)
    agreed = await _improve_agreement(kit, plan, code.class_name, source, rounds)
    return AssembledProgram(
        record=build_record(theme, plan, code.class_name, agreed),
        invalid_before_repair=(*code.refused, *first),
        repairs=rounds + (agreed != source),
        disagreements=tuple(find_disagreements(agreed, code.class_name, plan)),
    )


async def _improve_agreement(kit: Kit, plan: Plan, class_name: str, source: str, rounds: int) -> str:
    """Return a valid program whose methods agree on names better, if possible.

    The author is asked once about disagreements; the program stays if the new version is invalid or agrees no better.
    """
    apart = find_disagreements(source, class_name, plan)
    if not apart or rounds >= kit.settings.repairs:
        return source
    kit.check_stop()
    words = build_repair_prompt(plan, class_name, source, apart)
    try:
        other = normalize_fragment(await kit.ask_code("author", "repair", words, _require_bounded, sample=rounds))
    except MalformedReply:
        return source
    if await kit.run(examine_program, kit.sandbox, other, class_name, plan):
        return source
    return other if len(find_disagreements(other, class_name, plan)) < len(apart) else source


def build_repair_prompt(plan: Plan, class_name: str, source: str, problems: list[str]) -> str:
    """Return the prompt on a program that did not pass."""
    return get_prompt("skeleton", "repair").render(
        plan=fence_text("plan", format_plan(plan)),
        program=fence_text("program", source),
        problems=fence_text("problems", "\n".join(f"- {problem}" for problem in problems)),
        class_name=class_name,
        modules=", ".join(ALLOWED_MODULES),
    )


def build_record(theme: ThemeDraft, plan: Plan, class_name: str, source: str) -> EnvironmentRecord:
    """Return E = {program, documentation, tools} as a record of importers; a tool's description is its docstring."""
    tools = build_program(source, class_name, plan).tools
    record = EnvironmentRecord(
        key=build_slug(theme.key),
        name=plan.name,
        summary=shorten_text(theme.description or plan.introduction, 300),
        introduction=_build_introduction(plan),
        category=plan.category,
        rules=plan.rules,
        state_schema=tuple(_list_entities(plan)),
        class_name=class_name,
        source=source,
        tools=tuple(ToolRecord(name=tool.name, description=tool.description, kind=tool.kind) for tool in tools),
    )
    return record.model_copy(update={"raw": environment_to_envscaler(record)})


def _build_introduction(plan: Plan) -> str:
    """Return the description of the system, with the role of time."""
    if not plan.time.rules:
        return plan.introduction
    return f"{plan.introduction} {plan.time.due} The day it is: {plan.time.told_by}."


def _list_entities(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"entity": entity.entity, "attributes": ", ".join(entity.attributes), "description": entity.description}
        for entity in plan.entities
    ]


def build_slug(key: str) -> str:
    """Return the key itself if it can be part of a URL, else the rest of it with a part of its hash."""
    if _KEY.fullmatch(key):
        return key
    remaining = re.sub(r"[^a-z0-9]+", "-", key.lower()[:200]).strip("-")[:60]
    return f"{remaining or 'theme'}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _require_bounded(code: str) -> None:
    if len(code) > PROGRAM_CHARS:
        raise InputError(f"the program has {len(code):,} characters; {PROGRAM_CHARS:,} are allowed")
