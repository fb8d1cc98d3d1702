"""Recorded requests written anew by today's prompts, from the material that stands in them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from synthesis.assessment.initial_states import InitialStateReply
from synthesis.assessment.prompt_values import format_record_kinds, format_records
from synthesis.assessment.rounds import CallReply, VerdictReply
from synthesis.assessment.tool_context import build_tool_context
from synthesis.assessment.tool_repair import ToolBrief, build_repair_prompt
from synthesis.contracts import AnswerField, Tool
from synthesis.formats.answer_form import build_answer_tool
from synthesis.llm.structured import build_code_form, build_json_form
from synthesis.prompts import fence_text, get_prompt, insert_form
from synthesis.rollout.user import STOP
from synthesis.rollout.user_judge import UserFaultsReply, is_recited
from synthesis.runtime.method_source import strip_docstring
from synthesis.runtime.offered_tools import shorten_tools, strip_refusals
from synthesis.scenarios.states import StateReply
from synthesis.skeleton.coverage import CoverageReply
from synthesis.skeleton.plan_reply import OperationsReply, StatePlanReply
from synthesis.tasks.author_form import describe_form
from synthesis.tasks.checklist import ChecklistReply
from synthesis.tasks.checks import select_state_part
from synthesis.tasks.instruction import InstructionReply

FENCE = re.compile(r"^(=== ([a-z]+) [0-9a-f]{16} ===)\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)
QUERY = re.compile(r"^- (\w+)\(.*?\) \[query\]", re.MULTILINE)
ON_ANSWER = "The answer "
"""How a condition begins that the answer form judges today."""
FORM = (AnswerField(name="credit", type="money", unit="EUR", description="What credit is left"),)
"""As the recorded questions would be asked today."""
REQUESTED = re.compile(r"\n\nEnd with an answer in this form[^\n]*\n(?:- [^\n]*\n?)+")
STATE_CHARS = 80_000
Values = dict[str, str]


@dataclass(frozen=True)
class RecordedStage:
    """How a stage is known by the beginning of its prompt, and the form that it asks for."""

    opening: str
    role: str
    name: str
    prompt: str = ""
    wanted: type[BaseModel] | None = None


STAGES = (
    RecordedStage("You design small software", "author", "plan_state", "skeleton/plan_state", StatePlanReply),
    RecordedStage("You decide which tools", "author", "plan_operations", "skeleton/plan_operations", OperationsReply),
    RecordedStage("You designed a small", "author", "plan_coverage", "skeleton/plan_coverage", CoverageReply),
    RecordedStage("You write the first part", "author", "code_attributes", "skeleton/code_attributes"),
    RecordedStage("You write one method", "author", "code_method", "skeleton/code_method"),
    RecordedStage("An environment is a Python", "author", "test_state", "assessment/test_state", InitialStateReply),
    RecordedStage("You test the tools", "tester", "test_call", "assessment/test_call", CallReply),
    RecordedStage("You check whether one tool", "checker", "check_call", "assessment/check_call", VerdictReply),
    RecordedStage("You mend one tool", "author", "repair_tool"),
    RecordedStage("You fill a program", "author", "initial_state", "scenarios/state", StateReply),
    RecordedStage("You give work", "author", "instruction", "tasks/instruction", InstructionReply),
    RecordedStage("You prepare to judge", "author", "checklist", "tasks/checklist", ChecklistReply),
    RecordedStage("You write one Python function", "author", "check_function", "tasks/check"),
    RecordedStage("You repair how", "author", "repair_task", "tasks/repair"),
    RecordedStage("You carry out a task", "teacher", "task"),
    RecordedStage("You serve a user", "teacher", "conversation"),
    RecordedStage("You play a user", "user", "user"),
    RecordedStage("You judge whether an agent", "judge", "judge_answer"),
    RecordedStage("You check recordings", "judge", "possible"),
    RecordedStage("A model played a user", "judge", "user_faults", "judge/user_faults", UserFaultsReply),
)


@dataclass(frozen=True)
class Recorded:
    """One recorded request with the stage that made it."""

    request: dict[str, Any]
    at: RecordedStage

    @classmethod
    def of(cls, request: dict[str, Any]) -> Recorded:
        """Raises LookupError for a request of no known stage."""
        first = request["messages"][0]["content"]
        found = next((stage for stage in STAGES if first.startswith(stage.opening)), None)
        if found is None:
            raise LookupError(f"no stage asks like this: {first[:80]!r}")
        return cls(request, found)

    @property
    def role(self) -> str:
        return self.at.role

    @property
    def stage(self) -> str:
        return self.at.name

    @property
    def words(self) -> str:
        return str(self.request["messages"][0]["content"])

    @property
    def parts(self) -> Values:
        """What stands between fences, by label."""
        return {label: body for _, label, body in FENCE.findall(self.words)}


def rewritten(calls: Sequence[Recorded]) -> Iterator[dict[str, Any] | None]:
    """Yield each request as it is made today; None for one that is not made any more."""
    schema: tuple[dict[str, Any], ...] = ()
    queries: set[str] = set()
    for call in calls:
        if call.stage == "test_call":
            schema = _kinds(call.parts["environment"])
        if call.stage == "instruction":
            queries |= set(QUERY.findall(call.parts["tools"]))
        yield _rewritten(call, schema, queries)


def _rewritten(call: Recorded, schema: tuple[dict[str, Any], ...], queries: set[str]) -> dict[str, Any] | None:
    if not _is_open(call):
        return None
    later = [_without_form(message) for message in call.request["messages"][1:]]
    tools = _brief([tool["function"] for tool in call.request.get("tools", ())], queries)
    first = {**call.request["messages"][0], "content": _words(call, schema)}
    if call.role == "teacher":
        (tool,) = shorten_tools([build_answer_tool(FORM)])
        tools.append({"type": "function", "function": tool.model_dump(exclude={"kind"})})
    return {"messages": [first, *later], "tools": tools}


def _without_form(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the request for a form that instructions ended with: today the tool's schema says it."""
    content = message.get("content")
    return {**message, "content": REQUESTED.sub("", content)} if isinstance(content, str) else message


