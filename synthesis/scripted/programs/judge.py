"""Judge of recorded attempts and of themes.

It decides if a task was possible at all, which statements of a user were wrong or omitted, if criteria are met, and if
two themes are one. It reads the evidence in its prompt and takes no word in it for a verdict.
"""

from __future__ import annotations

import json
import re
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.rollout.user import STOP
from synthesis.scripted.programs.prompt_reader import list_changed_places, parse_json, parse_rendered
from synthesis.scripted.programs.theme_reader import compare_themes, group_listed_themes
from synthesis.scripted.programs.user import split_sentences

_FACT = re.compile(r"\b[A-Z]-?\d+\b|\b\d[\d:.-]*\b|\b[A-Z][a-z]{2,}\b")
QUOTED = 200
_HOLDS = re.compile(r"\bnow\.$")
_ALONE = re.compile(r"^Nothing but (.+) was changed\.$")
_PLAIN_WORD = re.compile(r"(?<![\w-])[a-z]{4,}\b")
_NOT = re.compile(r"\b(there is no|does not exist|cannot be done)\b", re.IGNORECASE)
PLAIN = frozenset(("That", "Thank", "The", "Please", "Put", "Write", "Carry", "Hello", "Yes", "Then", "Tell", "How"))
"""Words that begin a sentence and name nothing."""


def write_reply(call: StageCall) -> str:
    """Return the reply to one of `themes/same_theme`, `like_themes`, `teaching/possible`, `judge/user_faults`,
    `rubric`.
    """
    text = call.messages[0].content
    themes = parse_rendered(get_prompt("themes", "same_theme"), text)
    if themes is not None:
        return json.dumps(compare_themes(themes["first"], themes["second"]))
    many = parse_rendered(get_prompt("themes", "like_themes"), text)
    if many is not None:
        return json.dumps(group_listed_themes(many["themes"]))
    talk = parse_rendered(get_prompt("judge", "user_faults"), text)
    if talk is not None:
        lines = _parse_lines(talk["talk"])
        mistakes = [*find_inventions(lines), *find_omissions(lines)]
        return json.dumps({"mistakes": mistakes, "erred": bool(mistakes)})
    recording = parse_rendered(get_prompt("teaching", "possible"), text)
    if recording is not None:
        return json.dumps(judge_possible(_parse_lines(recording["recording"])))
    return json.dumps(judge_criteria(parse_rendered(get_prompt("judge", "rubric"), text) or {}))


def _parse_lines(text: str) -> list[dict[str, Any]]:
    parsed = [parse_json(line) for line in text.splitlines()]
    return [line for line in parsed if isinstance(line, dict)]


def find_inventions(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the user's sentences with a name, number or id that neither the intent nor the assistant had mentioned."""
    known_text = " ".join(str(line["intent"]) for line in lines if "intent" in line)
    inventions = []
    for line in lines:
        words = str(line.get("words", ""))
        if line.get("who") == "user":
            inventions += [
                {"rule": 2, "line": line["line"], "quote": part, "intent": "", "reason": f"Nobody knows {new[0]}."}
                for part in split_sentences(words)
                if (new := _find_new_facts(part, known_text))
            ]
        known_text += f" {words}"
    return inventions


def find_omissions(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sentences of the intent with a name, number or id that was not mentioned.

    Only if the user ended a talk in which the assistant asked for something.
    """
    intent = " ".join(str(line["intent"]) for line in lines if "intent" in line)
    said_text = " ".join(str(line.get("words", "")) for line in lines)
    has_question = any(line.get("who") == "assistant" and "?" in str(line.get("words")) for line in lines)
    last: dict[str, Any] = next((line for line in reversed(lines) if line.get("who") == "user"), {})
    if not has_question or STOP not in str(last.get("words")):
        return []
    return [
        {"rule": 3, "line": last["line"], "quote": STOP, "intent": part, "reason": f"It never says {new[0]}."}
        for part in split_sentences(intent)
        if (new := _find_new_facts(part, said_text))
    ]


def _find_new_facts(part: str, known: str) -> list[str]:
    facts = [fact.rstrip(".:-") for fact in _FACT.findall(part)]
    return [fact for fact in facts if fact not in PLAIN and fact.casefold() not in known.casefold()]


def judge_possible(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the verdict: a task is impossible only if the agent reported so after its last call had been refused."""
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


def judge_criteria(shown: dict[str, str]) -> dict[str, Any]:
    """Return the verdicts on criteria.

    A criterion is met if its names and numbers occur in the changes or in the answer; one on a fact that holds now, if
    one change contains them and its plain words; one that nothing else was changed, if that is so.
    """
    listed = re.findall(r"^\d+\. (.*)$", shown.get("criteria", ""), re.MULTILINE)
    evidence = f"{shown.get('facts', '')} {shown.get('answer', '')}".casefold()
    verdicts = []
    for number, text in enumerate(listed, 1):
        facts = [fact for fact in _FACT.findall(text) if fact not in PLAIN]
        alone = _ALONE.match(text)
        if alone:
            missing = sorted(set(list_changed_places(parse_json(shown.get("facts", "")))) - set(alone[1].split(", ")))
        elif _HOLDS.search(text):
            missing = _find_missing_words(facts + _PLAIN_WORD.findall(text), parse_json(shown.get("facts", "")))
        else:
            missing = [fact for fact in facts if fact.casefold() not in evidence]
        met = bool(facts) and not missing
        reason = (
            "Every name and number of it stands in the evidence."
            if met
            else f"{'Changed' if alone else 'Missing'}: {', '.join(missing) or 'any fact'}."
        )
        quote = " ".join(shown.get("calls", "").split())[:QUOTED]
        verdicts.append({"criterion": number, "quote": quote, "reason": reason, "passed": met})
    return {"verdicts": verdicts}


def _find_missing_words(words: list[str], changes: Any) -> list[str]:
    """Return the words that no single change contains together; for the change with most of them, those that it
    lacks."""
    change_texts = [json.dumps(change) for change in changes] if isinstance(changes, list) else []
    lacks = [
        [word for word in words if not re.search(rf"(?<![A-Za-z0-9-]){re.escape(word)}(?![0-9-])", one)]
        for one in change_texts
    ]
    return min(lacks, key=len, default=words)
