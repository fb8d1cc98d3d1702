"""Bodies of drafts: what a person typed, cleaned and bounded, kept even if it cannot be saved yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, get_args

from synthesis.contracts import Equality, ReferenceCall, State
from synthesis.errors import FormatError, InputError, StateError
from synthesis.formats.answer_form import MOST_FIELDS, read_form
from synthesis.formats.criteria import format_criterion_line, read_criterion_line
from synthesis.formats.values import clean_text
from synthesis.json_reader import MAX_DEPTH
from synthesis.json_weight import is_shallow
from synthesis.runtime.encoding import decode_state
from synthesis.runtime.method_source import MOST_TOKENS
from synthesis.syntax import count_tokens
from webapp.common.rest.types import MOST_LEVELS
from webapp.edits.draft_problems import find_form_problem
from webapp.edits.models import Edit, EditKind
from webapp.edits.proposals import keep_changed_parts
from webapp.edits.verifier_part import read_verifier_part
from webapp.scenarios.playground.argument_form import parse_typed_json
from webapp.scenarios.states import store_state

WHY_CHARS = 2_000

SOURCE_CHARS = 300_000
"""Of a program or tool that is typed: the site itself parses it. A larger one goes in by an import."""
INSTRUCTION_CHARS = 50_000
TITLE_CHARS = 300
LABEL_CHARS = 2_000
CHECK_CHARS = 20_000
MOST_CHECKS = 300
MOST_CALLS = 500
CALLS_CHARS = 200_000
ANSWER_CHARS = 50_000
EXPECTED_CHARS = 200_000
STATE_CHARS = 2_000_000
"""Of a state that is typed; a larger one goes in by an import."""
STATE_MEMORY = 24 << 20
"""Bytes that it may take about once it is read: the site holds it several times to keep and to compare it."""


def read_program_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{source}` or `{tool_source}`. Raises InputError if there is neither, or it is too long."""
    name = next((name for name in ("tool_source", "source") if name in body), None)
    if name is None:
        raise InputError("Send the source of the program, or of the tool.")
    text = _read_text(body[name], SOURCE_CHARS, "The source").replace("\r\n", "\n")
    if not text.strip():
        raise InputError("The source is empty. Drop the edit to leave it as it was.")
    if count_tokens(text) > MOST_TOKENS:
        raise InputError(f"The source may have {MOST_TOKENS:,} words and signs; a larger program goes in by an import.")
    return {name: text}


