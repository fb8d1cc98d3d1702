"""What both agents of an assessment are told of an environment, in text that is bounded and fenced."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from synthesis.assessment.environments import view_of
from synthesis.assessment.prompt_values import cut, shown
from synthesis.assessment.tool_context import ToolContext, tool_context
from synthesis.contracts import Program, Tool
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced
from synthesis.runtime import without_arguments

ABOUT_CHARS = 8_000
TOOLS_CHARS = 40_000
DESCRIPTION_CHARS = 2_000
METHOD_CHARS = 12_000
USES_CHARS = 20_000
PROGRAM_CHARS = 60_000


@dataclass(frozen=True)
class AgentBrief:
    """One environment as it is assessed. `about` and `tools` are the same in every call, and stand first there."""

    record: EnvironmentRecord
    program: Program
    sources: dict[str, str]
    about: str
    tools: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.program.tools)

    def tool(self, name: str) -> str:
        """One tool without its source."""
        tool = next(known for known in self.program.tools if known.name == name)
        return fenced("tool", shown(_told(tool), METHOD_CHARS))

    def source(self, name: str) -> str:
        return fenced("source", cut(self.sources.get(name, "(there is no method of this name)"), METHOD_CHARS))

    def context(self, name: str) -> ToolContext:
        return tool_context(self.program.source, self.program.class_name, name)

    def uses(self, name: str) -> str:
        """What one tool uses of the program, beside its own source."""
        return fenced("uses", cut(self.context(name).excerpt or "(nothing)", USES_CHARS))


def brief_of(record: EnvironmentRecord) -> AgentBrief:
    view = view_of(record)
    told = [_told(tool) for tool in view.program.tools]
    tools = fenced("tools", shown(told, TOOLS_CHARS))
    about = fenced("environment", cut(_about(record), ABOUT_CHARS))
    return AgentBrief(record, view.program, view.sources, about, tools)


def _told(tool: Tool) -> dict[str, Any]:
    description = cut(without_arguments(tool.description), DESCRIPTION_CHARS)
    return {"name": tool.name, "description": description, "kind": tool.kind, "parameters": tool.parameters}


def _about(record: EnvironmentRecord) -> str:
    rules = [f"{number}. {rule}" for number, rule in enumerate(record.rules, 1)] or ["(none are written down)"]
    kinds = [json.dumps(kind, ensure_ascii=False, default=str) for kind in record.state_schema]
    parts = [record.name, record.introduction or record.summary, "Rules:", *rules]
    return "\n".join([*parts, "Kinds of records:", *kinds] if kinds else parts)
