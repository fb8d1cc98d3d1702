"""Contents of the playground page: tools, the form, one call with its changes, the history and the state."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from synthesis.contracts import State
from synthesis.contracts import Tool as OfferedTool
from synthesis.runtime.encoding import apply_patch
from webapp.common.query_params import Params
from webapp.environments.models import Tool
from webapp.scenarios import queries
from webapp.scenarios.models import Playground, PlaygroundCall
from webapp.scenarios.playground import argument_form as reading
from webapp.scenarios.playground.services import load_cached_state, load_program
from webapp.scenarios.state_panel import build_state_context

RESULT_SHOWN = 100_000


@dataclass
class Form:
    """A tool's form: its fields, or all arguments as one JSON text."""

    fields: list[reading.Field]
    raw: bool = False
    text: str = ""
    text_error: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return bool(self.text_error) or any(item.error for item in self.fields)


def list_offered_tools(row: Playground) -> list[Tool]:
    """Return the callable tools: all of the version's, except what the task withholds."""
    listed = row.version.tools.only("name", "kind", "description", "position", "version_id")
    return [tool for tool in listed if row.revision_id is None or _find_offered_tool(row, tool)]


def find_tool(row: Playground, name: str) -> Tool | None:
    tool = row.version.tools.filter(name=name.replace("\0", "")).first()
    if tool is None or row.revision_id is None:
        return tool
    offered_tool = _find_offered_tool(row, tool)
    if offered_tool is None:
        return None
    tool.parameters, tool.description = offered_tool.parameters, offered_tool.description
    return tool


def _find_offered_tool(row: Playground, tool: Tool) -> OfferedTool | None:
    """Return the tool as the task of the playground offers it; None if it is withheld."""
    return next((one for one in load_program(row.version_id, row.revision_id).tools if one.name == tool.name), None)


def read_form(posted: QueryDict, tool: Tool) -> Form:
    """Read the submitted form; errors are on the fields that they are about."""
    form = Form(reading.build_fields(tool.parameters), raw=posted.get("raw") == "1")
    if not form.raw:
        form.arguments = reading.read_arguments(form.fields, posted)
        return form
    form.text = str(posted.get("arguments", ""))
    try:
        form.arguments = reading.parse_raw_arguments(form.text)
    except ValueError as error:
        form.text_error = str(error)
    return form


def build_blank_form(tool: Tool, given: dict[str, Any], *, raw: bool | None) -> Form:
    """Return an empty form, or one filled with the arguments of a call: as JSON if fields cannot hold them."""
    form = Form(reading.build_fields(tool.parameters))
    fits = reading.fill_fields(form.fields, given)
    form.raw = not fits if raw is None else raw
    form.text = reading.format_json(given or {item.name: None for item in form.fields if item.required}, indent=2)
    return form


def get_position(request: HttpRequest, row: Playground) -> int:
    """Return the call that `?at=` names, the last one by default."""
    number = Params(request.GET).number("at")
    return row.length if number is None else min(number, row.length)


def load_states_around(row: Playground, at: int) -> tuple[State, State]:
    """Return the states after call `at` and before it."""
    state: State = load_cached_state(row.start_id) if row.start_id else {}
    before, last = state, 0
    for index, patch in row.calls.filter(index__lte=at, change_count__gt=0).values_list("index", "patch"):
        before, last = state, index
        state = apply_patch(state, patch)
    if last != at:
        before = state
    return state, before


def list_changed_paths(row: Playground, at: int) -> frozenset[str]:
    patch = row.calls.filter(index=at).values_list("patch", flat=True).first() or []
    return frozenset(operation["path"] for operation in patch[:500] if operation["op"] != "remove")


def format_result(call: PlaygroundCall) -> tuple[str, int]:
    """Return the result as text, bounded, and the number of characters left out."""
    text = json.dumps(call.result, ensure_ascii=False, indent=2)
    return text[:RESULT_SHOWN], max(len(text) - RESULT_SHOWN, 0)


def build_playground_context(
    request: HttpRequest,
    row: Playground,
    *,
    tool: Tool | None = None,
    form: Form | None = None,
    validation: str = "",
) -> dict[str, Any]:
    """Build the context of the page. `tool` and `form` are given if the submitted form is shown again."""
    at = get_position(request, row)
    history = list(row.calls.defer("result", "patch", "arguments").order_by("-index"))
    call = row.calls.filter(index=at).first() if at else None
    tools = list_offered_tools(row)
    params = Params(request.GET)
    tool_search, tool_name = params.search_text("find", 100), params.text("tool")
    chosen = tool or _find_chosen_tool(row, tool_name, call)
    state, before = load_states_around(row, at)
    content: dict[str, Any] = {
        "playground": row,
        "environment": row.version.environment,
        "mine": row.user_id == getattr(request.user, "pk", None),
        "tools": [item for item in tools if tool_search.lower() in item.name.lower()],
        "tool_total": len(tools),
        "wanted_tool": tool_search,
        "tool": chosen,
        "at": at,
        "call": call,
        "history": history,
        "validation": validation or (history[0].validation if history else "schema"),
        "undone": row.undone[-1] if row.undone else None,
    }
    if chosen is not None:
        summary = chosen.description.partition("\n\n")[0].strip()
        content["about"], content["about_more"] = summary[:400], summary != chosen.description.strip()
        content["focus"] = bool(tool_name) and form is None and content["mine"]
        raw = {"1": True, "0": False}.get(params.text("raw"))
        following = row.undone[-1] if params.flag("next") and row.undone else None
        content["form"] = form or build_blank_form(chosen, _get_initial_arguments(chosen, call, following), raw=raw)
    if call is not None:
        content["changes"], content["more_changes"] = queries.list_patch_changes(before, call.patch)
        content["result"], content["result_left"] = format_result(call)
        content["refused"] = isinstance(call.result, dict) and False in (
            call.result.get("success"),
            call.result.get("ok"),
        )
        content["arguments"] = json.dumps(call.arguments, ensure_ascii=False, indent=2)[:RESULT_SHOWN]
    url = reverse("scenarios:playground_state", args=[row.pk])
    changed = list_changed_paths(row, at) if at else frozenset()
    return content | build_state_context(request, state, url, changed=changed, extra=f"at={at}", plain=True)


def _get_initial_arguments(tool: Tool, call: PlaygroundCall | None, following: dict[str, Any] | None) -> dict[str, Any]:
    """Return the initial arguments of a form: those of the call that redo would make, or of the shown call."""
    if following is not None and following["tool"] == tool.name:
        return dict(following["arguments"])
    return dict(call.arguments) if call is not None and call.tool == tool.name else {}


def _find_chosen_tool(row: Playground, name: str, call: PlaygroundCall | None) -> Tool | None:
    return find_tool(row, name or (call.tool if call else "")) if name or call else None
