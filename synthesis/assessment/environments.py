"""Imported environment for the runtime: working tools, their sources, and findings from reading it."""

from __future__ import annotations

from dataclasses import dataclass, field

from synthesis.assessment.kinds import make_finding
from synthesis.assessment.static import list_static_findings
from synthesis.contracts import Finding, Program, Tool
from synthesis.errors import ProgramError
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.signatures import parse_source
from synthesis.runtime import ProgramOutline, check_program, derive_working_schema, outline_program, schema_findings


@dataclass(frozen=True)
class View:
    """Program of an environment. `sources` is each tool's own source; `outline` is None if the program cannot be
    read."""

    program: Program
    sources: dict[str, str] = field(default_factory=dict)
    outline: ProgramOutline | None = None


def build_view(record: EnvironmentRecord) -> View:
    """Return the program with its working tools, in the order of the record's."""
    try:
        program_outline = outline_program(record.source, record.class_name)
    except ProgramError:
        program_outline = None
    tools = tuple(_build_working_tool(tool, program_outline) for tool in record.tools)
    program = Program(source=record.source, class_name=record.class_name, tools=tools)
    sources = {method.name: method.source for method in program_outline.methods} if program_outline else {}
    return View(program, sources, program_outline)


def _build_working_tool(tool: ToolRecord, seen: ProgramOutline | None) -> Tool:
    """Return a tool with the working schema of its signature; without a method it cannot be called, and takes
    nothing."""
    method = seen.method(tool.name) if seen else None
    parameters = derive_working_schema(method) if method else {"type": "object", "properties": {}}
    return Tool(name=tool.name, description=tool.description, kind=tool.kind, parameters=parameters)


def read_findings(record: EnvironmentRecord, view: View | None = None) -> list[Finding]:
    """Return all findings from reading the record, without running it; sorted, so that they are always the same."""
    view = view or build_view(record)
    findings = check_program(record.source, record.class_name, [tool.name for tool in record.tools])
    tree = parse_source(record.source)
    if view.outline is not None and tree is not None:
        findings += list_static_findings(record, tree, [method.name for method in view.outline.methods])
        for tool in record.tools:
            method = view.outline.method(tool.name)
            if method and tool.raw_schema is not None:
                findings += schema_findings(tool.raw_schema, method)
            elif method and record.raw.get("tools") is not None:
                message = f"The manifest gives {tool.name} no parameters; they were read from its signature."
                findings.append(make_finding("schema_missing", f"tools.{tool.name}", message))
    return sorted(findings, key=lambda item: (RANK[item.severity], item.kind, item.place, item.message))


RANK = {"fatal": 0, "warning": 1, "info": 2}
