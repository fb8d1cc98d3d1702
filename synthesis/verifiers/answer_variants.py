"""Variants of a reference's answer: the right value in other words, and answers that hedge, deny or choose another.

What an answer is about is read from the checks: the helper that reads `answer` names kind and value. Where none does,
the one value of the answer is taken; an answer with several then keeps its words. A task whose checks do not read the
answer has no variants.
"""

from __future__ import annotations

import ast
import datetime
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

from synthesis.contracts import Reference, State
from synthesis.runtime.child.answers import labels, quantities
from synthesis.runtime.child.answers.clock_times import clock_times
from synthesis.runtime.child.answers.dates import DAYS, dates
from synthesis.runtime.child.answers.fields import raw_fields
from synthesis.runtime.child.answers.helpers import units_of
from synthesis.runtime.child.answers.opposites import contradiction
from synthesis.runtime.child.answers.statements import Candidate, CannotTell
from synthesis.runtime.child.answers.tokens import MOST_CHARS, Token, cut
from synthesis.syntax import UNREADABLE, parse
from synthesis.verifiers.mutants import Mutant
from synthesis.verifiers.spellings import other_values, plain, spellings

KINDS = {
    "says_number": "number",
    "says_money": "money",
    "says_duration": "duration",
    "says_time": "time",
    "says_date": "date",
    "says_name": "name",
}
"""The helper that reads each kind of value."""
MOST_RECORDS = 5_000
"""So many records and lists of the state are looked through for other names."""


@dataclass(frozen=True)
class AnswerValue:
    """A value that an answer must say. `start` and `end` are its place in the answer's text, after normalising.

    `hints` are the words by which its check knows what was asked, `weekday` is that of its day where the check knows.
    """

    kind: str
    value: Any
    start: int
    end: int
    currency: str = ""
    hints: tuple[str, ...] = ()
    weekday: int | None = None


def respelled(reference: Reference, checks: Sequence[str]) -> list[Mutant]:
    """The reference with its right answer in other words: each must earn what the reference earns."""
    text = reference.answer.strip()
    if not text:
        return []
    given = form_answer(text, checks)
    if given is not None:
        return _mutants(reference, "answer_respelled", "full", _forms(given))
    bare = text.rstrip(".")
    others = [f"Done. {text}", f"{text} Everything else is as it was.", f"**{bare}**", f"Answer: {text}", f"{text}\n"]
    one = answer_value(reference.answer, checks)
    if one is not None:
        written = text[one.start : one.end]
        # Nobody writes L-two for L-2.
        code = one.kind == "number" and text[: one.start][-1:] in ("-", "#", "/")
        spelled = [form for form in spellings(one.kind, one.value, one.currency) if form != written and not code]
        others += [text[: one.start] + form + text[one.end :] for form in spelled]
        others += [form for form in spelled[:2] if one.kind != "number"]
        others.append(written)
    return _mutants(reference, "answer_respelled", "full", others)


def contrary(reference: Reference, checks: Sequence[str], initial: State) -> list[Mutant]:
    """The reference with an answer that hedges, denies the right value, or offers it among others: all earn less."""
    text = reference.answer.strip()
    given = form_answer(text, checks)
    if given is not None:
        return _mutants(reference, "answer_contrary", "less", _false_forms(given, form_types(checks)))
    one = answer_value(reference.answer, checks) if text else None
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


def answer_value(answer: str, checks: Sequence[str]) -> AnswerValue | None:
    """The one value that the checks ask of an answer, found in it. None without one, or where it is not clear which."""
    text = answer.strip()
    tokens = cut(text) if len(text) <= MOST_CHARS and text.isprintable() else []
    told = [call for source in checks for call in _helper_calls(source)]
    if len(told) > 1:
        return None
    for call in told:
        return _told_value(text, tokens, call)
    found = [*_guesses(tokens)]
    return found[0] if len(found) == 1 else None


def form_answer(answer: str, checks: Sequence[str]) -> dict[str, Any] | None:
    """The fields of an answer whose checks read a form, as they were given; None where they read none."""
    names = list(form_types(checks))
    try:
        return raw_fields(answer, names) if names else None
    except CannotTell:
        return None


def form_types(checks: Sequence[str]) -> dict[str, Any]:
    """The fields that checks read of an answer in a form, with their types."""
    calls = [call for source in checks for call in _calls(source, {"answer_fields"})]
    return {word.arg: _constant(word.value) for call in calls for word in call.keywords if word.arg}


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


def _helper_calls(source: str) -> list[ast.Call]:
    """Calls of a helper that reads one value of the answer itself."""
    return [call for call in _calls(source, KINDS.keys()) if len(call.args) > 1]


