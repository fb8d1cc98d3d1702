"""Template contexts of the parts of the replay page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from synthesis.errors import EnvariumError
from synthesis.formats.answer_form import SUBMIT_ANSWER, serialize_answer
from synthesis.verifiers.frame import format_change_place
from synthesis.verifiers.frame_words import format_difference, format_outside_changes
from webapp.common.query_params import Params
from webapp.scenarios import state_tree
from webapp.scenarios.answers.answer_form import list_answer_rows
from webapp.scenarios.models import Check
from webapp.trajectories.contradictions import find_contradictions
from webapp.trajectories.matrix import find_matrix_job
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.replay import matrix_grid, queries, state_diff, step_list, timeline, value_text
from webapp.trajectories.replay.criterion_rows import list_criteria
from webapp.trajectories.stored_runs import read_injection

FOLD_FROM = 12
WIDENING_CHARS = 1_500
CALLS = (StepKind.QUERY, StepKind.CHANGE, StepKind.CALL)


def read_step_number(request: HttpRequest, trajectory: Trajectory) -> tuple[int, str]:
    """Return the step that a link names, and a problem with it. A number beyond the end gives the last step."""
    params, last = Params(request.GET), max(trajectory.step_count - 1, 0)
    number = params.number("step")
    if params.unreadable:
        problem = f"The link asks for step “{params.text('step', 20)}”, which is no step number. This is the first one."
        return 0, problem
    if number is not None and number > last:
        return last, f"The link asks for step {number}; the last one is step {last}."
    return number or 0, ""


def build_page_context(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    """Return the context of everything but the two panels of the current step."""
    params = Params(request.GET)
    only, tool = params.choice("only", step_list.CHOICES, "all"), params.text("tool")
    context = build_checks_context(request, trajectory, index)
    rows, first, last = step_list.build_rail(
        trajectory, matrix_grid.count_flips_by_step(context["flips"]), index, only, tool
    )
    context |= {
        "rows": rows,
        "earlier": max(first - 1, 0) if first else None,
        "later": last if last < trajectory.step_count else None,
        "only": only,
        "onlys": step_list.ONLY if trajectory.environment_id else step_list.ONLY_FOREIGN,
        "tool": tool,
        "tools": step_list.list_used_tools(rows),
        "shown": sum(not row.hidden for row in rows),
        "lines": step_list.render_lines(rows, index, build_kept_query(request)),
    }
    outside = queries.list_outside_changes(trajectory)
    if trajectory.revision is not None and trajectory.revision.verifier_kind == "golden":
        context["differences"] = list(map(format_difference, outside))
    else:
        context["outside"] = format_outside_changes(outside)
        context["widening"] = urlencode({"place": "\n".join(map(format_change_place, outside))[:WIDENING_CHARS]})
    if params.search_text("q"):
        context |= build_search_context(request, trajectory)
    return context


def build_kept_query(request: HttpRequest) -> str:
    """Return the part of this page's query that a link to another step keeps."""
    parameters = request.GET.copy()
    for key in ("step", "path", "find", "full", "from"):
        parameters.pop(key, None)
    return f"{parameters.urlencode()}&" if parameters else ""


