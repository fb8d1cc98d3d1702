"""Golden states and verification scripts in a task's record, under `verifier`.

A golden state is written as `{"kind": "golden", "state": ..., "equality": "roles", "volatile": [...]}`, with its state
encoded; a script as `{"kind": "script", "source": ..., "assertions": [...]}`. Answer form, expected values and frame
have fields of their own in the record.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from synthesis.contracts import AnswerField, Frame, GoldenVerifier, ScriptVerifier, Verifier
from synthesis.errors import FormatError
from synthesis.formats.answer_form import build_field_checks
from synthesis.json_reader import get_json_type
from synthesis.syntax import parse_module

PARAMETERS = ("answer", "expected", "initial_state", "final_state")
_OWN: dict[type, set[str]] = {
    GoldenVerifier: {"kind", "state", "equality", "volatile"},
    ScriptVerifier: {"kind", "source", "assertions"},
}


def serialize_verifier(verifier: Verifier) -> dict[str, Any]:
    """Return the `verifier` part of a record; empty if the verifier consists of checks or criteria."""
    own_fields = _OWN.get(type(verifier))
    return {"verifier": verifier.model_dump(mode="json", include=own_fields)} if own_fields is not None else {}


def read_verifier(
    raw: Mapping[str, Any],
    place: str,
    form: Sequence[AnswerField],
    expected: Mapping[str, Any],
    frame: Frame | None,
) -> GoldenVerifier | ScriptVerifier | None:
    """Read the output of `serialize_verifier`; None if the record has no `verifier`. Raise FormatError if it is
    invalid."""
    raw_verifier = raw.get("verifier")
    if raw_verifier is None:
        return None
    place = f"{place}.verifier"
    if not isinstance(raw_verifier, dict):
        raise FormatError(place, f"expected an object, found a {get_json_type(raw_verifier)}")
    kind = raw_verifier.get("kind")
    try:
        if kind == "golden":
            return _read_golden(raw_verifier, place, form, expected, frame)
        if kind == "script":
            return _read_script(raw_verifier, place, expected, frame)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([place, *map(str, first["loc"])])
        raise FormatError(where, first["msg"].removeprefix("Value error, ")) from None
    raise FormatError(f"{place}.kind", f"expected `golden` or `script`, found {str(kind)[:60]!r}")


def nest_former_fields(task: Any) -> Any:
    """Return a stored task whose verifier has a field of its own.

    Tasks that were frozen by earlier versions are flat: `checks` as sources, `marks`, `rule`, `frame`, `criteria`.
    """
    if not isinstance(task, Mapping) or "verifier" in task or not _FORMER & task.keys():
        return task
    remaining_fields = {name: value for name, value in task.items() if name not in _FORMER}
    if task.get("criteria"):
        expected = task.get("expected_answer") or {}
        return {
            **remaining_fields,
            "verifier": {"kind": "rubric", "criteria": task["criteria"], "expected_answer": expected},
        }
    sources = task.get("checks") or ()
    checks = [{"source": source} for source in sources] if isinstance(sources, Sequence) else sources
    parts = {name: task[name] for name in ("marks", "rule", "frame") if name in task}
    return {**remaining_fields, "verifier": {"kind": "checks", "checks": checks, **parts}}


_FORMER = {"checks", "marks", "rule", "frame", "criteria", "expected_answer"}


def find_script_problem(source: str) -> str:
    """Return why a verification script cannot be run; empty if it defines `verify` with its four parameters."""
    try:
        tree = parse_module(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "verify"]
    if not functions:
        return f"it defines no function `verify({', '.join(PARAMETERS)})`"
    if len(functions[-1].args.args) != len(PARAMETERS):
        return f"`verify` takes {', '.join(PARAMETERS)}, in this order"
    return ""


def _read_golden(
    given: dict[str, Any],
    place: str,
    form: Sequence[AnswerField],
    expected: Mapping[str, Any],
    frame: Frame | None,
) -> GoldenVerifier:
    if frame is not None:
        raise FormatError(place, "a golden state says what may change: an additional `frame` has no meaning")
    if not isinstance(given.get("state"), dict):
        raise FormatError(f"{place}.state", "missing; it is the golden state, as an export spells it")
    return GoldenVerifier(
        state=given["state"],
        equality=given.get("equality", "roles"),
        volatile=given.get("volatile", ()),
        checks=build_field_checks(form, expected),
    )


def _read_script(given: dict[str, Any], place: str, expected: Mapping[str, Any], frame: Frame | None) -> ScriptVerifier:
    script = ScriptVerifier(
        source=given.get("source"),
        assertions=given.get("assertions", ()),
        expected_answer=dict(expected),
        frame=frame,
    )
    problem = find_script_problem(script.source)
    if problem:
        raise FormatError(f"{place}.source", problem)
    return script


def describe_verifier(verifier: Verifier) -> str:
    """Return a short description of a task's verifier: `5 checks`, `a golden state`."""
    if isinstance(verifier, GoldenVerifier):
        return "a golden state"
    if isinstance(verifier, ScriptVerifier):
        return f"a script of {_format_count(len(verifier.assertions), 'assertion', 'assertions')}"
    if verifier.criteria:
        return _format_count(len(verifier.criteria), "criterion", "criteria")
    return _format_count(len(verifier.checks), "check", "checks")


def _format_count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
