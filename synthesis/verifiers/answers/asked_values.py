"""What a task asks to be told: the values that its checks read in an answer, and where they stand in a given one.

The helper that reads `answer` names kind and value. A check without one says by its label, its criterion and its
literals what it looks for; where it works that out from a state, nobody can say, and every number counts. All else in
an answer is free: nobody asked for it.
"""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from synthesis.runtime.child.answers import labels, quantities
from synthesis.runtime.child.answers.clock_times import clock_times
from synthesis.runtime.child.answers.dates import DAYS, dates
from synthesis.runtime.child.answers.fields import raw_fields
from synthesis.runtime.child.answers.helpers import units_of
from synthesis.runtime.child.answers.statements import Candidate, CannotTell
from synthesis.runtime.child.answers.tokens import MOST_CHARS, Token, cut
from synthesis.syntax import UNREADABLE, parse
from synthesis.verifiers.doubts import criterion_of

_Place = tuple[int, int]
KINDS = {
    "says_number": "number",
    "says_money": "money",
    "says_duration": "duration",
    "says_time": "time",
    "says_date": "date",
    "says_name": "name",
}
"""The helper that reads each kind of value."""

_ANY: dict[str, Any] = {"number": 0, "money": 0, "duration": 0, "time": "0:00", "date": "2000-01-01"}
"""A value to read a text with, where only its kind is known."""
_WRITTEN = re.compile(r"\d{4}-\d{2}-\d{2}|\d+(?:[.,:'\u2019]\d+)*")
_NUMBER_PARTS = re.compile(r"(\d+|\d{1,3}(?:[.,'\u2019]\d{3})+?)(?:[.,](\d+))?")


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


def answer_value(answer: str, checks: Sequence[str], labels_of: Sequence[str] = ()) -> AnswerValue | None:
    """The one value that the checks ask of an answer, found in it. None without one, or where it is not clear which."""
    text = answer.strip()
    tokens = cut(text) if len(text) <= MOST_CHARS and text.isprintable() else []
    told = [call for source in checks for call in _helper_calls(source)]
    if len(told) > 1:
        return None
    for call in told:
        return _told_value(text, tokens, call)
    found = [*_guesses(tokens)]
    asked = asked_places(text, checks, labels_of) if len(found) == 1 else []
    return found[0] if any(place.start < found[0].end and found[0].start < place.end for place in asked) else None


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


def _helper_calls(source: str) -> list[ast.Call]:
    """Calls of a helper that reads one value of the answer itself."""
    return [call for call in _calls(source, KINDS.keys()) if len(call.args) > 1]


def _calls(source: str, helpers: Collection[str]) -> Iterator[ast.Call]:
    """Calls of these helpers whose text is the answer or made of it, under whichever name a check has it."""
    try:
        tree = parse(source)
    except UNREADABLE:
        return
    nodes = list(ast.walk(tree))
    told = {"answer"} | {
        node.args.args[2].arg for node in nodes if isinstance(node, ast.FunctionDef) and node.args.args[2:]
    }
    for node in nodes:
        if isinstance(node, ast.Assign) and _names_of(node.value) & told:
            told |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or not node.args:
            continue
        if node.func.id in helpers and _names_of(node.args[0]) & told:
            yield node


