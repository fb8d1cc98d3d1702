"""The judge: whether a recorded task was possible at all, what a user said wrong or left out, whether criteria are met,
and whether two themes are one.

It reads the evidence that its prompt shows and takes no word in it for a verdict.
"""

from __future__ import annotations

import json
import re
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.rollout.user import STOP
from synthesis.scripted.programs.prompt_reader import as_json, unrendered
from synthesis.scripted.programs.theme_reader import compared, listed
from synthesis.scripted.programs.user import sentences

_FACT = re.compile(r"\b[A-Z]-?\d+\b|\b\d[\d:.-]*\b|\b[A-Z][a-z]{2,}\b")
QUOTED = 200
_NOT = re.compile(r"\b(there is no|does not exist|cannot be done)\b", re.IGNORECASE)
PLAIN = frozenset(("That", "Thank", "The", "Please", "Put", "Write", "Carry", "Hello", "Yes", "Then", "Tell", "How"))
"""Words that begin a sentence and name nothing."""


def answer(call: StageCall) -> str:
    """The reply to one of `themes/same_theme`, `like_themes`, `teaching/possible`, `judge/user_faults`, `rubric`."""
    text = call.messages[0].content
    themes = unrendered(prompt("themes", "same_theme"), text)
    if themes is not None:
        return json.dumps(compared(themes["first"], themes["second"]))
    many = unrendered(prompt("themes", "like_themes"), text)
    if many is not None:
        return json.dumps(listed(many["themes"]))
    talk = unrendered(prompt("judge", "user_faults"), text)
    if talk is not None:
        lines = _lines(talk["talk"])
        mistakes = [*find_inventions(lines), *find_omissions(lines)]
        return json.dumps({"mistakes": mistakes, "erred": bool(mistakes)})
    recording = unrendered(prompt("teaching", "possible"), text)
    if recording is not None:
        return json.dumps(possible(_lines(recording["recording"])))
    return json.dumps(criteria(unrendered(prompt("judge", "rubric"), text) or {}))


def _lines(text: str) -> list[dict[str, Any]]:
    parsed = [as_json(line) for line in text.splitlines()]
    return [line for line in parsed if isinstance(line, dict)]


def find_inventions(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the user's sentences with a name, number or id that neither the intent nor the assistant had said."""
    known = " ".join(str(line["intent"]) for line in lines if "intent" in line)
    inventions = []
    for line in lines:
        words = str(line.get("words", ""))
        if line.get("who") == "user":
            inventions += [
                {"rule": 2, "line": line["line"], "quote": part, "intent": "", "reason": f"Nobody knows {new[0]}."}
                for part in sentences(words)
                if (new := _new(part, known))
            ]
        known += f" {words}"
    return inventions


def find_omissions(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sentences of the intent with a name, number or id that nobody had said when the user ended a talk in
    which the assistant asked for something."""
    intent = " ".join(str(line["intent"]) for line in lines if "intent" in line)
    said = " ".join(str(line.get("words", "")) for line in lines)
    asked = any(line.get("who") == "assistant" and "?" in str(line.get("words")) for line in lines)
    last: dict[str, Any] = next((line for line in reversed(lines) if line.get("who") == "user"), {})
    if not asked or STOP not in str(last.get("words")):
        return []
    return [
        {"rule": 3, "line": last["line"], "quote": STOP, "intent": part, "reason": f"It never says {new[0]}."}
        for part in sentences(intent)
        if (new := _new(part, said))
    ]


def _new(part: str, known: str) -> list[str]:
    facts = [fact.rstrip(".:-") for fact in _FACT.findall(part)]
    return [fact for fact in facts if fact not in PLAIN and fact.casefold() not in known.casefold()]


def possible(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A task is impossible only where the agent said so after its last call had been refused."""
    calls = [line for line in lines if "call" in line]
    replies = [str(line.get("said", "")) for line in lines if line.get("who") == "agent"]
    refused = bool(calls) and "'success': False" in str(calls[-1].get("returned", ""))
    if refused and replies and _NOT.search(replies[-1]):
        return {
            "reason": f"The last call was refused and the agent found no other way: {replies[-1][:200]}",
            "possible": False,
        }
    reason = f"{len(calls)} calls were made, and nothing in what they returned rules the task out."
    return {"reason": reason, "possible": True}


def criteria(shown: dict[str, str]) -> dict[str, Any]:
    """A criterion is met if its names and numbers stand in what changed or in the answer."""
    listed = re.findall(r"^\d+\. (.*)$", shown.get("criteria", ""), re.MULTILINE)
    evidence = f"{shown.get('facts', '')} {shown.get('answer', '')}".casefold()
    verdicts = []
    for number, text in enumerate(listed, 1):
        wanted = [fact for fact in _FACT.findall(text) if fact not in PLAIN]
        missing = [fact for fact in wanted if fact.casefold() not in evidence]
        met = bool(wanted) and not missing
        reason = (
            "Every name and number of it stands in the evidence."
            if met
            else f"Missing: {', '.join(missing) or 'any fact'}."
        )
        quote = " ".join(shown.get("calls", "").split())[:QUOTED]
        verdicts.append({"criterion": number, "quote": quote, "reason": reason, "passed": met})
    return {"verdicts": verdicts}
