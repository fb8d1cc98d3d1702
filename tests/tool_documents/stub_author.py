"""An author that plans a documented environment and writes one stub a tool, with the signature of its document."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from synthesis.drafts import AssembledProgram, OperationPlan, Plan, ThemeDraft
from synthesis.runtime import Sandbox
from synthesis.skeleton import plan_environment
from synthesis.skeleton.code import write_code
from synthesis.skeleton.documented_tools import name_tools
from synthesis.skeleton.repair import assemble_program
from tests.skeleton.support import ATTRIBUTES, STATE, Author, fenced, kit

ANNOTATIONS = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict",
}  # fmt: skip


@dataclass(frozen=True)
class Grown:
    """What came of a theme, and the words that asked for its state and its tools."""

    plan: Plan
    built: AssembledProgram
    asked_state: str
    asked_tools: str


def grow(theme: ThemeDraft, sandbox: Sandbox) -> Grown:
    """Take a theme from tool documents through planning, code and static check. Raises Rejected."""
    named = name_tools(theme.tools)
    author = Author()
    author.said |= {
        "plan_state": [json.dumps(STATE)],
        "plan_documented": [
            json.dumps({"tools": [{"name": tool.name, "kind": "query", "rules": [1, 2]} for tool in named]})
        ],
        "code_attributes": [fenced(ATTRIBUTES)],
    }
    own = kit(author, sandbox)

    async def build() -> tuple[Plan, AssembledProgram]:
        planned = await plan_environment(own, theme)
        author.said |= {
            f"code_method {index}": [fenced(write_stub(operation))]
            for index, operation in enumerate(planned.operations)
        }
        return planned, await assemble_program(own, theme, planned, await write_code(own, planned))

    planned, built = asyncio.run(build())
    return Grown(planned, built, author.heard("plan_state")[0], author.heard("plan_documented")[0])


def write_stub(operation: OperationPlan) -> str:
    """Write a method that takes what the document says and does nothing."""
    schema = operation.parameters or {}
    required = schema["required"]
    fields = schema["properties"].items()
    takes = [f"{name}: {_annotate(field)}" for name, field in fields if name in required]
    takes += [f"{name}: {_annotate(field)} = None" for name, field in fields if name not in required]
    return (
        f"from typing import Any\n\ndef {operation.name}({', '.join(['self', *takes])}) -> dict:\n"
        f'    """Stand for a tool."""\n    return {{"success": True}}\n'
    )


def _annotate(field: Any) -> str:
    kind = field.get("type") if isinstance(field, dict) else None
    return ANNOTATIONS.get(kind, "Any") if isinstance(kind, str) else "Any"
