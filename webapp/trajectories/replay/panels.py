"""The contexts of the replay's parts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from synthesis.errors import EnvariumError
from synthesis.formats.answer_form import SUBMIT_ANSWER, answer_text
from synthesis.verifiers.frame import place_of
from synthesis.verifiers.frame_words import difference_line, outside_sentence
from webapp.query_params import Params
from webapp.scenarios import state_tree
from webapp.scenarios.answers.answer_form import list_answer_rows
from webapp.scenarios.models import Check
from webapp.trajectories.contradictions import contradictions
from webapp.trajectories.matrix import matrix_job
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.replay import matrix_grid, queries, state_diff, step_list, timeline, value_text
from webapp.trajectories.replay.criterion_rows import list_criteria
from webapp.trajectories.stored_runs import read_injection

FOLD_FROM = 12
WIDENING_CHARS = 1_500
CALLS = (StepKind.QUERY, StepKind.CHANGE, StepKind.CALL)


def step_number(request: HttpRequest, trajectory: Trajectory) -> tuple[int, str]:
    """The step of a link, and what was wrong with it. A number beyond the end is the last step."""
    params, last = Params(request.GET), max(trajectory.step_count - 1, 0)
    number = params.number("step")
    if params.unreadable:
        problem = f"The link asks for step “{params.text('step', 20)}”, which is no step number. This is the first one."
        return 0, problem
    if number is not None and number > last:
        return last, f"The link asks for step {number}; the last one is step {last}."
    return number or 0, ""


def page(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    """Everything but the two panels of the current step."""
    params = Params(request.GET)
    only, tool = params.choice("only", step_list.CHOICES, "all"), params.text("tool")
    context = checks(request, trajectory, index)
    rows, first, last = step_list.rail(trajectory, matrix_grid.by_step(context["flips"]), index, only, tool)
    context |= {
        "rows": rows,
        "earlier": max(first - 1, 0) if first else None,
        "later": last if last < trajectory.step_count else None,
        "only": only,
        "onlys": step_list.ONLY if trajectory.environment_id else step_list.ONLY_FOREIGN,
        "tool": tool,
        "tools": step_list.tools_used(rows),
        "shown": sum(not row.hidden for row in rows),
        "lines": step_list.lines(rows, index, kept_query(request)),
    }
    outside = queries.outside_changes(trajectory)
    if trajectory.revision is not None and trajectory.revision.verifier_kind == "golden":
        context["differences"] = list(map(difference_line, outside))
    else:
        context["outside"] = outside_sentence(outside)
        context["widening"] = urlencode({"place": "\n".join(map(place_of, outside))[:WIDENING_CHARS]})
    if params.search_text("q"):
        context |= search(request, trajectory)
    return context


def kept_query(request: HttpRequest) -> str:
    """What a link to another step keeps of this page's query."""
    parameters = request.GET.copy()
    for key in ("step", "path", "find", "full", "from"):
        parameters.pop(key, None)
    return f"{parameters.urlencode()}&" if parameters else ""


