"""Variants of a reference's answer: the right value in other words, and answers that hedge, deny or choose another.

What an answer is about is read from the checks: the helper that reads `answer` names kind and value. Where none does,
the one value of the answer is taken; an answer with several then keeps its words. A task whose checks do not read the
answer has no variants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from synthesis.contracts import Reference, State
from synthesis.formats.transcript import told_user
from synthesis.runtime.child.answers.dates import DAYS
from synthesis.runtime.child.answers.opposites import contradiction
from synthesis.verifiers.answers.asked_values import AskedPlace, answer_value, asked_places, form_answer, form_types
from synthesis.verifiers.answers.spellings import other_values, plain, spellings
from synthesis.verifiers.mutants import Mutant

OTHER_ANSWER = "I have nothing to report."
MOST_ALTERED = 12
"""So many places of an answer are altered."""
_DIGITS = re.compile(r"\d+")
MOST_RECORDS = 5_000
"""So many records and lists of the state are looked through for other names."""


def altered(reference: Reference, checks: Sequence[str], labels: Sequence[str], initial: State) -> list[Mutant]:
    """The reference without an answer, with another, and with each value that was asked for altered: all earn less.

    `checks` are those that read the answer, `labels` their conditions in words.
    """
    text = reference.answer
    given = form_answer(text, checks)
    others = ["", *(_altered_forms(given) if given else ()), OTHER_ANSWER]
    for place in asked_places(text, checks, labels)[:MOST_ALTERED]:
        others += [text[: place.start] + other + text[place.end :] for other in _altered_values(text, place, initial)]
    return _mutants(reference, "answer_altered", "less", others)


def _altered_values(text: str, place: AskedPlace, initial: State) -> Iterator[str]:
    """Each number of a value raised by one; a name without any gives way to another of its kind."""
    said = text[place.start : place.end]
    for match in _DIGITS.finditer(said):
        yield said[: match.start()] + _raised(match.group()) + said[match.end() :]
    if place.name and not _DIGITS.search(said):
        yield from _neighbours(initial, place.name)[:1]


def _altered_forms(given: dict[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        if isinstance(value, bool | list | dict) or value is None:
            continue
        for match in _DIGITS.finditer(said := str(value)):
            changed = said[: match.start()] + _raised(match.group()) + said[match.end() :]
            yield json.dumps({**given, name: type(value)(changed)})


def _raised(digits: str) -> str:
    return str(int(digits) + 1).zfill(len(digits))


def respelled(reference: Reference, checks: Sequence[str], labels: Sequence[str] = ()) -> list[Mutant]:
    """The reference with its right answer in other words: each must earn what the reference earns."""
    text = reference.answer.strip()
    if not text:
        return []
    given = form_answer(text, checks)
    if given is not None:
        return _mutants(reference, "answer_respelled", "full", _forms(given))
    bare = text.rstrip(".")
    others = [f"Done. {text}", f"{text} Everything else is as it was.", f"**{bare}**", f"Answer: {text}", f"{text}\n"]
    one = answer_value(reference.answer, checks, labels)
    if one is not None:
        written = text[one.start : one.end]
        # Nobody writes L-two for L-2.
        code = one.kind == "number" and text[: one.start][-1:] in ("-", "#", "/")
        spelled = [form for form in spellings(one.kind, one.value, one.currency) if form != written and not code]
        others += [text[: one.start] + form + text[one.end :] for form in spelled]
        others += [form for form in spelled[:2] if one.kind != "number"]
        others.append(written)
    return _mutants(reference, "answer_respelled", "full", others)


CLOSINGS = (
    ("Is there anything else I can help you with?",),
    ("You are welcome. Have a nice day!",),
    ("Yes, that is right.", "Thank you, goodbye!"),
)
"""What an agent says in a conversation after it has answered."""
OPENING = "Let me look into that for you."


def conversed(reference: Reference) -> list[Mutant]:
    """The reference with its answer said first and something after it, as a conversation is read: who answers first and
    says goodbye later must earn what the reference earns."""
    text = reference.answer.strip()
    if not text:
        return []
    told = [told_user([text, *closing], conversational=True) for closing in CLOSINGS]
    told.append(told_user([OPENING, text, *CLOSINGS[0]], conversational=True))
    return _mutants(reference, "answer_respelled", "full", told)


def contrary(reference: Reference, checks: Sequence[str], initial: State, labels: Sequence[str] = ()) -> list[Mutant]:
    """The reference with an answer that hedges, denies the right value, or offers it among others: all earn less."""
    text = reference.answer.strip()
    given = form_answer(text, checks)
    if given is not None:
        return _mutants(reference, "answer_contrary", "less", _false_forms(given, form_types(checks)))
    one = answer_value(reference.answer, checks, labels) if text else None
    if one is None:
        return []
    right = text[one.start : one.end]
    names = _neighbours(initial, one.value) if one.kind == "name" else []
    wrong = [plain(one.kind, value, right, one.currency) for value in other_values(one.kind, one.value, names)]
    before, after = text[: one.start], text[one.end :]
    others = [f"{before}maybe {right}{after}", f"It is not {right}.", f"I think {right} is wrong."]
    if word := contradiction(one.hints):
        others.append(f"{right} {word}.")
    if one.weekday is not None:
        others.append(f"{DAYS[(one.weekday + 1) % 7].capitalize()}, {right}.")
    for other in wrong:
        others += [
            f"{before}{right} or {other}{after}",
            f"{before}{other} or {right}{after}",
            f"{before}either {right} or {other}{after}",
            f"Not {right} but {other}.",
            f"{before}{other}{after.rstrip('.')}, not {right}.",
            f"It is not {right}; it is {other}.",
        ]
    if len(wrong) == 2:
        others.append(f"{before}{wrong[0]}, {right} or {wrong[1]}{after}")
    return _mutants(reference, "answer_contrary", "less", others)


def _forms(given: dict[str, Any]) -> list[str]:
    """The same fields in other layouts, with words around them."""
    text, turned = json.dumps(given), json.dumps(dict(reversed(given.items())))
    listed = {name: ", ".join(value) if isinstance(value, list) else value for name, value in given.items()}
    lines = [f"{name}: {value}" for name, value in listed.items()]
    named = [f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in listed.items()]
    block = f"Done.\n\n```json\n{json.dumps(given, indent=2)}\n```"
    return [
        text,
        turned,
        block,
        f"Here it is: {text}",
        "\n".join(lines),
        "\n".join(named),
        "\n".join(f"- **{line}" for line in _bold(lines)),
    ]


def _bold(lines: list[str]) -> Iterator[str]:
    return (line.replace(": ", "**: ", 1) for line in lines)


def _false_forms(given: dict[str, Any], types: dict[str, Any]) -> list[str]:
    """One field left out, hedged, or given twice; two of a type in each other's place; and no form at all."""
    found = ["All is done.", "{}"]
    for one, other in combinations(given, 2):
        if types.get(one) == types.get(other) and given[one] != given[other]:
            found.append(json.dumps({**given, one: given[other], other: given[one]}))
    for name, value in given.items():
        hedged = [*value, "and more"] if isinstance(value, list) else f"{value} or another"
        found.append(json.dumps({key: item for key, item in given.items() if key != name}))
        found.append(json.dumps({**given, name: hedged}))
        found.append(f"{json.dumps(given)[:-1]}, {json.dumps(name)}: null}}")
    return found


def _mutants(reference: Reference, kind: Any, expects: Any, answers: Sequence[str]) -> list[Mutant]:
    distinct = [answer for answer in dict.fromkeys(answers) if answer != reference.answer]
    return [
        Mutant(
            kind=kind,
            before=reference.answer,
            after=answer,
            reference=reference.model_copy(update={"answer": answer}),
            expects=expects,
        )
        for answer in distinct
    ]


def _neighbours(initial: State, value: str) -> list[str]:
    """What stands in the place of this value in the records beside the one that holds it: other people's names."""
    found: set[str] = set()
    waiting: list[Any] = [initial]
    for _ in range(MOST_RECORDS):
        if not waiting:
            break
        item = waiting.pop()
        inner = list(item.values()) if isinstance(item, dict) else item
        records = [record for record in inner if isinstance(record, dict)]
        fields = {key for record in records for key, held in record.items() if held == value}
        found |= {record[key] for record in records for key in fields if isinstance(record.get(key), str)}
        waiting += [part for part in inner if isinstance(part, dict | list)]
    own = set(value.lower().split())
    return sorted(name for name in found if not own & set(name.lower().split()))
