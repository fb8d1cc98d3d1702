"""Checker: a verdict on one call from the tool's source and description, the result, the state and its changes."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted.programs.prompt_reader import parse_json, parse_rendered
from synthesis.scripted.programs.result_rows import find_contradiction, find_denied_id, find_foreign_row
from synthesis.scripted.programs.tester import NOWHERE
from synthesis.syntax import UNREADABLE, parse_module

_MOST = re.compile(r"at most (\d+)(?! ?(?:day|week))")
Verdict = tuple[str, str]


def write_reply(call: StageCall) -> str:
    """Return the reply to `assessment/check_call`."""
    prompt_values = parse_rendered(get_prompt("assessment", "check_call"), call.messages[0].content) or {}
    tool, call_made = parse_json(prompt_values.get("tool", "")) or {}, parse_json(prompt_values.get("call", "")) or {}
    if not call_made:
        return json.dumps({"verdict": "warning", "reason": "What happened could not be read."})
    verdict, reason = judge_call(
        tool, prompt_values.get("source", ""), call_made, parse_json(prompt_values.get("state", ""))
    )
    return json.dumps({"verdict": verdict, "reason": reason})


def judge_call(tool: dict[str, Any], source: str, made: dict[str, Any], states: Any = None) -> Verdict:
    """Return the verdict on a call and its reason: the first fault, the gravest first."""
    ok, result, patch = made.get("ok") is True, made.get("result"), made.get("patch") or []
    refused = not ok or _is_refusal_result(result)
    if refused and patch:
        return "fail", f"The call was refused, yet {_get_first_path(patch)} changed."
    if tool.get("kind") == "query" and patch:
        return "fail", f"A query must leave the state alone, yet {_get_first_path(patch)} changed."
    if not refused and (broken := find_broken_rule(tool, made.get("arguments") or {})):
        return "fail", broken
    if not refused and patch and _has_unknown_id(made):
        return "fail", f"There is no {NOWHERE}, yet {_get_first_path(patch)} changed."
    if not refused and (wrong := find_contradiction(result, states)):
        return "fail", wrong
    if tool.get("kind") == "query" and (wrong := find_foreign_row(result, made.get("arguments") or {})):
        return "fail", wrong
    if refused and (existing_id := find_denied_id(_get_reason(made), states)):
        return "fail", f"It says that {existing_id} does not exist, yet the state has it."
    if not ok and str(made.get("error", "")).startswith("raised"):
        return "warning", f"The tool raised instead of refusing: {str(made.get('error'))[:200]}"
    if not refused and tool.get("kind") == "change" and not patch and has_writes(source):
        return "warning", "The call succeeded and nothing changed."
    if refused and not _get_reason(made):
        return "warning", "The refusal does not say why."
    return "pass", "Refused with a reason, and nothing changed." if refused else "It did what its description says."


def _is_refusal_result(result: Any) -> bool:
    return isinstance(result, dict) and (result.get("success") is False or bool(result.get("error")))


def _has_unknown_id(made: dict[str, Any]) -> bool:
    return made.get("case") == "negative" and NOWHERE in (made.get("arguments") or {}).values()


def _get_reason(made: dict[str, Any]) -> str:
    result = made.get("result")
    inside = result.get("error") if isinstance(result, dict) else ""
    return str(inside or made.get("error") or "")


def _get_first_path(patch: list[Any]) -> str:
    return str(patch[0].get("path", "the state")) if isinstance(patch[0], dict) else "the state"


def find_broken_rule(tool: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return the rule in an argument's description that a successful call broke; empty if none."""
    properties = (tool.get("parameters") or {}).get("properties") or {}
    for name, argument in arguments.items():
        about = str((properties.get(name) or {}).get("description", ""))
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            continue
        if "must be positive" in about and argument <= 0:
            return f"{name} must be positive, but {argument} was accepted."
        most = _MOST.search(about)
        if most and argument > int(most[1]):
            return f"{name} is at most {most[1]}, but {argument} was accepted."
    return ""


def has_writes(source: str) -> bool:
    """Return whether a tool's source assigns to anything but plain names."""
    try:
        nodes = list(ast.walk(parse_module(source)))
    except UNREADABLE:
        return False
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Subscript | ast.Attribute) for target in targets):
            return True
    return False
