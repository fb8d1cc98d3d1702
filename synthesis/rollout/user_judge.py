"""A judge of the simulated user (AutoForge 3.4, A.1): it sees the intent and the talk alone, and quotes each mistake.

Of a user with tools of its own it also sees what they returned, without which nobody could tell what the user knew
(ours: A.1 shows the talk alone). Neither the agent's calls nor states nor rewards are shown to it, so that its verdict
cannot follow from whether the task was solved. Code looks every quote up in the line that it is said to be from. A
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
from synthesis.llm.structured import again, json_form, reason_of
from synthesis.prompts import fenced, hashes, prompt, with_form
from synthesis.rollout.user import STOP
from synthesis.verifiers.rubric import question_hash

TRIES = 3
REPLY_CHARS = 100_000
REASON_CHARS = 2_000
MOST_MISTAKES = 50
FEWEST_QUOTED = 3
"""Characters of a quote, unless its line is shorter."""
EVIDENCE_CHARS = 60_000
TOOL_CHARS = 4_000
"""So much is told of the arguments of a user's call, and of what it returned."""
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
"""Words that state nothing and agree to nothing by themselves, so that they may stand around what is said."""


class FoundMistake(BaseModel):
    """One mistake as a judge tells it."""

    rule: StrictInt = Field(ge=1, le=3)
    line: StrictInt
    quote: str = Field(min_length=1, max_length=REASON_CHARS)
    intent: str = Field(default="", max_length=REASON_CHARS)
    reason: str = Field(default="", max_length=REASON_CHARS)


class UserFaultsReply(BaseModel):
    """Every mistake of the user; `erred` says whether there is one."""

    mistakes: list[FoundMistake] = Field(max_length=MOST_MISTAKES)
    erred: StrictBool


def list_talk(steps: Iterable[TrajectoryStep]) -> list[tuple[str, str]]:
    """Return what user and assistant said to each other, in order, and between it what the user's own calls returned to
    it. Words beside a call reach nobody."""
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

    Nobody is asked if the user said its whole intent word for word and nothing else, and called no tools of its own. A
    reply that cannot be used is asked for again, `tries` times in all; then the finding is `unknown`. Raises LLMError:
    the judge could not be asked.
    """
    if not has_tool_lines(talk) and is_recited(intent, talk):
        return UserVerdict(finding="none")
    words = spell_question(intent, talk)
    question = question_hash([("user", words)])
    asked, wrong = Message(role="user", content=words), ""
    messages = [asked]
    for number in range(1, tries + 1):
        reply = await judge.complete(messages, temperature=0.0)
        try:
            mistakes = read_mistakes(reply.message.content, intent, talk)
        except InputError as error:
            wrong = reason_of(reply, error)
            messages = [asked, *again(reply.message, wrong, number)]
            continue
        finding = "fault" if mistakes else "none"
        return UserVerdict(finding=finding, mistakes=mistakes, judge=judge.name, question=question)
    note = f"The judge {judge.name} gave no usable verdict in {tries} replies: {wrong}"[:REASON_CHARS]
    return UserVerdict(finding="unknown", judge=judge.name, question=question, note=note)


def spell_question(intent: str, talk: Talk) -> str:
    """Return what the judge is asked, with the form of its reply."""
    lines = [{"intent": intent}] + [{"line": n, "who": who, "words": words} for n, (who, words) in enumerate(talk, 1)]
    words = prompt("judge", "user_faults").render(talk=fenced("evidence", join_lines(lines)))
    if has_tool_lines(talk):
        words = f"{words}\n\n{prompt('judge', 'user_tools').render()}"
    return with_form(words, json_form(UserFaultsReply))


def has_tool_lines(talk: Talk) -> bool:
    """Return whether the user of a talk called tools of its own."""
    return any(who == TOOL for who, _ in talk)


def user_prompts(talk: Talk) -> dict[str, str]:
    """Return the prompts behind a verdict on a talk with their SHA-256."""
    names = ("user_faults", "user_tools") if has_tool_lines(talk) else ("user_faults",)
    return hashes(*(prompt("judge", name) for name in names))


def read_mistakes(text: str, intent: str, talk: Talk) -> tuple[UserMistake, ...]:
    """Return the mistakes in a judge's reply, each quote looked up. Raises InputError with what is wrong."""
    if len(text) > REPLY_CHARS:
        raise InputError(f"it is longer than {REPLY_CHARS:,} characters")
    reply = read_object(text, UserFaultsReply).value
    if reply.erred != bool(reply.mistakes):
        raise InputError("`erred` must be true if a mistake is listed, and false if none is")
    for found in reply.mistakes:
        _require_evidence(found, intent, talk)
    return tuple(UserMistake.model_validate(found.model_dump()) for found in reply.mistakes)


def _require_evidence(found: FoundMistake, intent: str, talk: Talk) -> None:
    """Raise InputError if a mistake's quotes do not stand where it says, or are no evidence of it."""
    who, spoken = talk[found.line - 1] if 0 < found.line <= len(talk) else ("nobody", "")
    if who != "user":
        raise InputError(f"line {found.line} is none of the user's")
    told = [words for who, words in talk[: found.line - 1] if who == TOOL]
    quote, part, known = _plain(found.quote), _plain(found.intent), _plain("\n".join([intent, *told]))
    if len(quote) < min(FEWEST_QUOTED, len(_plain(spoken))) or quote not in _plain(spoken):
        raise InputError(f"`quote` does not stand in line {found.line}, letter by letter: {found.quote[:200]!r}")
    if found.rule == 2:
        if quote in known:
            raise InputError(f"rule 2 does not fit line {found.line}: the intent holds the words {found.quote[:200]!r}")
        return
    if not part or part not in known:
        raise InputError(
            f"rule {found.rule} needs the words of the intent that line {found.line} contradicts or leaves out, letter "
            f"by letter: {found.intent[:200]!r} does not stand there"
        )
    if found.rule == 1 and part in quote:
        raise InputError(
            f"rule 1 does not fit line {found.line}: it says what the intent says ({found.intent[:200]!r})"
        )


def is_recited(intent: str, talk: Talk) -> bool:
    """Tell whether the user said each clause of its intent, word for word, and nothing else but words of courtesy.

    Whole clauses are compared, so that neither a negation nor a condition can get lost inside of one. Who said this has
    contradicted nothing, invented nothing and left nothing out.
    """
    said = {clause for who, words in talk if who == "user" for clause in _clauses(words.replace(STOP, " "))}
    return said == set(_clauses(intent))


def join_lines(lines: Sequence[dict[str, Any]]) -> str:
    """Spell evidence, one JSON object a line; of a long one the middle is left out, and it says so."""
    spelled = [json.dumps(line, ensure_ascii=False) for line in lines]
    while len(spelled) > 3 and sum(map(len, spelled)) > EVIDENCE_CHARS:
        spelled.pop(len(spelled) // 2)
    if len(spelled) < len(lines):
        spelled.insert(len(spelled) // 2, json.dumps({"left_out": f"{len(lines) - len(spelled)} lines"}))
    return "\n".join(spelled)


def _clauses(text: str) -> list[str]:
    """Return the clauses of a text in small letters, without the words of courtesy around them."""
    found = []
    for clause in _CLAUSE_ENDS.split(text):
        words = _SIGNS.sub(" ", clause).casefold().split()
        while words and words[0] in _COURTESY:
            words = words[1:]
        while words and words[-1] in _COURTESY:
            words = words[:-1]
        found.append(" ".join(words))
    return [clause for clause in found if clause]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
