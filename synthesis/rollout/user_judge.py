"""A judge of the simulated user (AutoForge 3.4, A.1): it sees the intent and the talk alone, and quotes each mistake.

For a user with tools of its own it also sees their results, without which it could not decide what the user knew (an
addition of this project: A.1 shows the talk alone). The agent's calls, states and rewards are hidden from it, so that
its verdict cannot follow from the success of the task. Code looks up every quote in the line that the judge names. A
verdict that cannot be used is `unknown`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, Field, StrictBool, StrictInt

from synthesis.contracts import Message, TrajectoryStep, UserMistake, UserRule, UserVerdict
from synthesis.errors import InputError
from synthesis.llm import ChatModel
from synthesis.llm.reply_reader import read_object
from synthesis.llm.structured import build_json_form, build_retry_messages, find_failure_reason
from synthesis.prompts import fence_text, get_prompt, insert_form, map_prompt_hashes
from synthesis.rollout.user import STOP
from synthesis.verifiers.rubric import hash_question

TRIES = 3
REPLY_CHARS = 100_000
REASON_CHARS = 2_000
MOST_MISTAKES = 50
FEWEST_QUOTED = 3
"""Characters of a quote, unless its line is shorter."""
EVIDENCE_CHARS = 60_000
TOOL_CHARS = 4_000
"""Characters that are shown of the arguments of a user's call, and of its result."""
Talk = Sequence[tuple[str, str]]
"""Who spoke (`user`, `assistant`, or a `tool` to the user) and the words, line by line."""
TOOL = "tool"
RULES: dict[UserRule, str] = {1: "contradicts its intent", 2: "invents", 3: "leaves out"}
"""What a user does who breaks a rule of A.1, in words for lists."""
_CLAUSE_ENDS = re.compile(r"[.,;:!?\n]+(?:\s|$)")
_SIGNS = re.compile(r"[^\w\s]+")
_COURTESY_WORDS = (
    "a all also and bye can could everything for good hello hi is it many my of one please so thank thanks that the "
    "then this very wanted welcome with would you your i"
)
_COURTESY = frozenset(_COURTESY_WORDS.split())
"""Words that state nothing and agree to nothing by themselves, so that they may surround what is said."""


class FoundMistake(BaseModel):
    """One mistake in a judge's reply."""

    rule: StrictInt = Field(ge=1, le=3)
    line: StrictInt
    quote: str = Field(min_length=1, max_length=REASON_CHARS)
    intent: str = Field(default="", max_length=REASON_CHARS)
    reason: str = Field(default="", max_length=REASON_CHARS)


class UserFaultsReply(BaseModel):
    """Every mistake of the user; `erred` is true if there is one."""

    mistakes: list[FoundMistake] = Field(max_length=MOST_MISTAKES)
    erred: StrictBool


def list_talk(steps: Iterable[TrajectoryStep]) -> list[tuple[str, str]]:
    """Return the words of user and assistant, in order, with the results of the user's own calls in between.

    Words beside a call are left out, since they reach neither party.
    """
    turns: list[tuple[str, str]] = []
    for step in steps:
        if step.kind != "call":
            turns.append(("user" if step.kind == "user" else "assistant", step.content.strip()))
        elif step.by == "user":
            turns.append((TOOL, _spell_user_call(step)))
    return [(who, words) for who, words in turns if words]


def _spell_user_call(step: TrajectoryStep) -> str:
    given = json.dumps(step.arguments, ensure_ascii=False)
    read = step.observation.strip() or "(nothing)"
    parts = (text if len(text) <= TOOL_CHARS else f"{text[:TOOL_CHARS]}… (cut)" for text in (given, read))
    return f"{step.tool} {' returned: '.join(parts)}"


async def judge_user(judge: ChatModel, intent: str, talk: Talk, tries: int = TRIES) -> UserVerdict:
    """Return whether the user of a conversation made a mistake.

    The judge is not asked if the user said its whole intent word for word and nothing else, and called no tools of its
    own. A reply that cannot be used is requested again, `tries` times in all; then the finding is `unknown`. Raise
    LLMError if the judge could not be asked.
    """
    if not has_tool_lines(talk) and is_recited(intent, talk):
        return UserVerdict(finding="none")
    words = spell_question(intent, talk)
    question = hash_question([("user", words)])
    asked, wrong = Message(role="user", content=words), ""
    messages = [asked]
    for number in range(1, tries + 1):
        reply = await judge.complete(messages, temperature=0.0)
        try:
            mistakes = read_mistakes(reply.message.content, intent, talk)
        except InputError as error:
            wrong = find_failure_reason(reply, error)
            messages = [asked, *build_retry_messages(reply.message, wrong, number)]
            continue
        finding = "fault" if mistakes else "none"
        return UserVerdict(finding=finding, mistakes=mistakes, judge=judge.name, question=question)
    note = f"The judge {judge.name} gave no usable verdict in {tries} replies: {wrong}"[:REASON_CHARS]
    return UserVerdict(finding="unknown", judge=judge.name, question=question, note=note)


