"""Replies of the author of a theme at the stages of the variant `walk`, made from the theme's errands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted.errands import ERRANDS, WEAK
from synthesis.scripted.errands.errand import Said, find_errand, name_fields
from synthesis.scripted.errors import MissingReply
from synthesis.scripted.library import ThemeFiles
from synthesis.scripted.programs.prompt_reader import list_changed_places, parse_json, parse_rendered, read_prompt

ORDER = ("First, ", "Then, ", "After that, ", "Next, ", "Finally, ")
QUESTION = "What came of it?"
_DRAWN = re.compile(r"^\d+\. (\w+)\((.*)$")
_REFUSED = re.compile(r"^call (\d+), ")
_MADE = re.compile(r"^(t\d+) (\w+)\((\{.*?\})\) -> (.*)$")
_LISTED = re.compile(r"^(t\d+) (\w+): (.*)$")
_RESULT = re.compile(r"\br\b(?=\[)")
_GIVEN = re.compile(r"(?:^|\), )(\w+) = ")


def weak_edges(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the tools that the source may help as well."""
    fed = shelf.select_written(WEAK).get(read_prompt("tool_walk", "weak_edges", call)["source"], ())
    return json.dumps({"edges": [{"tool": tool, "parameter": place, "reason": "It may be."} for tool, place in fed]})


def review_walk(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the successful calls of a walk that have an errand, each once.

    A tool that changes the state is called only once, so that no call undoes another. If asked again, return the calls
    without the failed one.
    """
    again = parse_rendered(get_prompt("reply", "again"), call.messages[-1].content)
    refused = _REFUSED.search(again["reason"]) if again is not None else None
    if refused:
        calls = json.loads(call.messages[-2].content)["calls"]
        return json.dumps({"calls": [one for number, one in enumerate(calls, 1) if number != int(refused[1])]})
    chosen: dict[str, dict[str, Any]] = {}
    for tool, arguments in _read_walk(read_prompt("tool_walk", "review", call)["walk"]):
        errand = find_errand(tool, arguments, shelf.select_written(ERRANDS))
        if errand is not None:
            chosen.setdefault(
                tool if errand.errand.holds else errand.words, {"tool": tool, "arguments": dict(errand.arguments)}
            )
    return json.dumps({"calls": list(chosen.values()) or [{"tool": "nothing", "arguments": {}}]})


def draft(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the errands of a chain in words, one after the other."""
    errands = [
        _require_errand(shelf, tool, given)
        for tool, given in _read_chain(read_prompt("tool_walk", "draft", call)["chain"])
    ]
    return json.dumps({"title": _build_title(errands), "instruction": _join_in_order(errands)})


def final_query(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the same with the answer form."""
    errands = [one for one, _, _ in _read_trace(shelf, read_prompt("tool_walk", "query", call)["trace"])]
    form = [{**one.errand.asks, "name": one.field} for one in errands if one.errand.asks is not None]
    words = f"{_join_in_order(errands)} {QUESTION}"
    return json.dumps({"title": _build_title(errands), "instruction": words, "answer_form": form})


def ground_truth(shelf: ThemeFiles, call: StageCall) -> str:
    """Return code that computes the answer from the results."""
    trace = _read_trace(shelf, read_prompt("tool_walk", "ground_truth", call)["trace"])
    lines = [
        f"        {one.field!r}: {_RESULT.sub(f'results[{node!r}]', one.errand.told)},\n"
        for one, node, _ in trace
        if one.field
    ]
    return f"```python\ndef derive(results):\n    return {{\n{''.join(lines)}    }}\n```"


def hide(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the words without those that reveal their order."""
    words = read_prompt("tool_walk", "hide", call)["query"]
    for word in ORDER:
        words = words.replace(word, "")
    return json.dumps({"instruction": words})


def rubric(shelf: ThemeFiles, call: StageCall) -> str:
    """Return three criteria per field, a fact for each change, and one that nothing else was changed."""
    criteria: list[dict[str, str]] = []
    prompt_values = read_prompt("tool_walk", "rubric", call)
    for made_errand, _, result in _read_trace(shelf, prompt_values["trace"]):
        if made_errand.field:
            description = (made_errand.errand.asks or {})["description"]
            field_part = {"field": made_errand.field}
            criteria += [
                {"text": f"It is told: {description}.", "dimension": "completeness", **field_part},
                {"text": f"It has the right type: {description}.", "dimension": "schema", **field_part},
                {"text": f"It is right: {description}.", "dimension": "tolerance", **field_part},
            ]
        if made_errand.errand.holds:
            fact_values = (result if isinstance(result, dict) else {}) | dict(made_errand.arguments)
            criteria.append({"text": made_errand.errand.holds.format(**fact_values), "dimension": "fact"})
    if changed := list_changed_places(parse_json(prompt_values["changes"])):
        criteria.append({"text": f"Nothing but {', '.join(changed)} was changed.", "dimension": "fact"})
    return json.dumps({"criteria": criteria})


def _require_errand(shelf: ThemeFiles, tool: str, given: dict[str, Any]) -> Said:
    errand = find_errand(tool, given, shelf.select_written(ERRANDS))
    if errand is None:
        raise MissingReply(f"no errand of the theme {shelf.key!r} is for a call of {tool} with {given}")
    return errand


def _read_walk(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of a drawn walk that were not refused."""
    for line in text.splitlines():
        match = _DRAWN.match(line)
        if match and "REFUSED: " not in line:
            arguments, _ = json.JSONDecoder().raw_decode(match[2])
            yield match[1], arguments


def _read_chain(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of a chain as shown before they are executed."""
    for line in text.splitlines():
        listed = _LISTED.match(line)
        if listed:
            arguments = {}
            for match in _GIVEN.finditer(listed[3]):
                arguments[match[1]], _ = json.JSONDecoder().raw_decode(listed[3][match.end() :])
            yield listed[2], arguments


def _read_trace(shelf: ThemeFiles, text: str) -> list[tuple[Said, str, Any]]:
    """Return the errands of the calls that were made, each with its node and its result."""
    matches = [match for line in text.splitlines() if (match := _MADE.match(line))]
    named_errands = name_fields(_require_errand(shelf, match[2], json.loads(match[3])) for match in matches)
    return [(one, match[1], parse_json(match[4])) for one, match in zip(named_errands, matches, strict=True)]


def _join_in_order(said: list[Said]) -> str:
    return " ".join(f"{ORDER[min(place, len(ORDER) - 1)]}{one.words}" for place, one in enumerate(said))


def _build_title(said: list[Said]) -> str:
    return f"{len(said)} errands, from “{said[0].words[:60]}” on"


STAGES: dict[str, Callable[[ThemeFiles, StageCall], str]] = {
    "weak_edges": weak_edges,
    "review_walk": review_walk,
    "draft": draft,
    "final_query": final_query,
    "ground_truth": ground_truth,
    "hide": hide,
    "rubric": rubric,
}