def _is_open(call: Recorded) -> bool:
    if call.stage in ("possible", "judge_answer"):
        return False  # each of these tasks had a reference; answers are compared as data
    if call.stage == "check_function":
        return not call.parts["item"].startswith(ON_ANSWER)
    if call.stage == "check_call":
        made = json.loads(call.parts["call"])
        refused = not made["ok"] and made["error"].startswith("bad_arguments") and not made["patch"]
        return not (refused and made["case"] == "negative")
    if call.stage == "user_faults":
        lines = [json.loads(line) for line in call.parts["evidence"].splitlines()]
        return not is_recited(lines[0]["intent"], [(line["who"], line["words"]) for line in lines[1:]])
    return True


def _words(call: Recorded, schema: tuple[dict[str, Any], ...]) -> str:
    if call.stage in SPECIAL:
        return SPECIAL[call.stage](call)
    if call.stage == "repair_tool":
        return insert_form(_repair_words(call, schema), build_code_form(call.stage))
    folder, _, name = call.at.prompt.partition("/")
    template = get_prompt(folder, name)
    known = {key: fence_text(key, value) for key, value in call.parts.items()} | _named(call)
    words = template.render(**{key: known.get(key, "") for key in template.variables})
    return insert_form(words, build_json_form(call.at.wanted) if call.at.wanted else build_code_form(call.stage))


def _named(call: Recorded) -> Values:
    """Values of variables that are named otherwise than what is fenced, or that are shown otherwise today."""
    parts, words = call.parts, call.words
    named = {
        "about": fence_text("environment", _about(parts.get("environment", ""))),
        "attributes": fence_text("code", parts.get("code", "")),
        "talk": fence_text("evidence", parts.get("evidence", "")),
        "item": fence_text("item", parts.get("item", "")),
        "modules": _between(words, "Only these modules exist: ", "."),
        "guards": _guards(words),
        "around": _between(words, "what these do: ", "."),
        "whose": get_prompt("tasks", "repair_passes").text,
        "way": get_prompt("tasks", "way_known").text,
        "form": fence_text("form", describe_form(FORM, {"credit": 35.1})),
        **dict.fromkeys(("number", "count", "most", "least", "bytes", "characters"), "10"),
    }
    if "state" in parts:
        named["state"] = fence_text("state", format_records(json.loads(parts["state"]), STATE_CHARS))
    if call.stage == "check_function":
        known = {key: _without_notes(part) for key, part in json.loads(parts["state"]).items()}
        named["state"] = fence_text("state", format_records(select_state_part(known, parts["item"]), STATE_CHARS))
    if call.stage in ("instruction", "checklist", "repair_task"):
        named["tools"] = fence_text("tools", "\n".join(map(_tool_line, parts["tools"].splitlines())))
    if call.stage == "test_call":
        asked = json.loads(parts["asked"])
        tool = next(tool for tool in json.loads(parts["tools"]) if tool["name"] == asked["tool"])
        named["tool"] = fence_text("tool", json.dumps(tool, ensure_ascii=False))
    if call.stage == "initial_state":
        kinds = tuple(json.loads(line) for line in parts["schema"].splitlines())
        named["schema"] = fence_text("schema", format_record_kinds(kinds))
    if call.stage == "check_call":
        if "state" in parts:
            told = parts["state"].replace('"not_read_by_this_tool"', '"not_read"')
            named["state"] = fence_text("state", format_records(json.loads(told), STATE_CHARS))
        named["source"] = fence_text("source", strip_docstring(parts["source"]))
        named["uses"] = fence_text("uses", _helpers(parts["uses"], parts["source"], json.loads(parts["call"])["tool"]))
    if call.stage == "code_method":
        named |= _method_parts(parts)
    if call.stage == "test_state":
        named["source"] = fence_text("program", parts["program"])
        named["problem"] = ""
    return named


