"""Program modeling (EnvScaler 3.2, Eq. 3): class attributes first, then one method for each operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from synthesis.drafts import CodeDraft, OperationPlan, Plan
from synthesis.errors import EnvariumError, InputError
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import ALLOWED_MODULES
from synthesis.skeleton.documented_tools import describe_parameters, find_method_problems
from synthesis.skeleton.fragments import normalize_fragment, read_attributes, read_method
from synthesis.skeleton.plan_text import format_operation, format_plan
from synthesis.stages import Kit

AT_ONCE = 8
"""Methods of one environment that are asked for at the same time."""


async def write_code(kit: Kit, plan: Plan) -> CodeDraft:
    """Return the code fragments of a plan. Raise the errors of `Kit.ask_code`.

    If one method fails, wait for those already requested and store them, but begin no more.
    """
    refused: list[str] = []
    names = {operation.name for operation in plan.operations}
    words = get_prompt("skeleton", "code_attributes").render(
        plan=fence_text("plan", format_plan(plan)), modules=", ".join(ALLOWED_MODULES)
    )
    check = _make_noting_check("attributes", refused, lambda code: read_attributes(code, names))
    attributes = normalize_fragment(await kit.ask_code("author", "code_attributes", words, check))
    kit.check_stop()
    methods, method_refusals = await _write_methods(kit, plan, attributes)
    return CodeDraft(
        class_name=read_attributes(attributes, names).name,
        attributes=attributes,
        methods=tuple(methods),
        refused=(*refused, *method_refusals),
    )


async def _write_methods(kit: Kit, plan: Plan, attributes: str) -> tuple[list[str], list[str]]:
    """Return the methods in the order of the plan, and the refusals on the way, in the same order."""
    gate = asyncio.Semaphore(AT_ONCE)
    refused: list[list[str]] = [[] for _ in plan.operations]
    failed: list[str] = []

    async def write_method(index: int, operation: OperationPlan) -> str:
        async with gate:
            if failed:
                return ""
            kit.check_stop()
            check = _make_noting_check(operation.name, refused[index], lambda code: _read_operation(code, operation))
            words = build_method_prompt(plan, attributes, operation)
            try:
                return normalize_fragment(await kit.ask_code("author", "code_method", words, check, sample=index))
            except EnvariumError:
                failed.append(operation.name)
                raise

    requests = [write_method(index, operation) for index, operation in enumerate(plan.operations)]
    methods = []
    for got in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(got, BaseException):
            raise got
        methods.append(got)
    return methods, [reason for group in refused for reason in group]


def build_method_prompt(plan: Plan, attributes: str, operation: OperationPlan) -> str:
    """Return the prompt on one operation. The part that all operations share comes first."""
    return get_prompt("skeleton", "code_method").render(
        plan=fence_text("plan", format_plan(plan, brief=True)),
        attributes=fence_text("code", attributes),
        operation=fence_text("operation", format_operation(operation) + describe_parameters(operation)),
    )


def _read_operation(code: str, operation: OperationPlan) -> None:
    """Raise InputError if the code is not the operation's method, or takes other parameters than documented."""
    read_method(code, operation.name)
    if problems := find_method_problems(normalize_fragment(code), operation):
        raise InputError("; ".join(problems[:5]))


def _make_noting_check(what: str, refused: list[str], read: Callable[[str], object]) -> Callable[[str], None]:
    """Return a check that also records its refusals: those are the fragments that were invalid before repair."""

    def check_fragment(code: str) -> None:
        try:
            read(code)
        except InputError as error:
            refused.append(f"{what}: {error}"[:300])
            raise

    return check_fragment
