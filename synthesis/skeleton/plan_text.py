"""A plan as prompts show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthesis.drafts import Plan
from synthesis.skeleton.plan_reply import StatePlanReply


def state_text(state: StatePlanReply | Plan) -> str:
    """State space, rules and how time enters."""
    return "\n".join(_state_lines(state))


def plan_text(plan: Plan) -> str:
    """The whole plan."""
    lines = [state_text(plan)]
    if plan.time.told_by:
        lines.append(f"{plan.time.told_by} tells it.")
    operations = "\n".join(_operation(one.name, one.kind, one.description, one.rules) for one in plan.operations)
    return "\n".join(lines) + f"\n\nOperations:\n{operations}"


def _operation(name: str, kind: str, description: str, rules: Sequence[int]) -> str:
    kept = f" (rule{'s' * (len(rules) > 1)} {', '.join(map(str, rules))})" if rules else ""
    return f"- {name} ({kind}): {description}{kept}"


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
