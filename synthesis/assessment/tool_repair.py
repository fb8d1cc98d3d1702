"""Repair of one tool by the author (ours): its source goes back with the cases that went wrong."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

from synthesis.assessment.prompt_values import format_record_kinds
from synthesis.assessment.tool_context import build_tool_context
from synthesis.contracts import Frozen, Message
from synthesis.errors import InputError, ProgramError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime.method_source import get_method_source, replace_method
from synthesis.runtime.program import check_program, outline_program
from synthesis.syntax import UNREADABLE, parse_module

STAGE = "repair_tool"
CASE_CHARS = 1_500
USES_CHARS = 20_000
SCHEMA_CHARS = 8_000


class ToolBrief(Frozen):
    """Input of a repair: the program, one tool of it, and its cases, each as text.

    The author sees the part of the program that the tool uses, not all of it.
    """

    class_name: str
    program: str
    tool: str
    rules: tuple[str, ...] = ()
    state_schema: tuple[dict[str, Any], ...] = ()
    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


def build_repair_prompt(brief: ToolBrief) -> str:
    """Return the prompt. Raise ProgramError if the tool is not in the program."""
    method = get_method_source(brief.program, brief.class_name, brief.tool)
    return get_prompt("assessment", "repair_tool").render(
        class_name=brief.class_name,
        tool_name=brief.tool,
        rules=fence_text("rules", "\n".join(f"- {rule}" for rule in brief.rules) or "None are written down."),
        schema=fence_text("schema", format_record_kinds(brief.state_schema)[:SCHEMA_CHARS]),
        uses=fence_text("uses", build_tool_context(brief.program, brief.class_name, brief.tool).excerpt[:USES_CHARS]),
        tool=fence_text("tool", method.text),
        cases=fence_text("cases", _format_cases(brief.failed)),
        passed=fence_text("passed", _format_cases(brief.passed)),
    )


def _format_cases(cases: tuple[str, ...]) -> str:
    return "\n\n".join(case[:CASE_CHARS] for case in cases) or "None."


async def repair_tool(asker: Asker, brief: ToolBrief, item: str, sample: int = 0) -> str:
    """Return the method's source as mended by the author, parsed but not run.

    Raise MalformedReply if there is no usable method after a bounded number of tries; ProgramError, LLMError.
    """
    site = Site(role="author", stage=STAGE, item=item, theme="", sample=sample)
    call = StageCall(site=site, messages=(Message(role="user", content=build_repair_prompt(brief)),))
    return await asker.code(call, lambda code: require_method(brief, code))


def require_method(brief: ToolBrief, code: str) -> None:
    """Raise InputError if the reply is not the method, or the program cannot run with it."""
    _require_only_method(brief.tool, code)
    before = outline_program(brief.program, brief.class_name).method(brief.tool)
    changed_source = replace_method(brief.program, brief.class_name, brief.tool, code)
    for finding in check_program(changed_source, brief.class_name, [brief.tool]):
        if finding.severity == "fatal" or finding.kind == "no_method":
            raise InputError(f"With your reply the program cannot run: {finding.message}")
    try:
        after = outline_program(changed_source, brief.class_name)
    except ProgramError as error:
        raise InputError(f"With your reply the program cannot be read: {error}") from error
    names = {method.name for method in outline_program(brief.program, brief.class_name).methods}
    if {method.name for method in after.methods} != names:
        raise InputError(f"Reply with the method {brief.tool} alone, not with other methods or the class around it.")
    mended = after.method(brief.tool)
    if before is None or mended is None or mended.parameters != before.parameters:
        raise InputError("Keep the parameters of the method as they are.")


def _require_only_method(tool: str, code: str) -> None:
    """Raise InputError if the reply holds other statements than the method and imports."""
    try:
        body = parse_module(textwrap.dedent(code)).body
    except UNREADABLE:
        return  # the error is reported once the method is part of the program
    wrong = [node for node in body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    if wrong:
        line = ast.unparse(wrong[0]).partition("\n")[0][:80]
        raise InputError(f"Put `{line}` inside the method {tool}: only imports may stand outside of it.")
    if any(isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names) for node in body):
        raise InputError("Import names, not *.")
