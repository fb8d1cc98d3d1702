"""From fragments to a program that passes the check: assembly, then rounds of repair with the errors fed back (ours;
EnvScaler's released code discards what does not parse)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from synthesis.drafts import AssembledProgram, CodeDraft, Plan, ThemeDraft
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.envscaler_export import environment_to_envscaler
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.values import shorten
from synthesis.prompts import fenced, prompt
from synthesis.runtime import ALLOWED_MODULES
from synthesis.skeleton.assembly import merge
from synthesis.skeleton.fragments import normal
from synthesis.skeleton.name_agreement import disagreements
from synthesis.skeleton.plan_text import plan_text
from synthesis.skeleton.static import PROGRAM_CHARS, examine, program_of
from synthesis.stages import Kit

_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")


async def assemble(kit: Kit, theme: ThemeDraft, plan: Plan, code: CodeDraft) -> AssembledProgram:
    """One program of these fragments, repaired where the check finds something.

    `invalid_before_repair` names the fragments that were refused while they were written, and what the check found in
    the first program. Raises Rejected (`invalid_program`) after `settings.repairs` rounds, what `Kit.ask_code` raises,
    and SandboxUnavailable.
    """
    source = merge(code)
    first = problems = await kit.run(examine, kit.sandbox, source, code.class_name, plan)
    rounds = 0
    while problems and rounds < kit.settings.repairs:
        kit.check_stop()
        words = repair_words(plan, code.class_name, source, problems)
        source = normal(await kit.ask_code("author", "repair", words, _bounded, sample=rounds))
        problems = await kit.run(examine, kit.sandbox, source, code.class_name, plan)
        rounds += 1
    if problems:
        evidence = {"problems": problems, "at_first": first, "repairs": rounds, "program": source[:PROGRAM_CHARS]}
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        after = f"{rounds} round{'s' * (rounds != 1)} of repair"
        message = f"The program is not valid after {after}: {problems[0]}{more}."
        raise Rejected("invalid_program", message, evidence=evidence)
    agreed = await _agreeing(kit, plan, code.class_name, source, rounds)
    return AssembledProgram(
        record=record_of(theme, plan, code.class_name, agreed),
        invalid_before_repair=(*code.refused, *first),
        repairs=rounds + (agreed != source),
        disagreements=tuple(disagreements(agreed, code.class_name, plan)),
    )


async def _agreeing(kit: Kit, plan: Plan, class_name: str, source: str, rounds: int) -> str:
    """A valid program with names that its methods agree on: told once where they do not, it stays as it is where the
    author's other version is not valid or agrees on no more."""
    apart = disagreements(source, class_name, plan)
    if not apart or rounds >= kit.settings.repairs:
        return source
    kit.check_stop()
    words = repair_words(plan, class_name, source, apart)
    try:
        other = normal(await kit.ask_code("author", "repair", words, _bounded, sample=rounds))
    except MalformedReply:
        return source
    if await kit.run(examine, kit.sandbox, other, class_name, plan):
        return source
    return other if len(disagreements(other, class_name, plan)) < len(apart) else source


def repair_words(plan: Plan, class_name: str, source: str, problems: list[str]) -> str:
    """What the author is told of a program that did not pass."""
    return prompt("skeleton", "repair").render(
        plan=fenced("plan", plan_text(plan)),
        program=fenced("program", source),
        problems=fenced("problems", "\n".join(f"- {problem}" for problem in problems)),
        class_name=class_name,
        modules=", ".join(ALLOWED_MODULES),
    )


def record_of(theme: ThemeDraft, plan: Plan, class_name: str, source: str) -> EnvironmentRecord:
    """E = {program, documentation, tools} as every importer gives it; a tool's description is its docstring."""
    tools = program_of(source, class_name, plan).tools
    record = EnvironmentRecord(
        key=slug(theme.key),
        name=plan.name,
        summary=shorten(theme.description or plan.introduction, 300),
        introduction=_introduction(plan),
        category=plan.category,
        rules=plan.rules,
        state_schema=tuple(_entities(plan)),
        class_name=class_name,
        source=source,
        tools=tuple(ToolRecord(name=tool.name, description=tool.description, kind=tool.kind) for tool in tools),
    )
    return record.model_copy(update={"raw": environment_to_envscaler(record)})


def _introduction(plan: Plan) -> str:
    """What the system is, and how time enters."""
    if not plan.time.rules:
        return plan.introduction
    return f"{plan.introduction} {plan.time.due} The day it is: {plan.time.told_by}."


def _entities(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"entity": entity.entity, "attributes": ", ".join(entity.attributes), "description": entity.description}
        for entity in plan.entities
    ]


def slug(key: str) -> str:
    """The key itself where it can stand in an address, else what is left of it with a part of its hash."""
    if _KEY.fullmatch(key):
        return key
    left = re.sub(r"[^a-z0-9]+", "-", key.lower()[:200]).strip("-")[:60]
    return f"{left or 'theme'}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _bounded(code: str) -> None:
    if len(code) > PROGRAM_CHARS:
        raise InputError(f"the program has {len(code):,} characters; {PROGRAM_CHARS:,} are allowed")
