"""Program modeling (EnvScaler 3.2, Eq. 3): class attributes first, then one method for each operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from synthesis.drafts import CodeDraft, OperationPlan, Plan
from synthesis.errors import EnvariumError, InputError
from synthesis.prompts import fenced, prompt
from synthesis.runtime import ALLOWED_MODULES
from synthesis.skeleton.documented_tools import describe_parameters, find_method_problems
from synthesis.skeleton.fragments import normal, read_attributes, read_method
from synthesis.skeleton.plan_text import operation_text, plan_text
from synthesis.stages import Kit

AT_ONCE = 8
"""Methods of one environment that are asked for at the same time."""


async def write_code(kit: Kit, plan: Plan) -> CodeDraft:
    """The code fragments of a plan. Raises what `Kit.ask_code` raises.

    Where one method fails, those that are asked for are waited for and stored, and no more are begun.
    """
    refused: list[str] = []
    names = {operation.name for operation in plan.operations}
    words = prompt("skeleton", "code_attributes").render(
        plan=fenced("plan", plan_text(plan)), modules=", ".join(ALLOWED_MODULES)
    )
    check = _noting("attributes", refused, lambda code: read_attributes(code, names))
    attributes = normal(await kit.ask_code("author", "code_attributes", words, check))
    kit.check_stop()
    methods, more = await _methods(kit, plan, attributes)
    return CodeDraft(
        class_name=read_attributes(attributes, names).name,
        attributes=attributes,
        methods=tuple(methods),
        refused=(*refused, *more),
    )


async def _methods(kit: Kit, plan: Plan, attributes: str) -> tuple[list[str], list[str]]:
    """The methods in the order of the plan, and what was refused on the way, in the same order."""
    gate = asyncio.Semaphore(AT_ONCE)
    refused: list[list[str]] = [[] for _ in plan.operations]
    failed: list[str] = []

    async def method(index: int, operation: OperationPlan) -> str:
        async with gate:
            if failed:
                return ""
            kit.check_stop()
            check = _noting(operation.name, refused[index], lambda code: _read_operation(code, operation))
            words = method_words(plan, attributes, operation)
            try:
                return normal(await kit.ask_code("author", "code_method", words, check, sample=index))
            except EnvariumError:
                failed.append(operation.name)
                raise

    asked = [method(index, operation) for index, operation in enumerate(plan.operations)]
    methods = []
    for got in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(got, BaseException):
            raise got
        methods.append(got)
    return methods, [reason for group in refused for reason in group]


def method_words(plan: Plan, attributes: str, operation: OperationPlan) -> str:
    """What the author is told of one operation. The part that all operations share stands first."""
    return prompt("skeleton", "code_method").render(
        plan=fenced("plan", plan_text(plan, brief=True)),
        attributes=fenced("code", attributes),
        operation=fenced("operation", operation_text(operation) + describe_parameters(operation)),
    )


def _read_operation(code: str, operation: OperationPlan) -> None:
    """Raise InputError if code is not the operation's method, or takes something else than its document says."""
    read_method(code, operation.name)
    if problems := find_method_problems(normal(code), operation):
        raise InputError("; ".join(problems[:5]))


def _noting(what: str, refused: list[str], read: Callable[[str], object]) -> Callable[[str], None]:
    """A check that also keeps what it refused: those are the fragments that were invalid before repair."""

    def check(code: str) -> None:
        try:
            read(code)
        except InputError as error:
            refused.append(f"{what}: {error}"[:300])
            raise

    return check