def checks(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    """The check x step matrix, or why there is none."""
    matrix, names = shown_matrix(trajectory)
    flips = matrix_grid.flips(matrix, names)
    context: dict[str, Any] = {"t": trajectory, "index": index, "labels": len(names), "flips": flips}
    context["rubric"] = list_criteria(trajectory)
    context["contradictions"] = contradictions(trajectory)
    context["base"] = kept_query(request)
    context["check_url"] = reverse("trajectories:check", args=[trajectory.pk, 0]).removesuffix("0/")
    if matrix is not None:
        context["grid"] = matrix_grid.grid(matrix, names, index, Params(request.GET).text("matrix") == "all")
    elif names:
        context["matrix_job"] = matrix_job(trajectory)
    return context


def shown_matrix(trajectory: Trajectory) -> tuple[dict[str, Any] | None, list[matrix_grid.Label]]:
    """The matrix as a reader follows the run, if it is fresh, and the checks that it is about."""
    names = queries.labels(trajectory)
    return queries.followed_matrix(trajectory, names), names


def step(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    """The step and state panels. Raises `Step.DoesNotExist`."""
    row, previous = queries.step_pair(trajectory, index)
    full = Params(request.GET).flag("full")
    matrix, names = shown_matrix(trajectory)
    flips = matrix_grid.flips(matrix, names)
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
        "reasoning": value_text.cut(row.reasoning, full),
        "content": value_text.cut(row.content, full),
        "before": observation(previous, full),
    }
    if matrix:
        context["holding"] = matrix_grid.holding_words(matrix, index)
    if context["is_call"]:
        context["call"] = value_text.call(row.tool, row.arguments, full)
        context["result"] = result(row, full)
        context["injection"] = describe_injection(row)
        if row.matches is False and row.ok is not None:
            context["departures"] = value_text.departures(row.recorded, row.result)
    return context | answer(trajectory, row) | state(request, trajectory, row, full)


def answer(trajectory: Trajectory, row: Step) -> dict[str, Any]:
    """The submitted answer beside the answer form of the task, at the step that gives it.

    A submission that was refused stands beside the form as well; its result says which fields were wrong.
    """
    if row.tool == SUBMIT_ANSWER:
        given = answer_text(row.arguments) if isinstance(row.arguments, dict) else ""
    elif row.kind == StepKind.MESSAGE and trajectory.answer and row.index == queries.answer_step(trajectory):
        given = trajectory.answer
    else:
        return {}
    revision = trajectory.revision
    rows = list_answer_rows(revision, given) if revision is not None else []
    return {"form_rows": rows, "is_refused": row.tool == SUBMIT_ANSWER and row.ok is False}


def observation(previous: Step | None, full: bool) -> dict[str, Any] | None:
    """What the agent saw before it acted: the recorded text, as that is what it answered to.

    `said` follows "step N" in the name of the fold that holds it.
    """
    if previous is None or previous.kind == StepKind.MESSAGE:
        return None
    known: dict[str, Any] = {"step": previous.index}
    if previous.kind == StepKind.SYSTEM:
        observed = bool(previous.details and previous.details.get("observation"))
        return known | {"said": "had an effect", "text": value_text.cut(previous.content, full)} if observed else None
    if previous.kind == StepKind.USER:
        return known | {"said": "the user said", "text": value_text.cut(previous.content, full)}
    if previous.recorded:
        value = value_text.recorded_value(previous.recorded)
        same = value is value_text.UNPARSED or not isinstance(value, dict | list)
        text = value_text.cut(previous.recorded, full) if same else pretty_plain(value, previous.recorded, full)
    elif previous.ok is None:
        return None
    else:
        text = value_text.pretty(previous.result, full)
    said = "answered the user" if previous.by == CallBy.USER else "answered"
    return known | {"tool": previous.tool, "said": said, "failed": previous.ok is False, "text": text}


def pretty_plain(value: Any, recorded: str, full: bool) -> value_text.Text:
    """A parsed observation; what JSON cannot spell stays as it was recorded."""
    try:
        return value_text.pretty(value, full)
    except (TypeError, ValueError):
        return value_text.cut(recorded, full)


def result(row: Step, full: bool) -> dict[str, Any]:
    """The reproduced result; for an error its kind, type and message; of a foreign record what it says itself."""
    if row.kind == StepKind.CALL:
        value = value_text.recorded_value(row.recorded)
        foreign = value_text.cut(row.recorded, full)
        if isinstance(value, dict | list):
            foreign = pretty_plain(value, row.recorded, full)
        return {"foreign": True, "text": foreign}
    if row.ok is None:
        return {"missing": True, "recorded": value_text.cut(row.recorded, full)}
    if row.ok:
        return {"text": value_text.pretty(row.result, full)}
    error = row.result if isinstance(row.result, dict) else {"message": row.result or ""}
    message = str(error.get("message") or "")
    return {
        "error": row.error_kind or "error",
        "type": str(error.get("type") or ""),
        "text": value_text.cut(message, full),
    }


def describe_injection(row: Step) -> dict[str, str] | None:
    """What the disturbance of the attempt did to a call: a badge and what it means; None if it left it alone."""
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
        words.append("The call was not carried out, so it changed nothing. The agent could not tell from the error.")
    if injected.latency_s:
        badges.append(f"latency of {injected.latency_s:g} s")
        words.append(f"The environment's clock went ahead by {injected.latency_s:g} seconds before the call.")
    words.append("This attempt's setting disturbs a share of its calls; neither the agent nor the tool is at fault.")
    return {"badge": f"Injected: {', '.join(badges)}", "words": " ".join(words)}


def state(request: HttpRequest, trajectory: Trajectory, row: Step, full: bool) -> dict[str, Any]:
    """What changed, or the whole state when it is asked for, and the history of a chosen path."""
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
        context["touches"] = queries.touches(trajectory, pointer)
    try:
        before, after, patch = timeline.around(trajectory, row)
    except EnvariumError as error:
        return context | {"no_state": str(error)}
    if pointer:
        value = state_diff.value_at(after, pointer)
        context["value"] = None if value is state_diff.NOTHING else value_text.pretty(value, full)
    if context["view"] == "state" or context["find"]:
        return context | whole(after, patch, pointer, context["find"])
    changes = state_diff.changes(before, after, patch, pointer, full)
    shown = changes if full else sorted(changes, key=lambda change: not change.selected)[: state_diff.SHOWN]
    return context | {"changes": shown, "change_total": len(changes), "changes_hidden": len(changes) - len(shown)}


def whole(state: Any, patch: list[dict[str, Any]], pointer: str, wanted: str) -> dict[str, Any]:
    """The state's root with the branches down to `pointer` open, or what a search in it found."""
    if wanted:
        hits, more = state_tree.search(state, wanted)
        return {"view": "state", "found": hits, "found_more": more}
    changed = frozenset(operation["path"] for operation in patch)
    root = opened = level(state, "", state_tree.parts_of(pointer)[0] if pointer else "", changed)
    trail = state_tree.trail(pointer)
    for depth, (key, at) in enumerate(trail):
        value = state_diff.value_at(state, at)
        node = next((node for node in opened.nodes if node.key == key), None)
        if node is None or not isinstance(value, dict | list):
            break
        node.branch = opened = level(value, at, trail[depth + 1][0] if depth + 1 < len(trail) else "", changed)
    return {"root": root}


def level(value: Any, pointer: str, wanted: str, changed: frozenset[str]) -> state_tree.Branch:
    """The children of a container, from the page that holds the key `wanted` on; long ones folded."""
    start = 0
    if isinstance(value, list) and wanted.isascii() and wanted.isdecimal() and int(wanted) < len(value):
        start = int(wanted) // state_tree.PAGE * state_tree.PAGE
    elif isinstance(value, dict) and wanted in value:
        start = list(value).index(wanted) // state_tree.PAGE * state_tree.PAGE
    children = state_tree.branch(value, pointer, start, changed)
    if children.total > FOLD_FROM:
        for node in children.nodes:
            node.branch = None
    return children


def branch(request: HttpRequest, trajectory: Trajectory, index: int) -> dict[str, Any]:
    params = Params(request.GET)
    pointer, first = params.text("path", 2_000), params.number("from") or 0
    context: dict[str, Any] = {"t": trajectory, "index": index, "pointer": pointer}
    try:
        row = trajectory.steps.get(index=index)
        _, after, patch = timeline.around(trajectory, row)
        value = state_tree.locate(after, pointer)
    except (EnvariumError, KeyError, Step.DoesNotExist):
        return {**context, "branch": state_tree.Branch(pointer), "gone": True}
    changed = frozenset(operation["path"] for operation in patch)
    return {**context, "branch": state_tree.branch(value, pointer, first, changed)}


def search(request: HttpRequest, trajectory: Trajectory) -> dict[str, Any]:
    params = Params(request.GET)
    wanted = params.search_text("q")
    context: dict[str, Any] = {"t": trajectory, "q": wanted, "hits": [], "more": False}
    context["index"] = params.number("step") or 0
    if wanted:
        context["hits"], context["more"] = queries.search(trajectory, wanted)
    return context


def verdict(trajectory: Trajectory, row: Check) -> dict[str, Any]:
    """What one check said on this run: its flips, and its error where it raised."""
    matrix, names = shown_matrix(trajectory)
    flips = matrix_grid.flips(matrix, names)
    scores = trajectory.scores.filter(verifier_hash=trajectory.attempted.verifier_hash).exclude(source="recorded")
    score = scores.order_by("-id").values_list("verdicts", flat=True).first() or []
    place = next((number for number, label in enumerate(names) if label.position == row.position), 0)
    check_verdict = score[place] if place < len(score) else None
    return {
        "number": place + 1,
        "turns": [flip for flip in flips if flip.label.position == row.position],
        "verdict": check_verdict,
    }