def read_task_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parts of a task, each read. Raises InputError with the part and its fault."""
    parts: dict[str, Any] = {}
    if "title" in body:
        parts["title"] = _read_required_text(body["title"], TITLE_CHARS, "The title")
    if "instruction" in body:
        parts["instruction"] = _read_required_text(body["instruction"], INSTRUCTION_CHARS, "The instruction")
    if "checks" in body:
        parts["checks"] = _read_checks(body["checks"])
    if "criteria" in body:
        parts["criteria"] = [_read_criterion(text) for text in _require_list(body["criteria"], "criteria")]
    if "verifier" in body:
        parts["verifier"] = read_verifier_part(body["verifier"])
    if "equality" in body:
        if body["equality"] not in get_args(Equality):
            raise InputError("An end state is compared with the golden one by `roles` or `plain`.")
        parts["equality"] = body["equality"]
    if "answer_form" in body:
        form = read_form({"answer_form": body["answer_form"]}, "")
        parts["answer_form"] = [field.model_dump(mode="json", exclude_defaults=True) for field in form]
    if "expected_answer" in body:
        parts["expected_answer"] = _read_expected_answer(body["expected_answer"])
    if "reference" in body:
        parts["reference"] = None if body["reference"] is None else _read_reference(body["reference"])
    return parts


def read_calls(text: str) -> list[Any]:
    """Parse calls as a person types them, a JSON list of `{tool, arguments}`. Raises InputError."""
    if len(text) > CALLS_CHARS:
        raise InputError(f"The reference's calls may have {CALLS_CHARS:,} characters.")
    try:
        calls = parse_typed_json(text.strip() or "[]")
    except FormatError as error:
        raise InputError(f"The reference's calls: {error}.") from error
    if not isinstance(calls, list):
        raise InputError('The reference\'s calls are a JSON list: [{"tool": "name", "arguments": {…}}].')
    return calls


def read_state(text: str) -> State:
    """Parse an encoded state as a person types it. Raises InputError if it is no JSON, or no state."""
    if len(text) > STATE_CHARS:
        raise InputError(f"A state that is typed may have {STATE_CHARS:,} characters; import a larger one.")
    try:
        value = parse_typed_json(text, MOST_LEVELS, STATE_MEMORY)
    except FormatError as error:
        raise InputError(f"The initial state: {error}.") from error
    if not isinstance(value, dict):
        raise InputError("The initial state is a JSON object: each key is an attribute of the program.")
    check_state(value)
    return value


def check_state(value: State) -> None:
    """Raise InputError if an encoded state cannot be read."""
    try:
        decode_state(value)
    except (StateError, InputError, ValueError, TypeError) as error:
        raise InputError(f"The initial state cannot be read: {error}") from error


def _read_criterion(value: Any) -> str:
    return format_criterion_line(read_criterion_line(_read_required_text(value, LABEL_CHARS, "A criterion")))


def _read_checks(value: Any) -> list[dict[str, str]]:
    listed = _require_list(value, "checks")
    if len(listed) > MOST_CHECKS:
        raise InputError(f"A task has at most {MOST_CHECKS} checks; here are {len(listed)}.")
    read_checks = []
    for number, check in enumerate(listed, 1):
        if not isinstance(check, Mapping):
            raise InputError(f"Check {number} has a label and a source.")
        label = _read_text(check.get("label", ""), LABEL_CHARS, f"The label of check {number}").strip()
        source = _read_required_text(check.get("source", ""), CHECK_CHARS, f"The source of check {number}").replace(
            "\r\n", "\n"
        )
        read_checks.append({"label": label, "source": source})
    return read_checks


def _read_expected_answer(value: Any) -> dict[str, Any]:
    """Return the expected values; whether they fit the answer form is checked once both are known."""
    if not isinstance(value, Mapping) or len(value) > MOST_FIELDS:
        raise InputError("The expected answer is an object: the expected value by the name of its field.")
    if not is_shallow(dict(value), MAX_DEPTH) or len(json.dumps(value)) > EXPECTED_CHARS:
        raise InputError(f"The expected answer may have {EXPECTED_CHARS:,} characters, in {MAX_DEPTH} levels.")
    return dict(value)


def _read_reference(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError("The reference has calls and an answer.")
    listed = _require_list(value.get("calls", []), "calls")
    if len(listed) > MOST_CALLS:
        raise InputError(f"A reference has at most {MOST_CALLS} calls.")
    calls = []
    for number, call in enumerate(listed, 1):
        name, arguments = (call.get("tool"), call.get("arguments", {})) if isinstance(call, Mapping) else (None, None)
        if not isinstance(name, str) or not name or not isinstance(arguments, dict):
            raise InputError(f'Call {number} of the reference is {{"tool": "name", "arguments": {{…}}}}.')
        if not is_shallow(arguments, MAX_DEPTH):
            raise InputError(f"The arguments of call {number} are nested too deeply: {MAX_DEPTH} levels are allowed.")
        calls.append(ReferenceCall(tool=clean_text(name)[:200], arguments=arguments).model_dump())
    return {"calls": calls, "answer": _read_text(value.get("answer", ""), ANSWER_CHARS, "The answer")}


def _require_list(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InputError(f"The {what} are a list.")
    return value


def _read_text(value: Any, most: int, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what} is text.")
    if len(value) > most:
        raise InputError(f"{what} may have {most:,} characters; this one has {len(value):,}.")
    return clean_text(value)


def _read_required_text(value: Any, most: int, what: str) -> str:
    text = _read_text(value, most, what)
    if not text.strip():
        raise InputError(f"{what} is empty.")
    return text


def is_kept_already(edit: Edit, body: dict[str, Any], state: State | None, why: str | None) -> bool:
    """Return whether the stored draft holds exactly this, as it does after the browser's Back button."""
    typed = copy(edit)
    try:
        fill_draft(typed, body, state, why)
    except InputError:
        return False
    return typed.compute_digest() == edit.digest and typed.why == edit.why


def fill_draft(edit: Edit, body: dict[str, Any], state: State | None, why: str | None) -> None:
    """Fill a draft with what was typed, without writing it. Raises InputError with the faulty part."""
    if why is not None and len(clean_text(why).strip()) > WHY_CHARS:
        raise InputError(f"The reason has {len(clean_text(why).strip()):,} characters; at most {WHY_CHARS:,} are kept.")
    read_body = read_program_body(body) if edit.kind == EditKind.PROGRAM else read_task_body(body)
    if edit.kind == EditKind.PROGRAM and edit.tool and "source" in read_body:
        raise InputError("This draft is of one tool. Send `tool_source`, or edit the whole program.")
    if edit.kind == EditKind.PROGRAM and not edit.tool and "tool_source" in read_body:
        raise InputError("This draft is of the whole program. Send `source`.")
    edit.body = read_body if edit.kind == EditKind.PROGRAM else keep_changed_parts(edit, read_body)
    problem = find_form_problem(edit) if edit.kind == EditKind.TASK else ""
    if problem:
        raise InputError(problem)
    if edit.kind == EditKind.TASK and state is not None:
        stored = store_state(state)
        scenario = edit.revision.scenario if edit.revision else None
        edit.initial = None if scenario is not None and scenario.initial_id == stored.pk else stored
    if why is not None:
        edit.why = clean_text(why).strip()