def _names_of(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


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
    options = _options(kind, call)
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


def _options(kind: str, call: ast.Call) -> dict[str, Any]:
    options = {word.arg: _constant(word.value) for word in call.keywords if word.arg}
    if kind == "number" and len(call.args) > 2:
        options["unit"] = _constant(call.args[2])
    return options


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


@dataclass(frozen=True)
class AskedPlace:
    """Where an answer says what it was asked for, from `start` to `end`; `name` is the value where it is a name."""

    start: int
    end: int
    name: str = ""


def asked_places(answer: str, checks: Sequence[str], labels_of: Sequence[str] = ()) -> list[AskedPlace]:
    """Where an answer says what these checks, which read it, ask for, in the order of the text, each place once.

    `labels_of` are the checks' conditions in words, in the same order. Fields of a form are not among them.
    """
    tokens = _plain_tokens(answer)
    found: set[AskedPlace] = set()
    for index, source in enumerate(checks):
        calls = _helper_calls(source)
        if calls or any(True for _ in _calls(source, {"says_list", "answer_fields"})):
            for call in calls:
                found |= set(_called_places(tokens, call))
            found |= {place for name in _listed_names(source) for place in _named_places(tokens, name)}
        else:
            label = labels_of[index] if index < len(labels_of) else ""
            found |= {AskedPlace(*place) for place in _worded_places(answer, source, label)}
    return sorted(found, key=lambda place: (place.start, place.end))


def _plain_tokens(text: str) -> list[Token]:
    """The tokens of a text whose places are those of the text itself; none of one that is rewritten to be read."""
    tokens = cut(text) if len(text) <= MOST_CHARS else []
    return tokens if all(token.end <= len(text) and _stands(text, token) for token in tokens) else []


def _stands(text: str, token: Token) -> bool:
    return token.kind == "sign" or text[token.start : token.end].casefold() == token.raw.casefold()


def _called_places(tokens: list[Token], call: ast.Call) -> Iterator[AskedPlace]:
    """Where the value of a helper's call stands; every value of its kind, where the source does not say which it is."""
    assert isinstance(call.func, ast.Name)
    kind, value = KINDS[call.func.id], _constant(call.args[1])
    options = _options(kind, call)
    given = value if value is not None else _ANY.get(kind)
    try:
        candidates, fits, _ = _readings(kind, given, tokens, options)
    except (ValueError, TypeError, ZeroDivisionError):
        return
    for one in candidates:
        if value is None or fits(one):
            yield AskedPlace(tokens[one.first].start, tokens[one.last].end, str(given) if kind == "name" else "")


def _listed_names(source: str) -> Iterator[str]:
    for call in _calls(source, {"says_list"}):
        names = _constant(call.args[1]) if len(call.args) > 1 else None
        yield from (name for name in names or () if isinstance(name, str))


def _named_places(tokens: list[Token], name: str) -> Iterator[AskedPlace]:
    for one in labels.names(tokens, [name]):
        yield AskedPlace(tokens[one.first].start, tokens[one.last].end, name)


def _worded_places(answer: str, source: str, label: str) -> list[_Place]:
    """The numbers of an answer that a check without a helper looks for: those of its words, else of its literals."""
    written = list(_written(answer))
    for told in ((label, criterion_of(source)), _texts(source)):
        known = {key for text in told for _, keys in _written(text) for key in keys}
        if places := [place for place, keys in written if keys & known]:
            return places
    return [place for place, _ in written] if _works_out(source) else []


def _texts(source: str) -> list[str]:
    """The literals of a check, as texts."""
    try:
        nodes = list(ast.walk(parse(source)))
    except UNREADABLE:
        return []
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [str(value) for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)]


def _works_out(source: str) -> bool:
    """Whether a check may take what it looks for from a state: it reads another parameter than the answer."""
    try:
        nodes = list(ast.walk(parse(source)))
    except UNREADABLE:
        return True
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    given = {item.arg for function in functions for item in function.args.args[:2]} | {"initial_state", "final_state"}
    return bool(given & {node.id for node in nodes if isinstance(node, ast.Name)} - {"answer"})


def _written(text: str) -> Iterator[tuple[_Place, set[Fraction | str]]]:
    """The numbers of a text, each with its place and what it may stand for: its value, hundredths of an amount."""
    for match in _WRITTEN.finditer(text):
        digits = match.group()
        keys: set[Fraction | str] = {digits}
        parts = _NUMBER_PARTS.fullmatch(digits)
        if parts is not None:
            whole, rest = re.sub(r"\D", "", parts[1]), parts[2] or ""
            value = Fraction(f"{whole}.{rest or 0}")
            keys.add(value)
            if len(rest) == 2:
                keys.add(value * 100)
            if len(rest) == 3:
                keys.add(Fraction(whole + rest))
        yield match.span(), keys
