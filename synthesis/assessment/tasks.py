"""Findings about a task: its checks as source, and what they say before the agent does anything."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from synthesis.assessment.kinds import finding
from synthesis.assessment.truncated_names import identifiers
from synthesis.contracts import CheckRecord, Finding, Verdict
from synthesis.runtime.check_request import language_problem
from synthesis.syntax import UNREADABLE, parse

HIGH = 0.5


def task_findings(
    checks: Sequence[CheckRecord], verdicts: Sequence[Verdict], do_nothing: float | None
) -> list[Finding]:
    """`verdicts` and `do_nothing` are what the checks gave on the start state; empty where it does not start."""
    if not checks:
        return [finding("no_checks", "checks", "Nothing judges this task.")]
    findings = [
        item
        for index, check in enumerate(checks)
        if check.source
        for item in _source_findings(check, f"checks[{index}]")
    ]
    findings += start_findings(verdicts)
    if len(verdicts) < len(checks):
        return findings
    if verdicts and all(verdict.passed for verdict in verdicts):
        findings.append(finding("all_true_at_start", "checks", f"All {len(verdicts)} checks hold at the start."))
    elif do_nothing is not None and do_nothing >= HIGH:
        message = f"Doing nothing scores {do_nothing:.3f}."
        findings.append(finding("high_do_nothing", "checks", message, do_nothing=do_nothing))
    return findings


def start_findings(verdicts: Sequence[Verdict]) -> list[Finding]:
    """One finding for all guards, and one for each check that does not answer."""
    findings = []
    guards = [index + 1 for index, verdict in enumerate(verdicts) if verdict.passed]
    if guards:
        shown = ", ".join(map(str, guards[:12])) + ("…" if len(guards) > 12 else "")
        message = f"{len(guards)} of {len(verdicts)} checks hold at the start: {shown}."
        findings.append(finding("check_true_at_start", "checks", message, checks=guards))
    for index, verdict in enumerate(verdicts):
        place = f"checks[{index}]"
        if verdict.non_boolean:
            message = f"Check {index + 1} answers something that is neither True nor False."
            findings.append(finding("check_not_boolean", place, message))
        elif verdict.raised:
            message = f"Check {index + 1} raises at the start: {verdict.error}"
            findings.append(finding("check_raises_at_start", place, message))
    return findings


def _source_findings(check: CheckRecord, place: str) -> list[Finding]:
    try:
        tree = parse(check.source)
    except UNREADABLE as error:
        return [finding("check_invalid", place, f"The check is not Python: {error}")]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return [finding("check_invalid", place, "The check defines no function.")]
    outside = language_problem(check.source)
    if outside:
        return [finding("check_outside_language", place, f"The check is refused: {outside}")]
    if any(_reads_initial(node) for node in functions):
        return [finding("check_reads_initial_state", place, "The check reads a global `initial_state`.")]
    return []


def _reads_initial(function: ast.FunctionDef) -> bool:
    arguments = function.args
    bound = {item.arg for item in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == "initial_state"]
    stored = any(not isinstance(node.ctx, ast.Load) for node in names)
    return bool(names) and not stored and "initial_state" not in bound


@functools.lru_cache(maxsize=16)
def _mentioned(source: str) -> frozenset[str] | None:
    """Names and texts of a program, None where it is not Python. Its many states are compared with the same ones."""
    try:
        tree = parse(source)
    except UNREADABLE:
        return None
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(identifiers(tree) | texts)


def unknown_state_keys(state: dict[str, object], source: str) -> list[Finding]:
    """Keys of an initial state that the program nowhere mentions, as an attribute, a name or a text."""
    mentioned = _mentioned(source)
    unknown = [key for key in state if key not in mentioned] if mentioned is not None else []
    return [
        finding("unknown_state_key", f"initial_state.{key}"[:300], f"The program never mentions {key!r}.")
        for key in unknown[:50]
    ]
