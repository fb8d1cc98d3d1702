"""An imported environment as the runtime sees it: working tools, their sources, and what reading it finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from synthesis.assessment.kinds import finding
from synthesis.assessment.static import static_findings
from synthesis.contracts import Finding, Program, Tool
from synthesis.errors import ProgramError
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.signatures import parse
from synthesis.runtime import ProgramOutline, check_program, outline, schema_findings, working_schema


@dataclass(frozen=True)
class View:
    """`sources` is each tool's own source; `outline` is None where the program cannot be read."""

    program: Program
    sources: dict[str, str] = field(default_factory=dict)
    outline: ProgramOutline | None = None


def view_of(record: EnvironmentRecord) -> View:
    """The program with its working tools, in the order of the record's."""
    try:
        seen = outline(record.source, record.class_name)
    except ProgramError:
        seen = None
    tools = tuple(_working(tool, seen) for tool in record.tools)
    program = Program(source=record.source, class_name=record.class_name, tools=tools)
    sources = {method.name: method.source for method in seen.methods} if seen else {}
    return View(program, sources, seen)


def _working(tool: ToolRecord, seen: ProgramOutline | None) -> Tool:
    """A tool's working schema comes from its signature; one without a method cannot be called, and takes nothing."""
    method = seen.method(tool.name) if seen else None
    parameters = working_schema(method) if method else {"type": "object", "properties": {}}
    return Tool(name=tool.name, description=tool.description, kind=tool.kind, parameters=parameters)


def read_findings(record: EnvironmentRecord, view: View | None = None) -> list[Finding]:
    """Everything that reading the record finds, without running it; sorted, so that it is the same every time."""
    view = view or view_of(record)
    findings = check_program(record.source, record.class_name, [tool.name for tool in record.tools])
    tree = parse(record.source)
    if view.outline is not None and tree is not None:
        findings += static_findings(record, tree, [method.name for method in view.outline.methods])
        for tool in record.tools:
            method = view.outline.method(tool.name)
            if method and tool.raw_schema is not None:
                findings += schema_findings(tool.raw_schema, method)
            elif method and record.raw.get("tools") is not None:
                message = f"The manifest gives {tool.name} no parameters; they were read from its signature."
                findings.append(finding("schema_missing", f"tools.{tool.name}", message))
    return sorted(findings, key=lambda item: (RANK[item.severity], item.kind, item.place, item.message))


RANK = {"fatal": 0, "warning": 1, "info": 2}