def _calls(source: str, helpers: Collection[str]) -> Iterator[ast.Call]:
    """Calls of these helpers whose text is the answer, under whichever name a check has it."""
    try:
        tree = parse(source)
    except UNREADABLE:
        return
    nodes = list(ast.walk(tree))
    third = {node.args.args[2].arg for node in nodes if isinstance(node, ast.FunctionDef) and node.args.args[2:]}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in helpers and node.args:
            text = node.args[0]
            if isinstance(text, ast.Name) and text.id in {"answer"} | third:
                yield node


def _constant(node: ast.AST | None) -> Any:
    """What a literal in a check stands for; None for anything that has to be worked out."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        return [_constant(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {_constant(key): _constant(value) for key, value in zip(node.keys, node.values, strict=True)}
    return None


def _told_value(text: str, tokens: list[Token], call: ast.Call) -> AnswerValue | None:
    assert isinstance(call.func, ast.Name)
    kind, value = KINDS[call.func.id], _constant(call.args[1])
    options = {word.arg: _constant(word.value) for word in call.keywords if word.arg}
    if kind == "number" and len(call.args) > 2:
        options["unit"] = _constant(call.args[2])
    try:
        candidates, fits, value = _readings(kind, value, tokens, options)
    except (ValueError, TypeError, ZeroDivisionError):
        return None
    own = [one for one in candidates if fits(one)]
    if not own:
        return None
    found = _placed(kind, value, tokens, own[0], str(options.get("currency") or ""))
    hints = [options.get("asked"), options.get("unit")]
    words = [part for hint in hints for part in ([hint] if isinstance(hint, str) else hint or ())]
    return replace(found, hints=tuple(filter(None, words)), weekday=_weekday(kind, value, options)) if text else None


def _weekday(kind: str, value: Any, options: dict[str, Any]) -> int | None:
    """The weekday that the check holds a text to, from 0."""
    if kind == "date":
        return int(value.weekday())
    if kind == "time" and options.get("on"):
        return datetime.date.fromisoformat(str(options["on"])).weekday()
    return DAYS.index(options["weekday"]) if kind == "time" and options.get("weekday") in DAYS else None


Fits = Callable[[Candidate], bool]


def _readings(kind: str, value: Any, tokens: list[Token], options: dict[str, Any]) -> tuple[list[Candidate], Fits, Any]:
    """(what of the kind is in the text, whether one is the value, the value as the spellings take it)."""
    if kind == "money":
        money = quantities.amounts(tokens, str(options.get("currency") or ""), str(options.get("bare") or "major"))
        return money, lambda one: Fraction(value) in one.value, int(value)
    if kind == "duration":
        lengths = quantities.durations(tokens, str(options.get("bare") or "minutes"))
        length = Fraction(str(value)) + Fraction(int(options.get("seconds") or 0), 60)
        return lengths, lambda one: length * 60 in one.value, length
    if kind == "time":
        hour, minute = str(value).split(":")
        wanted = int(hour) * 60 + int(minute)
        return clock_times(tokens), lambda one: wanted in one.value, wanted
    if kind == "date":
        day = datetime.date.fromisoformat(value)
        return dates(tokens, None), lambda one: any(item.fits(day, None) for item in one.value), day
    if kind == "name":
        if not isinstance(value, str):
            raise TypeError("a name must be text")
        read = labels.codes if options.get("code") else labels.names
        return read(tokens, [value]), lambda one: True, value
    exact = Fraction(str(value))
    counted = quantities.counts(tokens, units_of(options.get("unit") or ()), list(options.get("codes") or ()))
    return counted, lambda one: exact in one.value, exact


def _placed(kind: str, value: Any, tokens: list[Token], one: Candidate, currency: str = "") -> AnswerValue:
    return AnswerValue(kind, value, tokens[one.first].start, tokens[one.last].end, currency)


def _guesses(tokens: list[Token]) -> Iterator[AnswerValue]:
    """The values of an answer that no helper reads. A number stays a number: its unit is nobody's to guess."""
    taken: set[int] = set()
    for one in dates(tokens, None):
        if one.strong and len(one.value) == 1 and None not in (one.value[0].year, one.value[0].month, one.value[0].day):
            day = one.value[0]
            taken |= set(range(one.first, one.last + 1))
            yield _placed("date", datetime.date(day.year, day.month, day.day), tokens, one)
    for one in clock_times(tokens):
        if one.strong and len(one.value) == 1 and one.first not in taken:
            taken |= set(range(one.first, one.last + 1))
            yield _placed("time", next(iter(one.value)), tokens, one)
    for one in quantities.counts(tokens, {}, ()):
        if one.first not in taken and len(one.value) == 1:
            yield _placed("number", next(iter(one.value)), tokens, one)


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