def build_checks_context(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    """Return the context of the check x step matrix, or of the reason why there is none."""
    matrix, names = load_followed_matrix(trajectory)
    flips = matrix_grid.list_flips(matrix, names)
    context: dict[str, Any] = {"t": trajectory, "index": index, "labels": len(names), "flips": flips}
    context["rubric"] = list_criteria(trajectory)
    context["contradictions"] = find_contradictions(trajectory)
    context["base"] = build_kept_query(request)
    context["check_url"] = reverse("trajectories:check", args=[trajectory.pk, 0]).removesuffix("0/")
    if matrix is not None:
        context["grid"] = matrix_grid.build_grid(matrix, names, index, Params(request.GET).text("matrix") == "all")
    elif names:
        context["matrix_job"] = find_matrix_job(trajectory)
    return context


def load_followed_matrix(trajectory: Trajectory) -> tuple[dict[str, Any] | None, list[matrix_grid.Label]]:
    """Return the matrix as a reader follows the run, if it is fresh, and the checks that it is about."""
    names = queries.list_labels(trajectory)
    return queries.build_followed_matrix(trajectory, names), names


def build_step_context(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    """Return the context of the step and state panels. Raises `Step.DoesNotExist`."""
    row, previous = queries.get_step_pair(trajectory, index)
    full = Params(request.GET).flag("full")
    matrix, names = load_followed_matrix(trajectory)
    flips = matrix_grid.list_flips(matrix, names)
    context: dict[str, Any] = {
        "t": trajectory,
        "index": index,
        "step": row,
        "full": full,
        "last": trajectory.step_count - 1,
        "previous": index - 1 if index else None,
        "next": index + 1 if index + 1 < trajectory.step_count else None,
        "here": [flip for flip in flips if flip.step == index],
        "is_call": row.kind in CALLS or bool(row.tool),
        "icon": queries.ICONS.get(row.kind, "○"),  # type: ignore[call-overload]
        "reasoning": value_text.cut_text(row.reasoning, full),
        "content": value_text.cut_text(row.content, full),
        "before": build_observation(previous, full),
    }
    if matrix:
        context["holding"] = matrix_grid.format_holding_count(matrix, index)
    if context["is_call"]:
        context["call"] = value_text.format_call(row.tool, row.arguments, full)
        context["result"] = build_result(row, full)
        context["injection"] = describe_injection(row)
        if row.matches is False and row.ok is not None:
            context["departures"] = value_text.list_departures(row.recorded, row.result)
    return context | build_answer_context(trajectory, row) | build_state_context(request, trajectory, row, full)


def build_answer_context(trajectory: Trajectory, row: Step) -> dict[str, Any]:
    """Return the submitted answer with the answer form of the task, at the step that gives it.

    A refused submission is shown with the form as well; its result names the wrong fields.
    """
    if row.tool == SUBMIT_ANSWER:
        answer_given = serialize_answer(row.arguments) if isinstance(row.arguments, dict) else ""
    elif row.kind == StepKind.MESSAGE and trajectory.answer and row.index == queries.find_answer_step(trajectory):
        answer_given = trajectory.answer
    else:
        return {}
    revision = trajectory.revision
    rows = list_answer_rows(revision, answer_given) if revision is not None else []
    return {"form_rows": rows, "is_refused": row.tool == SUBMIT_ANSWER and row.ok is False}


def build_observation(previous: Step | None, full: bool) -> dict[str, Any] | None:
    """Return what the agent saw before it acted: the recorded text, as the agent responded to that.

    `said` follows "step N" in the title of the fold that holds it.
    """
    if previous is None or previous.kind == StepKind.MESSAGE:
        return None
    parts: dict[str, Any] = {"step": previous.index}
    if previous.kind == StepKind.SYSTEM:
        observed = bool(previous.details and previous.details.get("observation"))
        return (
            parts | {"said": "had an effect", "text": value_text.cut_text(previous.content, full)} if observed else None
        )
    if previous.kind == StepKind.USER:
        return parts | {"said": "the user said", "text": value_text.cut_text(previous.content, full)}
    if previous.recorded:
        value = value_text.read_recorded_value(previous.recorded)
        same = value is value_text.UNPARSED or not isinstance(value, dict | list)
        text = (
            value_text.cut_text(previous.recorded, full)
            if same
            else format_parsed_value(value, previous.recorded, full)
        )
    elif previous.ok is None:
        return None
    else:
        text = value_text.format_pretty(previous.result, full)
    verb = "answered the user" if previous.by == CallBy.USER else "answered"
    return parts | {"tool": previous.tool, "said": verb, "failed": previous.ok is False, "text": text}


def format_parsed_value(value: Any, recorded: str, full: bool) -> value_text.Text:
    """Return a parsed observation as text; a value that JSON cannot encode stays as it was recorded."""
    try:
        return value_text.format_pretty(value, full)
    except (TypeError, ValueError):
        return value_text.cut_text(recorded, full)


def build_result(row: Step, full: bool) -> dict[str, Any]:
    """Return the reproduced result; for an error its kind, type and message; for a foreign record its recorded text."""
    if row.kind == StepKind.CALL:
        value = value_text.read_recorded_value(row.recorded)
        foreign = value_text.cut_text(row.recorded, full)
        if isinstance(value, dict | list):
            foreign = format_parsed_value(value, row.recorded, full)
        return {"foreign": True, "text": foreign}
    if row.ok is None:
        return {"missing": True, "recorded": value_text.cut_text(row.recorded, full)}
    if row.ok:
        return {"text": value_text.format_pretty(row.result, full)}
    error = row.result if isinstance(row.result, dict) else {"message": row.result or ""}
    message = str(error.get("message") or "")
    return {
        "error": row.error_kind or "error",
        "type": str(error.get("type") or ""),
        "text": value_text.cut_text(message, full),
    }


def describe_injection(row: Step) -> dict[str, str] | None:
    """Return what the disturbance of the attempt did to a call: a badge and its meaning; None if it left the call
    alone."""
    injected = read_injection(row.injected)
    if injected is None:
        return None
    badges, words = [], []
    if injected.fault == "unavailable":
        badges.append("service unavailable")
        words.append("The call was refused before it reached the environment, so it changed nothing.")
    elif injected.fault and injected.carried_out:
        badges.append("result lost")
        words.append("The call was carried out: its changes are real. The agent read this error instead of its result.")
    elif injected.fault:
        badges.append("server error")
        words.append("The call was not carried out, so it changed nothing. The error did not show that to the agent.")
    if injected.latency_s:
        badges.append(f"latency of {injected.latency_s:g} s")
        words.append(f"The environment's clock went ahead by {injected.latency_s:g} seconds before the call.")
    words.append("This attempt's setting disturbs a share of its calls; neither the agent nor the tool is at fault.")
    return {"badge": f"Injected: {', '.join(badges)}", "words": " ".join(words)}


def build_state_context(request: HttpRequest, trajectory: Trajectory, row: Step, full: bool) -> dict[str, Any]:
    """Return the changes, or the whole state if it is asked for, and the history of a chosen path."""
    params = Params(request.GET)
    pointer = params.text("path", 2_000)
    pointer = pointer if pointer.startswith("/") else ""
    context: dict[str, Any] = {"pointer": pointer, "view": params.text("view")}
    context["find"] = params.search_text("find")
    if trajectory.environment_id is None:
        return context | {
            "no_state": "It has no environment here: it was recorded elsewhere, and nothing was executed."
        }
    if pointer:
        context["touches"] = queries.list_touches(trajectory, pointer)
    try:
        before, after, patch = timeline.load_states_around(trajectory, row)
    except EnvariumError as error:
        return context | {"no_state": str(error)}
    if pointer:
        value = state_diff.get_value_at(after, pointer)
        context["value"] = None if value is state_diff.NOTHING else value_text.format_pretty(value, full)
    if context["view"] == "state" or context["find"]:
        return context | build_whole_state(after, patch, pointer, context["find"])
    changes = state_diff.list_changes(before, after, patch, pointer, full)
    visible_changes = changes if full else sorted(changes, key=lambda change: not change.selected)[: state_diff.SHOWN]
    return context | {
        "changes": visible_changes,
        "change_total": len(changes),
        "changes_hidden": len(changes) - len(visible_changes),
    }


def build_whole_state(state: Any, patch: list[dict[str, Any]], pointer: str, wanted: str) -> dict[str, Any]:
    """Return the state's root with the branches down to `pointer` open, or the hits of a search in it."""
    if wanted:
        hits, more = state_tree.search_state(state, wanted)
        return {"view": "state", "found": hits, "found_more": more}
    changed = frozenset(operation["path"] for operation in patch)
    root = opened = build_level(state, "", state_tree.split_pointer(pointer)[0] if pointer else "", changed)
    trail = state_tree.build_trail(pointer)
    for depth, (key, at) in enumerate(trail):
        value = state_diff.get_value_at(state, at)
        node = next((node for node in opened.nodes if node.key == key), None)
        if node is None or not isinstance(value, dict | list):
            break
        node.branch = opened = build_level(value, at, trail[depth + 1][0] if depth + 1 < len(trail) else "", changed)
    return {"root": root}


def build_level(value: Any, pointer: str, wanted: str, changed: frozenset[str]) -> state_tree.Branch:
    """Return the children of a container, from the page that has the key `wanted` on; long ones folded."""
    start = 0
    if isinstance(value, list) and wanted.isascii() and wanted.isdecimal() and int(wanted) < len(value):
        start = int(wanted) // state_tree.PAGE * state_tree.PAGE
    elif isinstance(value, dict) and wanted in value:
        start = list(value).index(wanted) // state_tree.PAGE * state_tree.PAGE
    children = state_tree.build_branch(value, pointer, start, changed)
    if children.total > FOLD_FROM:
        for node in children.nodes:
            node.branch = None
    return children


def build_branch_context(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    params = Params(request.GET)
    pointer, first = params.text("path", 2_000), params.number("from") or 0
    context: dict[str, Any] = {"t": trajectory, "index": index, "pointer": pointer}
    try:
        row = trajectory.steps.get(index=index)
        _, after, patch = timeline.load_states_around(trajectory, row)
        value = state_tree.locate_value(after, pointer)
    except (EnvariumError, KeyError, Step.DoesNotExist):
        return {**context, "branch": state_tree.Branch(pointer), "gone": True}
    changed = frozenset(operation["path"] for operation in patch)
    return {**context, "branch": state_tree.build_branch(value, pointer, first, changed)}


def build_search_context(request: HttpRequest, trajectory: Trajectory) -> dict[str, Any]:
    params = Params(request.GET)
    search_text = params.search_text("q")
    context: dict[str, Any] = {"t": trajectory, "q": search_text, "hits": [], "more": False}
    context["index"] = params.number("step") or 0
    if search_text:
        context["hits"], context["more"] = queries.search_steps(trajectory, search_text)
    return context


def build_verdict_context(trajectory: Trajectory, row: Check) -> dict[str, Any]:
    """Return the verdicts of one check on this run: its flips, and its error if it raised."""
    matrix, names = load_followed_matrix(trajectory)
    flips = matrix_grid.list_flips(matrix, names)
    scores = trajectory.scores.filter(verifier_hash=trajectory.attempted_revision.verifier_hash).exclude(
        source="recorded"
    )
    score = scores.order_by("-id").values_list("verdicts", flat=True).first() or []
    place = next((number for number, label in enumerate(names) if label.position == row.position), 0)
    check_verdict = score[place] if place < len(score) else None
    return {
        "number": place + 1,
        "turns": [flip for flip in flips if flip.label.position == row.position],
        "verdict": check_verdict,
    }
