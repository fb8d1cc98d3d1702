"""Coverage of rules (ours): what no operation carries out or shows is asked about before there is code.

The same goes for time: where rules depend on the day it is, some query must tell it. What the author leaves open after
`ROUNDS` is taken out of the plan: a rule that nobody can keep, break or see only misleads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import Field, StringConstraints

from synthesis.drafts import OperationPlan, Plan, TimePlan
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.prompts import fenced, prompt
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
from synthesis.skeleton.plan_text import plan_text
from synthesis.stages import Kit

ROUNDS = 2


class CoveredRule(PlanReply):
    """A rule, by number, that operations of the plan carry out or show after all."""

    rule: int
    by: list[str] = Field(min_length=1, max_length=20)


class RewordedRule(CoveredRule):
    """A rule, by number, said so that the operations can carry it out or show it."""

    text: Line


class CoverageReply(PlanReply):
    """The reply of `plan_coverage`: what covers each open rule, operations to add, rules to give up."""

    covered: list[CoveredRule] = Field(default_factory=list, max_length=20)
    operations: list[OperationReply] = Field(default_factory=list, max_length=20)
    reworded: list[RewordedRule] = Field(default_factory=list, max_length=20)
    dropped: list[int] = Field(default_factory=list, max_length=20)
    time_told_by: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = ""


async def covered(kit: Kit, plan: Plan) -> Plan:
    """The plan with every rule carried out or shown by an operation, and time told by one where rules depend on it.

    Raises Rejected("rules_uncovered") where fewer than two rules are left, and what `Kit.ask` raises for other reasons
    than replies that cannot be used.
    """
    most = kit.settings.most_tools
    for number in range(ROUNDS):
        open_rules = uncovered(plan)
        if not open_rules and not untold(plan):
            return plan
        kit.check_stop()
        current = plan
        words = prompt("skeleton", "plan_coverage").render(
            plan=fenced("plan", plan_text(plan)), missing=fenced("missing", _missing(plan)), most=str(most)
        )
        try:
            reply = await kit.ask(
                "author",
                "plan_coverage",
                words,
                CoverageReply,
                lambda answer, known=current: _require(known, answer, most),  # type: ignore[misc]
                sample=number,
            )
        except MalformedReply:
            break
        plan = without(amended(plan, reply), reply.dropped)
    left = set(uncovered(plan)) | (set(plan.time.rules) if untold(plan) else set())
    return without(plan, left)


def uncovered(plan: Plan) -> list[int]:
    """The numbers of the rules that no operation carries out or shows."""
    named = {number for operation in plan.operations for number in operation.rules}
    return [number for number in range(1, len(plan.rules) + 1) if number not in named]


def untold(plan: Plan) -> bool:
    """Whether rules depend on the day it is, and no query tells it."""
    return bool(plan.time.rules) and not plan.time.told_by


def _missing(plan: Plan) -> str:
    lines = [f"rule {number}: {plan.rules[number - 1]}" for number in uncovered(plan)]
    if untold(plan):
        numbers = ", ".join(map(str, plan.time.rules))
        lines.append(f"the day it is, which decides rule {numbers}: no query tells it")
    return "\n".join(lines)


def _require(plan: Plan, reply: CoverageReply, most: int) -> None:
    """Raises InputError for a reply that points to what there is not, or makes too many operations."""
    require_rules([*reply.dropped, *(one.rule for one in (*reply.covered, *reply.reworded))], len(plan.rules), "it")
    operations = [OperationReply(**operation.model_dump()) for operation in plan.operations] + reply.operations
    names = {operation.name for operation in operations}
    if not has_documented_tools(plan):
        whole = OperationsReply(operations=operations, time_told_by=reply.time_told_by)
        check_operations(whole, 1, most, len(plan.rules))
    elif reply.operations:
        raise InputError("documents fix the tools: add none; reword or drop a rule that none of them keeps to or shows")
    elif reply.time_told_by and reply.time_told_by not in names:
        raise InputError(f"time_told_by names {reply.time_told_by[:80]!r}, which is no tool")
    absent = [name for one in (*reply.covered, *reply.reworded) for name in one.by if name not in names]
    if absent:
        raise InputError(f"{absent[0][:80]!r} is no operation of the plan, nor one that you add")


def amended(plan: Plan, reply: CoverageReply) -> Plan:
    """The plan with what a reply adds to it."""
    rules = list(plan.rules)
    for one in reply.reworded:
        rules[one.rule - 1] = one.text
    more = {(name, one.rule) for one in (*reply.covered, *reply.reworded) for name in one.by}
    operations = [*plan.operations, *(OperationPlan(**operation.model_dump()) for operation in reply.operations)]
    linked = [_linked(operation, {rule for name, rule in more if name == operation.name}) for operation in operations]
    told_by = plan.time.told_by or (reply.time_told_by if plan.time.rules else "")
    time = plan.time.model_copy(update={"told_by": told_by})
    return plan.model_copy(update={"rules": tuple(rules), "operations": tuple(linked), "time": time})


def _linked(operation: OperationPlan, more: set[int]) -> OperationPlan:
    return operation.model_copy(update={"rules": tuple(sorted({*operation.rules, *more}))})


def without(plan: Plan, dropped: Collection[int]) -> Plan:
    """The plan without these rules, the others numbered anew. Raises Rejected where too few are left."""
    if not dropped:
        return plan
    kept = [number for number in range(1, len(plan.rules) + 1) if number not in dropped]
    gone = tuple(plan.rules[number - 1] for number in sorted(set(dropped)))
    if len(kept) < LEAST_RULES:
        message = f"No operation carries out or shows these rules, also when asked: {' '.join(gone)}"
        raise Rejected("rules_uncovered", message, {"rules": list(plan.rules), "uncovered": list(gone)})
    place = {number: index for index, number in enumerate(kept, 1)}

    def renumbered(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place[number] for number in numbers if number in place)

    operations = [one.model_copy(update={"rules": renumbered(one.rules)}) for one in plan.operations]
    time = plan.time.model_copy(update={"rules": renumbered(plan.time.rules)})
    return plan.model_copy(
        update={
            "rules": tuple(plan.rules[number - 1] for number in kept),
            "operations": tuple(operations),
            "time": time if time.rules else TimePlan(),
            "dropped": (*plan.dropped, *gone),
        }
    )
