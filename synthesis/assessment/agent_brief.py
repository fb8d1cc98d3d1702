"""What both agents of an assessment are told of an environment, in text that is bounded and fenced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.assessment.environments import view_of
from synthesis.assessment.prompt_values import cut, kinds_text, shown
from synthesis.assessment.tool_context import ToolContext, tool_context
from synthesis.contracts import Program, Tool
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced
from synthesis.runtime import without_arguments
from synthesis.runtime.method_source import without_docstring

ABOUT_CHARS = 8_000
DESCRIPTION_CHARS = 2_000
METHOD_CHARS = 12_000
USES_CHARS = 20_000
PROGRAM_CHARS = 60_000
TOOLS_CHARS = 80_000


@dataclass(frozen=True)
class AgentBrief:
    """One environment as it is assessed. `about` is the same in every call, and stands first there."""

    record: EnvironmentRecord
    program: Program
    sources: dict[str, str]
    about: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.program.tools)

    def tool(self, name: str) -> str:
        """One tool without its source."""
        tool = next(known for known in self.program.tools if known.name == name)
        return fenced("tool", shown(_told(tool), METHOD_CHARS))

    @property
    def tools(self) -> str:
        """All tools without their source."""
        return fenced("tools", shown([_told(tool) for tool in self.program.tools], TOOLS_CHARS))

    def source(self, name: str) -> str:
        """The source of one tool without its docstring, which `tool` tells."""
        source = self.sources.get(name, "(there is no method of this name)")
        return fenced("source", cut(without_docstring(source), METHOD_CHARS))

    def context(self, name: str) -> ToolContext:
        return tool_context(self.program.source, self.program.class_name, name)

    def uses(self, name: str) -> str:
        """What one tool does by other parts of the program: helpers, constants."""
        return fenced("uses", cut(self.context(name).helpers or "(nothing)", USES_CHARS))


def brief_of(record: EnvironmentRecord) -> AgentBrief:
    view = view_of(record)
    about = fenced("environment", cut(_about(record), ABOUT_CHARS))
    return AgentBrief(record, view.program, view.sources, about)


def _told(tool: Tool) -> dict[str, Any]:
    description = cut(without_arguments(tool.description), DESCRIPTION_CHARS)
    return {"name": tool.name, "description": description, "kind": tool.kind, "parameters": tool.parameters}


def _about(record: EnvironmentRecord) -> str:
    rules = [f"{number}. {rule}" for number, rule in enumerate(record.rules, 1)] or ["(none are written down)"]
    parts = [record.name, record.introduction or record.summary, "Rules:", *rules]
    kinds = ["Kinds of records:", kinds_text(record.state_schema)] if record.state_schema else []
    return "\n".join([*parts, *kinds])
