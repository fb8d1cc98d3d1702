"""A plan as prompts show it."""

from __future__ import annotations

from collections.abc import Iterator

from synthesis.drafts import OperationPlan, Plan
from synthesis.skeleton.plan_reply import StatePlanReply


def state_text(state: StatePlanReply | Plan) -> str:
    """State space, rules and how time enters."""
    return "\n".join(_state_lines(state))


def plan_text(plan: Plan, *, brief: bool = False) -> str:
    """The whole plan; with `brief` operations are told by their names alone."""
    lines = [state_text(plan)]
    if plan.time.told_by:
        lines.append(f"{plan.time.told_by} tells it.")
    if brief:
        names = ", ".join(f"{one.name} ({one.kind})" for one in plan.operations)
        return "\n".join(lines) + f"\n\nOperations: {names}"
    operations = "\n".join(operation_text(one) for one in plan.operations)
    return "\n".join(lines) + f"\n\nOperations:\n{operations}"


def operation_text(one: OperationPlan) -> str:
    """One operation, with the rules that it keeps to."""
    kept = f" (rule{'s' * (len(one.rules) > 1)} {', '.join(map(str, one.rules))})" if one.rules else ""
    return f"- {one.name} ({one.kind}): {one.description}{kept}"


def _state_lines(state: StatePlanReply | Plan) -> Iterator[str]:
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
