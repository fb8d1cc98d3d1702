"""Logic planning (EnvScaler 3.2, Eq. 2): a theme becomes state space and rules, then the list of operations."""

from __future__ import annotations

from synthesis.drafts import EntityPlan, OperationPlan, Plan, ThemeDraft, TimePlan
from synthesis.errors import Rejected
from synthesis.formats.records import Workflow
from synthesis.prompts import fence_text, get_prompt
from synthesis.prompts.tool_text import describe_tools
from synthesis.skeleton.coverage import cover_rules
from synthesis.skeleton.documented_tools import TOOL_CHARS, is_documented, plan_documented_tools
from synthesis.skeleton.plan_reply import (
    OperationsReply,
    StatePlanReply,
    TimeReply,
    check_operations,
    make_state_check,
)
from synthesis.skeleton.plan_text import format_state
from synthesis.stages import Kit

THEME_CHARS = 8_000
"""Of name and description together: a theme is a short text."""
WORKFLOWS = (
    "Its requirements describe these workflows. The records, the rules and the tools together must let each of them be "
    "carried out from its first step to its last:"
)
FIXED_TOOLS = (
    "Its documents fix the tools, which are these and no others. The records must hold everything that they take and "
    "return:"
)


async def plan_environment(kit: Kit, theme: ThemeDraft) -> Plan:
    """Return the logic plan of an environment for this theme; ask about rules that no operation carries out or shows.

    Raise Rejected (`theme_empty`, `theme_too_long`, `rules_uncovered`) and the errors of `Kit.ask`.
    """
    about = format_theme(theme)
    words = get_prompt("skeleton", "plan_state").render(theme=fence_text("theme", about))
    state = await kit.ask("author", "plan_state", words, StatePlanReply, make_state_check())
    state = state if state.name else state.model_copy(update={"name": theme.name[:120] or theme.key})
    kit.check_stop()
    choose = _choose_tools if not is_documented(theme) else plan_documented_tools
    operations, told_by = await choose(kit, theme, about, state)
    return await cover_rules(kit, _build_plan(theme, state, operations, told_by))


async def _choose_tools(
    kit: Kit, theme: ThemeDraft, about: str, state: StatePlanReply
) -> tuple[tuple[OperationPlan, ...], str]:
    """Ask the author for the tools (EnvScaler 3.2), and for the query of the current day."""
    least, most = kit.settings.least_tools, kit.settings.most_tools
    words = get_prompt("skeleton", "plan_operations").render(
        theme=fence_text("theme", about), plan=fence_text("plan", format_state(state)), least=str(least), most=str(most)
    )
    reply = await kit.ask(
        "author",
        "plan_operations",
        words,
        OperationsReply,
        lambda answer: check_operations(answer, least, most, len(state.rules)),
    )
    return tuple(OperationPlan(**operation.model_dump()) for operation in reply.operations), reply.time_told_by


def _build_plan(theme: ThemeDraft, state: StatePlanReply, operations: tuple[OperationPlan, ...], told_by: str) -> Plan:
    time_reply = state.time if state.time.rules else TimeReply(due=state.time.due)
    return Plan(
        name=state.name,
        introduction=state.introduction,
        category=state.category or theme.category[:80],
        entities=tuple(EntityPlan(**entity.model_dump()) for entity in state.entities),
        rules=tuple(state.rules),
        operations=operations,
        time=TimePlan(**time_reply.model_dump(), told_by=told_by if time_reply.rules else ""),
    )


def format_theme(theme: ThemeDraft) -> str:
    """Return a theme's text for a prompt, with its source's data on tools. Raise Rejected if it is empty or too
    long."""
    about = f"{theme.name.strip()}\n{theme.description.strip()}".strip()
    if not about:
        raise Rejected("theme_empty", "The theme has neither name nor description; write a sentence about it.")
    if len(about) > THEME_CHARS:
        message = f"The theme has {len(about):,} characters; {THEME_CHARS:,} are allowed. Shorten its description."
        raise Rejected("theme_too_long", message, evidence={"characters": len(about), "start": about[:500]})
    parts = [about]
    if theme.workflows:
        flows = "\n".join(describe_workflow(flow, number) for number, flow in enumerate(theme.workflows, 1))
        parts.append(f"{WORKFLOWS}\n{flows}")
    if theme.tools:
        heading = FIXED_TOOLS if is_documented(theme) else "Tools that its source describes:"
        parts.append(f"{heading}\n{describe_tools(theme.tools, TOOL_CHARS)}")
    return "\n\n".join(parts)


def describe_workflow(flow: Workflow, number: int) -> str:
    """Return a workflow with its steps, one per line."""
    about = f": {' '.join(flow.about.split())}" if flow.about else ""
    steps = "".join(f"\n   - {' '.join(step.split())}" for step in flow.steps)
    return f"{number}. {flow.name}{about}{steps}"
