"""The checker: a verdict on one call out of the tool's source and words, what came back, the state and what changed."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.programs.prompt_reader import as_json, unrendered
from synthesis.scripted.programs.result_rows import contradiction, denied, stranger
from synthesis.scripted.programs.tester import NOWHERE
from synthesis.syntax import UNREADABLE, parse

_MOST = re.compile(r"at most (\d+)(?! ?(?:day|week))")
Verdict = tuple[str, str]


def answer(call: StageCall) -> str:
    """The reply to `assessment/check_call`."""
    shown = unrendered(prompt("assessment", "check_call"), call.messages[0].content) or {}
    tool, made = as_json(shown.get("tool", "")) or {}, as_json(shown.get("call", "")) or {}
    if not made:
        return json.dumps({"verdict": "warning", "reason": "What happened could not be read."})
    verdict, reason = judge(tool, shown.get("source", ""), made, as_json(shown.get("state", "")))
    return json.dumps({"verdict": verdict, "reason": reason})


def judge(tool: dict[str, Any], source: str, made: dict[str, Any], states: Any = None) -> Verdict:
    """The verdict on a call and its reason: the first thing that is wrong, the gravest first."""
    ok, result, patch = made.get("ok") is True, made.get("result"), made.get("patch") or []
    refused = not ok or _says_no(result)
    if refused and patch:
        return "fail", f"The call was refused, yet {_first(patch)} changed."
    if tool.get("kind") == "query" and patch:
        return "fail", f"A query must leave the state alone, yet {_first(patch)} changed."
    if not refused and (broken := broken_rule(tool, made.get("arguments") or {})):
        return "fail", broken
    if not refused and patch and _names_nobody(made):
        return "fail", f"There is no {NOWHERE}, yet {_first(patch)} changed."
    if not refused and (wrong := contradiction(result, states)):
        return "fail", wrong
    if tool.get("kind") == "query" and (wrong := stranger(result, made.get("arguments") or {})):
        return "fail", wrong
    if refused and (there := denied(_reason(made), states)):
        return "fail", f"It says that {there} does not exist, yet the state has it."
    if not ok and str(made.get("error", "")).startswith("raised"):
        return "warning", f"The tool raised instead of refusing: {str(made.get('error'))[:200]}"
    if not refused and tool.get("kind") == "change" and not patch and writes(source):
        return "warning", "The call succeeded and nothing changed."
    if refused and not _reason(made):
        return "warning", "The refusal does not say why."
    return "pass", "Refused with a reason, and nothing changed." if refused else "It did what its description says."


def _says_no(result: Any) -> bool:
    return isinstance(result, dict) and (result.get("success") is False or bool(result.get("error")))


def _names_nobody(made: dict[str, Any]) -> bool:
    return made.get("case") == "negative" and NOWHERE in (made.get("arguments") or {}).values()


def _reason(made: dict[str, Any]) -> str:
    result = made.get("result")
    inside = result.get("error") if isinstance(result, dict) else ""
    return str(inside or made.get("error") or "")


def _first(patch: list[Any]) -> str:
    return str(patch[0].get("path", "the state")) if isinstance(patch[0], dict) else "the state"


def broken_rule(tool: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Which rule that stands in an argument's own words was broken by a call that succeeded."""
    properties = (tool.get("parameters") or {}).get("properties") or {}
    for name, given in arguments.items():
        about = str((properties.get(name) or {}).get("description", ""))
        if isinstance(given, bool) or not isinstance(given, int | float):
            continue
        if "must be positive" in about and given <= 0:
            return f"{name} must be positive, but {given} was accepted."
        most = _MOST.search(about)
        if most and given > int(most[1]):
            return f"{name} is at most {most[1]}, but {given} was accepted."
    return ""


def writes(source: str) -> bool:
    """Whether a tool's source assigns to anything but plain names, or calls something that changes a collection."""
    try:
        nodes = list(ast.walk(parse(source)))
    except UNREADABLE:
        return False
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Subscript | ast.Attribute) for target in targets):
            return True
    return False
