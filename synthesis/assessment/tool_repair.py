"""Repair of one tool by the author (ours): its source goes back with the cases that went wrong."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

from synthesis.assessment.prompt_values import kinds_text
from synthesis.assessment.tool_context import tool_context
from synthesis.contracts import Frozen, Message
from synthesis.errors import InputError, ProgramError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fenced, prompt
from synthesis.runtime.method_source import method_source, with_method
from synthesis.runtime.program import check_program, outline
from synthesis.syntax import UNREADABLE, parse

STAGE = "repair_tool"
CASE_CHARS = 1_500
USES_CHARS = 20_000
SCHEMA_CHARS = 8_000


class ToolBrief(Frozen):
    """What a repair works with: the program, one tool of it, and its cases, each as text.

    The author is shown the part of the program that the tool uses, not all of it.
    """

    class_name: str
    program: str
    tool: str
    rules: tuple[str, ...] = ()
    state_schema: tuple[dict[str, Any], ...] = ()
    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


def repair_words(brief: ToolBrief) -> str:
    """The question. Raises ProgramError: the tool is not in the program."""
    known = method_source(brief.program, brief.class_name, brief.tool)
    return prompt("assessment", "repair_tool").render(
        class_name=brief.class_name,
        tool_name=brief.tool,
        rules=fenced("rules", "\n".join(f"- {rule}" for rule in brief.rules) or "None are written down."),
        schema=fenced("schema", kinds_text(brief.state_schema)[:SCHEMA_CHARS]),
        uses=fenced("uses", tool_context(brief.program, brief.class_name, brief.tool).excerpt[:USES_CHARS]),
        tool=fenced("tool", known.text),
        cases=fenced("cases", _listed(brief.failed)),
        passed=fenced("passed", _listed(brief.passed)),
    )


def _listed(cases: tuple[str, ...]) -> str:
    return "\n\n".join(case[:CASE_CHARS] for case in cases) or "None."


async def repair_tool(asker: Asker, brief: ToolBrief, item: str, sample: int = 0) -> str:
    """The method's source as the author mends it, parsed but not run.

    Raises MalformedReply: no usable method after a bounded number of tries; ProgramError, LLMError.
    """
    site = Site(role="author", stage=STAGE, item=item, theme="", sample=sample)
    call = StageCall(site=site, messages=(Message(role="user", content=repair_words(brief)),))
    return await asker.code(call, lambda code: require_method(brief, code))


def require_method(brief: ToolBrief, code: str) -> None:
    """Raises InputError: the reply is not the method, or the program cannot run with it."""
    _require_alone(brief.tool, code)
    before = outline(brief.program, brief.class_name).method(brief.tool)
    whole = with_method(brief.program, brief.class_name, brief.tool, code)
    for found in check_program(whole, brief.class_name, [brief.tool]):
        if found.severity == "fatal" or found.kind == "no_method":
            raise InputError(f"With your reply the program cannot run: {found.message}")
    try:
        after = outline(whole, brief.class_name)
    except ProgramError as error:
        raise InputError(f"With your reply the program cannot be read: {error}") from error
    names = {method.name for method in outline(brief.program, brief.class_name).methods}
    if {method.name for method in after.methods} != names:
        raise InputError(f"Reply with the method {brief.tool} alone, not with other methods or the class around it.")
    mended = after.method(brief.tool)
    if before is None or mended is None or mended.parameters != before.parameters:
        raise InputError("Keep the parameters of the method as they are.")


def _require_alone(tool: str, code: str) -> None:
    """Raise InputError if the reply holds other statements than the method and imports."""
    try:
        body = parse(textwrap.dedent(code)).body
    except UNREADABLE:
        return  # what is wrong with it is said once it stands in the program
    wrong = [node for node in body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    if wrong:
        line = ast.unparse(wrong[0]).partition("\n")[0][:80]
        raise InputError(f"Put `{line}` inside the method {tool}: only imports may stand outside of it.")
    if any(isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names) for node in body):
        raise InputError("Import names, not *.")
