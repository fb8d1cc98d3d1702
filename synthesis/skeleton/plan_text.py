"""Text of a plan for prompts."""

from __future__ import annotations

from collections.abc import Iterator

from synthesis.drafts import OperationPlan, Plan
from synthesis.skeleton.plan_reply import StatePlanReply


def format_state(state: StatePlanReply | Plan) -> str:
    """Return state space, rules and the role of time."""
    return "\n".join(_iter_state_lines(state))


def format_plan(plan: Plan, *, brief: bool = False) -> str:
    """Return the whole plan; with `brief` operations are given only by their names."""
    lines = [format_state(plan)]
    if plan.time.told_by:
        lines.append(f"{plan.time.told_by} tells it.")
    if brief:
        names = ", ".join(f"{one.name} ({one.kind})" for one in plan.operations)
        return "\n".join(lines) + f"\n\nOperations: {names}"
    operations = "\n".join(format_operation(one) for one in plan.operations)
    return "\n".join(lines) + f"\n\nOperations:\n{operations}"


def format_operation(one: OperationPlan) -> str:
    """Return one operation, with the rules that it follows."""
    rule_text = f" (rule{'s' * (len(one.rules) > 1)} {', '.join(map(str, one.rules))})" if one.rules else ""
    return f"- {one.name} ({one.kind}): {one.description}{rule_text}"


def _iter_state_lines(state: StatePlanReply | Plan) -> Iterator[str]:
    yield from (f"Environment: {state.name}", state.introduction, "", "State:")
    for entity in state.entities:
        yield f"- {entity.entity} ({', '.join(entity.attributes)}): {entity.description}"
    yield from ("", "Rules:")
    yield from (f"{number}. {rule}" for number, rule in enumerate(state.rules, 1))
    if state.time.rules:
        numbers = ", ".join(map(str, state.time.rules))
        yield from (
            "",
            f"Time: the day it is, kept in `{state.time.kept_in}`, decides rule {numbers}. {state.time.due}",
        )
