"""Coverage of rules (ours): the author is asked about rules without an operation before there is code.

The same applies to time: if rules depend on the current day, a query must return it. Rules that stay open after
`ROUNDS` are removed from the plan: a rule that cannot be kept, broken or seen only misleads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import Field, StringConstraints

from synthesis.drafts import OperationPlan, Plan, TimePlan
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.prompts import fence_text, get_prompt
from synthesis.skeleton.documented_tools import has_documented_tools
from synthesis.skeleton.plan_reply import (
    LEAST_RULES,
    Line,
    OperationReply,
    OperationsReply,
    PlanReply,
    check_operations,
    require_rules,
)
from synthesis.skeleton.plan_text import format_plan
from synthesis.stages import Kit

ROUNDS = 2


class CoveredRule(PlanReply):
    """Rule, by number, that operations of the plan carry out or show after all."""

    rule: int
    by: list[str] = Field(min_length=1, max_length=20)


class RewordedRule(CoveredRule):
    """Rule, by number, worded so that the operations can carry it out or show it."""

    text: Line


class CoverageReply(PlanReply):
    """Reply of `plan_coverage`: the coverage of each open rule, operations to add, rules to give up."""

    covered: list[CoveredRule] = Field(default_factory=list, max_length=20)
    operations: list[OperationReply] = Field(default_factory=list, max_length=20)
    reworded: list[RewordedRule] = Field(default_factory=list, max_length=20)
    dropped: list[int] = Field(default_factory=list, max_length=20)
    time_told_by: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = ""


async def cover_rules(kit: Kit, plan: Plan) -> Plan:
    """Return the plan with every rule carried out or shown by an operation, and with a query of the day if rules need
    it.

    Raise Rejected("rules_uncovered") if fewer than two rules are left, and the errors of `Kit.ask` other than for
    unusable replies.
    """
    most = kit.settings.most_tools
    for number in range(ROUNDS):
        open_rules = list_uncovered_rules(plan)
        if not open_rules and not needs_day_query(plan):
            return plan
        kit.check_stop()
        current = plan
        words = get_prompt("skeleton", "plan_coverage").render(
            plan=fence_text("plan", format_plan(plan)),
            missing=fence_text("missing", _describe_missing(plan)),
            most=str(most),
        )
        try:
            reply = await kit.ask(
                "author",
                "plan_coverage",
                words,
                CoverageReply,
                lambda answer, known=current: _require_valid_reply(known, answer, most),  # type: ignore[misc]
                sample=number,
            )
        except MalformedReply:
            break
        plan = drop_rules(amend_plan(plan, reply), reply.dropped)
    open_numbers = set(list_uncovered_rules(plan)) | (set(plan.time.rules) if needs_day_query(plan) else set())
    return drop_rules(plan, open_numbers)


def list_uncovered_rules(plan: Plan) -> list[int]:
    """Return the numbers of the rules that no operation carries out or shows."""
    covered_numbers = {number for operation in plan.operations for number in operation.rules}
    return [number for number in range(1, len(plan.rules) + 1) if number not in covered_numbers]


def needs_day_query(plan: Plan) -> bool:
    """Return whether rules depend on the current day, and no query returns it."""
    return bool(plan.time.rules) and not plan.time.told_by


def _describe_missing(plan: Plan) -> str:
    lines = [f"rule {number}: {plan.rules[number - 1]}" for number in list_uncovered_rules(plan)]
    if needs_day_query(plan):
        numbers = ", ".join(map(str, plan.time.rules))
        lines.append(f"the day it is, which decides rule {numbers}: no query tells it")
    return "\n".join(lines)


def _require_valid_reply(plan: Plan, reply: CoverageReply, most: int) -> None:
    """Raise InputError for a reply that refers to nonexistent rules or operations, or adds too many operations."""
    require_rules([*reply.dropped, *(one.rule for one in (*reply.covered, *reply.reworded))], len(plan.rules), "it")
    names = {operation.name for operation in plan.operations} | {operation.name for operation in reply.operations}
    if not has_documented_tools(plan):  # documented descriptions may be longer than those of a reply
        operations = [OperationReply(**operation.model_dump()) for operation in plan.operations] + reply.operations
        all_operations = OperationsReply(operations=operations, time_told_by=reply.time_told_by)
        check_operations(all_operations, 1, most, len(plan.rules))
    elif reply.operations:
        raise InputError("documents fix the tools: add none; reword or drop a rule that none of them keeps to or shows")
    elif reply.time_told_by and reply.time_told_by not in names:
        raise InputError(f"time_told_by names {reply.time_told_by[:80]!r}, which is no tool")
    absent = [name for one in (*reply.covered, *reply.reworded) for name in one.by if name not in names]
    if absent:
        raise InputError(f"{absent[0][:80]!r} is no operation of the plan, nor one that you add")


def amend_plan(plan: Plan, reply: CoverageReply) -> Plan:
    """Return the plan with the additions of a reply."""
    rules = list(plan.rules)
    for reworded_rule in reply.reworded:
        rules[reworded_rule.rule - 1] = reworded_rule.text
    new_links = {(name, one.rule) for one in (*reply.covered, *reply.reworded) for name in one.by}
    operations = [*plan.operations, *(OperationPlan(**operation.model_dump()) for operation in reply.operations)]
    linked = [
        _add_rules(operation, {rule for name, rule in new_links if name == operation.name}) for operation in operations
    ]
    told_by = plan.time.told_by or (reply.time_told_by if plan.time.rules else "")
    time = plan.time.model_copy(update={"told_by": told_by})
    return plan.model_copy(update={"rules": tuple(rules), "operations": tuple(linked), "time": time})


def _add_rules(operation: OperationPlan, more: set[int]) -> OperationPlan:
    return operation.model_copy(update={"rules": tuple(sorted({*operation.rules, *more}))})


def drop_rules(plan: Plan, dropped: Collection[int]) -> Plan:
    """Return the plan without these rules, the others renumbered. Raise Rejected if too few are left."""
    if not dropped:
        return plan
    kept_numbers = [number for number in range(1, len(plan.rules) + 1) if number not in dropped]
    dropped_rules = tuple(plan.rules[number - 1] for number in sorted(set(dropped)))
    if len(kept_numbers) < LEAST_RULES:
        message = f"No operation carries out or shows these rules, also when asked: {' '.join(dropped_rules)}"
        raise Rejected("rules_uncovered", message, {"rules": list(plan.rules), "uncovered": list(dropped_rules)})
    place = {number: index for index, number in enumerate(kept_numbers, 1)}

    def renumber_rules(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place[number] for number in numbers if number in place)

    operations = [one.model_copy(update={"rules": renumber_rules(one.rules)}) for one in plan.operations]
    time = plan.time.model_copy(update={"rules": renumber_rules(plan.time.rules)})
    return plan.model_copy(
        update={
            "rules": tuple(plan.rules[number - 1] for number in kept_numbers),
            "operations": tuple(operations),
            "time": time if time.rules else TimePlan(),
            "dropped": (*plan.dropped, *dropped_rules),
        }
    )
