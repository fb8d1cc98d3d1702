"""Findings about a task: its checks as source, and their verdicts before the agent acts."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from synthesis.assessment.kinds import make_finding
from synthesis.assessment.truncated_names import collect_identifiers
from synthesis.contracts import CheckRecord, Finding, Verdict
from synthesis.runtime.check_request import find_language_problem
from synthesis.syntax import UNREADABLE, parse_module

HIGH = 0.5


def list_task_findings(
    checks: Sequence[CheckRecord], verdicts: Sequence[Verdict], do_nothing: float | None
) -> list[Finding]:
    """Return the findings. `verdicts` and `do_nothing` are those of the start state; empty if it does not start."""
    if not checks:
        return [make_finding("no_checks", "checks", "Nothing judges this task.")]
    findings = [
        item
        for index, check in enumerate(checks)
        if check.source
        for item in _list_source_findings(check, f"checks[{index}]")
    ]
    findings += list_start_findings(verdicts)
    if len(verdicts) < len(checks):
        return findings
    if verdicts and all(verdict.passed for verdict in verdicts):
        findings.append(make_finding("all_true_at_start", "checks", f"All {len(verdicts)} checks hold at the start."))
    elif do_nothing is not None and do_nothing >= HIGH:
        message = f"Doing nothing scores {do_nothing:.3f}."
        findings.append(make_finding("high_do_nothing", "checks", message, do_nothing=do_nothing))
    return findings


def list_start_findings(verdicts: Sequence[Verdict]) -> list[Finding]:
    """Return one finding for all guards, and one for each check that does not answer."""
    findings = []
    guards = [index + 1 for index, verdict in enumerate(verdicts) if verdict.passed]
    if guards:
        check_numbers = ", ".join(map(str, guards[:12])) + ("…" if len(guards) > 12 else "")
        message = f"{len(guards)} of {len(verdicts)} checks hold at the start: {check_numbers}."
        findings.append(make_finding("check_true_at_start", "checks", message, checks=guards))
    for index, verdict in enumerate(verdicts):
        place = f"checks[{index}]"
        if verdict.non_boolean:
            message = f"Check {index + 1} answers something that is neither True nor False."
            findings.append(make_finding("check_not_boolean", place, message))
        elif verdict.has_raised:
            message = f"Check {index + 1} raises at the start: {verdict.error}"
            findings.append(make_finding("check_raises_at_start", place, message))
    return findings


def _list_source_findings(check: CheckRecord, place: str) -> list[Finding]:
    try:
        tree = parse_module(check.source)
    except UNREADABLE as error:
        return [make_finding("check_invalid", place, f"The check is not Python: {error}")]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return [make_finding("check_invalid", place, "The check defines no function.")]
    outside = find_language_problem(check.source)
    if outside:
        return [make_finding("check_outside_language", place, f"The check is refused: {outside}")]
    if any(_reads_initial_state(node) for node in functions):
        return [make_finding("check_reads_initial_state", place, "The check reads a global `initial_state`.")]
    return []


def _reads_initial_state(function: ast.FunctionDef) -> bool:
    arguments = function.args
    bound = {item.arg for item in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == "initial_state"]
    stored = any(not isinstance(node.ctx, ast.Load) for node in names)
    return bool(names) and not stored and "initial_state" not in bound


@functools.lru_cache(maxsize=16)
def _collect_mentioned(source: str) -> frozenset[str] | None:
    """Return the names and texts of a program, None if it is not Python. Cached, as its many states are compared with
    them.
    """
    try:
        tree = parse_module(source)
    except UNREADABLE:
        return None
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(collect_identifiers(tree) | texts)


def find_unknown_state_keys(state: dict[str, object], source: str) -> list[Finding]:
    """Return findings on keys of an initial state that the program never mentions as an attribute, a name or a text."""
    mentioned = _collect_mentioned(source)
    unknown = [key for key in state if key not in mentioned] if mentioned is not None else []
    return [
        make_finding("unknown_state_key", f"initial_state.{key}"[:300], f"The program never mentions {key!r}.")
        for key in unknown[:50]
    ]