def spell_question(intent: str, talk: Talk) -> str:
    """Return the question to the judge, with the form of its reply."""
    lines = [{"intent": intent}] + [{"line": n, "who": who, "words": words} for n, (who, words) in enumerate(talk, 1)]
    words = get_prompt("judge", "user_faults").render(talk=fence_text("evidence", join_lines(lines)))
    if has_tool_lines(talk):
        words = f"{words}\n\n{get_prompt('judge', 'user_tools').render()}"
    return insert_form(words, build_json_form(UserFaultsReply))


def has_tool_lines(talk: Talk) -> bool:
    """Return whether the user of a talk called tools of its own."""
    return any(who == TOOL for who, _ in talk)


def list_user_prompts(talk: Talk) -> dict[str, str]:
    """Return the prompts behind a verdict on a talk with their SHA-256."""
    names = ("user_faults", "user_tools") if has_tool_lines(talk) else ("user_faults",)
    return map_prompt_hashes(*(get_prompt("judge", name) for name in names))


def read_mistakes(text: str, intent: str, talk: Talk) -> tuple[UserMistake, ...]:
    """Return the mistakes in a judge's reply, each quote looked up. Raise InputError with the reason."""
    if len(text) > REPLY_CHARS:
        raise InputError(f"it is longer than {REPLY_CHARS:,} characters")
    reply = read_object(text, UserFaultsReply).value
    if reply.erred != bool(reply.mistakes):
        raise InputError("`erred` must be true if a mistake is listed, and false if none is")
    for found in reply.mistakes:
        _require_evidence(found, intent, talk)
    return tuple(UserMistake.model_validate(found.model_dump()) for found in reply.mistakes)


def _require_evidence(found: FoundMistake, intent: str, talk: Talk) -> None:
    """Raise InputError if a mistake's quotes are not in the named line, or are no evidence of it."""
    who, spoken = talk[found.line - 1] if 0 < found.line <= len(talk) else ("nobody", "")
    if who != "user":
        raise InputError(f"line {found.line} is none of the user's")
    tool_words = [words for who, words in talk[: found.line - 1] if who == TOOL]
    quote, part, known_text = (
        _normalize_text(found.quote),
        _normalize_text(found.intent),
        _normalize_text("\n".join([intent, *tool_words])),
    )
    if len(quote) < min(FEWEST_QUOTED, len(_normalize_text(spoken))) or quote not in _normalize_text(spoken):
        raise InputError(f"`quote` does not stand in line {found.line}, letter by letter: {found.quote[:200]!r}")
    if found.rule == 2:
        if quote in known_text:
            raise InputError(f"rule 2 does not fit line {found.line}: the intent holds the words {found.quote[:200]!r}")
        return
    if not part or part not in known_text:
        raise InputError(
            f"rule {found.rule} needs the words of the intent that line {found.line} contradicts or leaves out, letter "
            f"by letter: {found.intent[:200]!r} does not stand there"
        )
    if found.rule == 1 and part in quote:
        raise InputError(
            f"rule 1 does not fit line {found.line}: it says what the intent says ({found.intent[:200]!r})"
        )


def is_recited(intent: str, talk: Talk) -> bool:
    """Return whether the user said each clause of its intent, word for word, and nothing else but words of courtesy.

    Whole clauses are compared, so that neither a negation nor a condition can get lost inside of one. Such a user has
    contradicted nothing, invented nothing and left nothing out.
    """
    spoken_clauses = {
        clause for who, words in talk if who == "user" for clause in _split_clauses(words.replace(STOP, " "))
    }
    return spoken_clauses == set(_split_clauses(intent))


def join_lines(lines: Sequence[dict[str, Any]]) -> str:
    """Return evidence as text, one JSON object a line; of a long one the middle is left out, with a note."""
    spelled = [json.dumps(line, ensure_ascii=False) for line in lines]
    while len(spelled) > 3 and sum(map(len, spelled)) > EVIDENCE_CHARS:
        spelled.pop(len(spelled) // 2)
    if len(spelled) < len(lines):
        spelled.insert(len(spelled) // 2, json.dumps({"left_out": f"{len(lines) - len(spelled)} lines"}))
    return "\n".join(spelled)


def _split_clauses(text: str) -> list[str]:
    """Return the clauses of a text in lower case, without the words of courtesy around them."""
    clauses = []
    for clause in _CLAUSE_ENDS.split(text):
        words = _SIGNS.sub(" ", clause).casefold().split()
        while words and words[0] in _COURTESY:
            words = words[1:]
        while words and words[-1] in _COURTESY:
            words = words[:-1]
        clauses.append(" ".join(words))
    return [clause for clause in clauses if clause]


def _normalize_text(text: str) -> str:
    return " ".join(text.split()).casefold()
