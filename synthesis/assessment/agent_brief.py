"""Description of an environment for both agents of an assessment, in bounded and fenced text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.assessment.environments import build_view
from synthesis.assessment.prompt_values import cut_text, format_record_kinds, format_value
from synthesis.assessment.tool_context import ToolContext, build_tool_context
from synthesis.contracts import Program, Tool
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text
from synthesis.runtime import strip_arguments
from synthesis.runtime.method_source import strip_docstring

ABOUT_CHARS = 8_000
DESCRIPTION_CHARS = 2_000
METHOD_CHARS = 12_000
USES_CHARS = 20_000
PROGRAM_CHARS = 60_000
TOOLS_CHARS = 80_000


@dataclass(frozen=True)
class AgentBrief:
    """One environment under assessment. `about` is the same in every call, and comes first there."""

    record: EnvironmentRecord
    program: Program
    sources: dict[str, str]
    about: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.program.tools)

    def tool(self, name: str) -> str:
        """Return one tool without its source."""
        tool = next(known for known in self.program.tools if known.name == name)
        return fence_text("tool", format_value(_describe_tool(tool), METHOD_CHARS))

    @property
    def tools(self) -> str:
        """All tools without their source."""
        return fence_text("tools", format_value([_describe_tool(tool) for tool in self.program.tools], TOOLS_CHARS))

    def source(self, name: str) -> str:
        """Return the source of one tool without its docstring, which `tool` returns."""
        source = self.sources.get(name, "(there is no method of this name)")
        return fence_text("source", cut_text(strip_docstring(source), METHOD_CHARS))

    def context(self, name: str) -> ToolContext:
        return build_tool_context(self.program.source, self.program.class_name, name)

    def uses(self, name: str) -> str:
        """Return the parts of the program that one tool uses: helpers, constants."""
        return fence_text("uses", cut_text(self.context(name).helpers or "(nothing)", USES_CHARS))


def build_agent_brief(record: EnvironmentRecord) -> AgentBrief:
    view = build_view(record)
    about = fence_text("environment", cut_text(_describe_environment(record), ABOUT_CHARS))
    return AgentBrief(record, view.program, view.sources, about)


def _describe_tool(tool: Tool) -> dict[str, Any]:
    description = cut_text(strip_arguments(tool.description), DESCRIPTION_CHARS)
    return {"name": tool.name, "description": description, "kind": tool.kind, "parameters": tool.parameters}


def _describe_environment(record: EnvironmentRecord) -> str:
    rules = [f"{number}. {rule}" for number, rule in enumerate(record.rules, 1)] or ["(none are written down)"]
    parts = [record.name, record.introduction or record.summary, "Rules:", *rules]
    kinds = ["Kinds of records:", format_record_kinds(record.state_schema)] if record.state_schema else []
    return "\n".join([*parts, *kinds])
