"""What the playground page shows: tools, the form, one call with its changes, the history and the state."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from synthesis.contracts import State
from synthesis.contracts import Tool as OfferedTool
from synthesis.runtime.encoding import apply_patch
from webapp.environments.models import Tool
from webapp.query_params import Params
from webapp.scenarios import queries
from webapp.scenarios.models import Playground, PlaygroundCall
from webapp.scenarios.playground import argument_form as reading
from webapp.scenarios.playground.services import cached_state, program
from webapp.scenarios.state_views import state_context

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


def tools_of(row: Playground) -> list[Tool]:
    """The tools that can be called: all of the version's, but for what the task at hand withholds."""
    listed = row.version.tools.only("name", "kind", "description", "position", "version_id")
    return [tool for tool in listed if row.revision_id is None or _offered(row, tool)]


def find_tool(row: Playground, name: str) -> Tool | None:
    tool = row.version.tools.filter(name=name.replace("\0", "")).first()
    if tool is None or row.revision_id is None:
        return tool
    known = _offered(row, tool)
    if known is None:
        return None
    tool.parameters, tool.description = known.parameters, known.description
    return tool


def _offered(row: Playground, tool: Tool) -> OfferedTool | None:
    """The tool as the task of the playground offers it; None where it is withheld."""
    return next((one for one in program(row.version_id, row.revision_id).tools if one.name == tool.name), None)


def read_form(posted: QueryDict, tool: Tool) -> Form:
    """What was typed, read; errors stand at what they are about."""
    form = Form(reading.fields_of(tool.parameters), raw=posted.get("raw") == "1")
    if not form.raw:
        form.arguments = reading.read(form.fields, posted)
        return form
    form.text = str(posted.get("arguments", ""))
    try:
        form.arguments = reading.read_raw(form.text)
    except ValueError as error:
        form.text_error = str(error)
    return form


def blank_form(tool: Tool, given: dict[str, Any], *, raw: bool | None) -> Form:
    """An empty form, or one filled with the arguments of a call: as JSON where fields cannot hold them."""
    form = Form(reading.fields_of(tool.parameters))
    fits = reading.fill(form.fields, given)
    form.raw = not fits if raw is None else raw
    form.text = reading.spelled(given or {item.name: None for item in form.fields if item.required}, indent=2)
    return form


def position(request: HttpRequest, row: Playground) -> int:
    """The call that `?at=` names; the last one where it names none."""
    number = Params(request.GET).number("at")
    return row.length if number is None else min(number, row.length)


def state_after(row: Playground, at: int) -> tuple[State, State]:
    """The states after call `at` and before it."""
    state: State = cached_state(row.start_id) if row.start_id else {}
    before, last = state, 0
    for index, patch in row.calls.filter(index__lte=at, change_count__gt=0).values_list("index", "patch"):
        before, last = state, index
        state = apply_patch(state, patch)
    if last != at:
        before = state
    return state, before


def changed_paths(row: Playground, at: int) -> frozenset[str]:
    patch = row.calls.filter(index=at).values_list("patch", flat=True).first() or []
    return frozenset(operation["path"] for operation in patch[:500] if operation["op"] != "remove")


def shown_result(call: PlaygroundCall) -> tuple[str, int]:
    """The result as text, bounded, and how many characters are left out."""
    text = json.dumps(call.result, ensure_ascii=False, indent=2)
    return text[:RESULT_SHOWN], max(len(text) - RESULT_SHOWN, 0)


def context(
    request: HttpRequest,
    row: Playground,
    *,
    tool: Tool | None = None,
    form: Form | None = None,
    validation: str = "",
) -> dict[str, Any]:
    """Everything on the page. `tool` and `form` are given when what was typed is shown again."""
    at = position(request, row)
    history = list(row.calls.defer("result", "patch", "arguments").order_by("-index"))
    call = row.calls.filter(index=at).first() if at else None
    tools = tools_of(row)
    params = Params(request.GET)
    wanted, asked = params.search_text("find", 100), params.text("tool")
    chosen = tool or _chosen(row, asked, call)
    state, before = state_after(row, at)
    content: dict[str, Any] = {
        "playground": row,
        "environment": row.version.environment,
        "mine": row.user_id == getattr(request.user, "pk", None),
        "tools": [item for item in tools if wanted.lower() in item.name.lower()],
        "tool_total": len(tools),
        "wanted_tool": wanted,
        "tool": chosen,
        "at": at,
        "call": call,
        "history": history,
        "validation": validation or (history[0].validation if history else "schema"),
        "undone": row.undone[-1] if row.undone else None,
    }
    if chosen is not None:
        about = chosen.description.partition("\n\n")[0].strip()
        content["about"], content["about_more"] = about[:400], about != chosen.description.strip()
        content["focus"] = bool(asked) and form is None and content["mine"]
        raw = {"1": True, "0": False}.get(params.text("raw"))
        following = row.undone[-1] if params.flag("next") and row.undone else None
        content["form"] = form or blank_form(chosen, _given(chosen, call, following), raw=raw)
    if call is not None:
        content["changes"], content["more_changes"] = queries.changes(before, call.patch)
        content["result"], content["result_left"] = shown_result(call)
        content["refused"] = isinstance(call.result, dict) and False in (
            call.result.get("success"),
            call.result.get("ok"),
        )
        content["arguments"] = json.dumps(call.arguments, ensure_ascii=False, indent=2)[:RESULT_SHOWN]
    url = reverse("scenarios:playground_state", args=[row.pk])
    changed = changed_paths(row, at) if at else frozenset()
    return content | state_context(request, state, url, changed=changed, extra=f"at={at}", plain=True)


def _given(tool: Tool, call: PlaygroundCall | None, following: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments that a form begins with: those of the call that redo would make, or of the one that is shown."""
    if following is not None and following["tool"] == tool.name:
        return dict(following["arguments"])
    return dict(call.arguments) if call is not None and call.tool == tool.name else {}


def _chosen(row: Playground, name: str, call: PlaygroundCall | None) -> Tool | None:
    return find_tool(row, name or (call.tool if call else "")) if name or call else None