def _helpers(uses: str, method: str, tool: str) -> str:
    """What a checker is shown today of the part of a program that was recorded, which is without the tool itself."""
    classes = [node for node in ast.parse(uses).body if isinstance(node, ast.ClassDef)]
    own = next(node for node in classes if any(getattr(part, "name", "") == "__init__" for part in node.body))
    lines = uses.splitlines()
    program = "\n".join([*lines[: own.end_lineno], method, *lines[own.end_lineno or 0 :]])
    return build_tool_context(program, own.name, tool).helpers or "(nothing)"


def _guards(words: str) -> str:
    listed = _between(words, "record and value of them. ", "\n\nBeside")
    return listed or _between(words, "right way to do the task. ", " At most")


def _method_parts(parts: Values) -> Values:
    """The plan with the names of its operations alone, and the one that is to be written."""
    head, line, listed = parts["plan"].partition("\n\nOperations:\n")
    operations = [row.removeprefix("- ") for row in listed.splitlines()]
    names = ", ".join(row.partition(":")[0] for row in operations)
    name = parts["operation"].partition(" ")[0]
    asked = next(row for row in operations if row.startswith(f"{name} "))
    return {
        "plan": fence_text("plan", f"{head}{line.rstrip()} {names}"),
        "operation": fence_text("operation", f"- {asked}"),
    }


def _without_notes(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: entry for key, entry in part.items() if key != "…"}
    return part


def _repair_words(call: Recorded, schema: tuple[dict[str, Any], ...]) -> str:
    parts = call.parts
    brief = ToolBrief(
        class_name=_between(call.words, "the Python class `", "`"),
        program=parts["program"],
        tool=_between(call.words, "It stays `def ", "("),
        rules=tuple(line.removeprefix("- ") for line in parts["rules"].splitlines()),
        state_schema=schema,
        failed=tuple(parts["cases"].split("\n\n")),
        passed=tuple(parts["passed"].split("\n\n")),
    )
    return build_repair_prompt(brief)


def _acting_words(call: Recorded) -> str:
    told = _between(call.words, "About the system:\n\n", "\n\nHow to work:")
    ending = get_prompt("agent", "end_task_by_call" if call.stage == "task" else "end_talk_by_call").render()
    calling = get_prompt("agent", "tools").render()
    return get_prompt("agent", call.stage).render(documentation=told, calling=calling, ending=ending)


def _user_words(call: Recorded) -> str:
    intent = _between(call.words, "all you know:\n\n", "\n\nHow you speak:")
    return get_prompt("user", "optimised").render(intent=intent, stop=STOP)


SPECIAL: dict[str, Callable[[Recorded], str]] = {
    "task": _acting_words,
    "conversation": _acting_words,
    "user": _user_words,
}


def _brief(functions: Sequence[dict[str, Any]], queries: set[str]) -> list[dict[str, Any]]:
    """Tools as a teacher is shown them today; one that no recorded list calls a query is taken for a change."""
    tools = [Tool(kind="query" if function["name"] in queries else "change", **function) for function in functions]
    return [{"type": "function", "function": tool.model_dump(exclude={"kind"})} for tool in shorten_tools(tools)]


def _tool_line(line: str) -> str:
    """A tool's line as authors are shown it today."""
    line = re.sub(r"(\?: \w+)\|null", r"\1", line)
    return strip_refusals(line) if QUERY.match(line) else line


def _about(text: str) -> str:
    """The documentation as it is told today: kinds of records in words."""
    head, line, _ = text.partition("\nKinds of records:\n")
    return f"{head}{line}{format_record_kinds(_kinds(text))}" if line else text


def _kinds(text: str) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in text.partition("\nKinds of records:\n")[2].splitlines())


def _between(text: str, before: str, after: str) -> str:
    return text.partition(before)[2].partition(after)[0]
