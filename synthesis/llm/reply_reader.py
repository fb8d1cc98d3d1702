"""The answer in a reply: lenient as to its form, strict as to what it means.

A model may think first, in `<think>` or in words: what it means is the last object, or the last block of code. Read
past are words, other blocks and drafts that it corrects; mended is what `lenient_json` mends. Refused, with a reason
that helps: two different answers, what is cut short, what repeats a key or is no JSON number, an answer inside another
object.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis import syntax
from synthesis.errors import FormatError, InputError
from synthesis.formats.files import loads, require_usable
from synthesis.formats.values import clean
from synthesis.llm.fences import Block, blocks_in
from synthesis.llm.lenient_json import BrokenJson, mended

REASON = 600
ERRORS = 3
MOST = 1_000_000
"""Characters of a reply that are read at all."""
MOST_STARTS = 40
"""So many brackets that begin nothing are read past."""
MOST_IN_VAIN = 200_000
"""So many characters are read after them, all together: what follows a bracket is read again after the next one."""
MOST_ANSWERS = 1_000
"""A reply with more objects, or blocks of code, is refused unread."""
MOST_CODE = 400_000
"""Characters of code: a tree takes hundreds of times its text."""
DATA = frozenset({"", "json", "jsonc", "json5", "javascript", "js", "python", "py", "text", "txt"})
CODE = frozenset({"", "python", "py", "python3"})
_THOUGHT = (
    "</think>",
    "</thinking>",
    "</thought>",
    "</reasoning>",
    "[/THINK]",
    "◁/think▷",
    "<|channel|>final<|message|>",
)
_OPEN_THOUGHT = ("<think>", "<thinking>", "<thought>", "<reasoning>", "[THINK]", "◁think▷")
_CORRECTION = re.compile(
    r"\b(final(ly)?|correct(ed|ion|ing)|revis(ed|ing|ion)|instead|actually|fix(ed|ing|es)|updat(ed|ing)|wait|mistake|"
    r"rewrit(e|ten|ing)|repair(ed|ing|s)?|adjust(ed|ing))\b",
    re.IGNORECASE,
)
"""Words between two answers by which the later one takes the earlier one's place."""
_ASIDE = re.compile(
    r"\b(draft|first (try|attempt|version|thought)|initial|original|current|example|for instance|such as|format|schema|"
    r"template|e\.g\.)",
    re.IGNORECASE,
)
"""Words before an object or block by which it is no answer."""
_REFUSAL = re.compile(r"\b(I('m| am) sorry|I (can('|no)t|am unable to|won't)|as an AI)\b", re.IGNORECASE)
_OBJECT = re.compile(r"\{\s*(?:[\"'“}]|[A-Za-z_]\w*\s*:)|\[\s*[\"'{\[]")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Read:
    """What stood in a reply, and by which repairs it was read."""

    value: Any
    repairs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Candidate:
    start: int
    end: int
    value: Any
    repairs: frozenset[str]
    error: str = ""


def read_json(text: str, wanted: type[M]) -> M:
    """The JSON object that a reply means. Raises InputError with what is wrong.

    Text in it is cleaned as all text is: NUL and half surrogate pairs become visible signs.
    """
    found: M = read_object(text, wanted).value
    return found


def read_object(text: str, wanted: type[M]) -> Read:
    """The same with the repairs it took."""
    said = _spoken(_bounded(text))
    found = _candidates(said)
    _require_few(len(found), "objects")
    if not found:
        raise InputError(_nothing(said, "the JSON object that was asked for", "no JSON object"))
    fitting: list[tuple[_Candidate, M]] = []
    reason = ""
    for one in found:
        try:
            fitting.append((one, _fit(one, wanted)))
            reason = ""
        except InputError as error:
            reason = str(error)
    if not fitting:
        raise InputError(reason[:REASON])
    chosen, value = fitting[-1]
    broken = found[-1]
    if broken.error and broken.end - broken.start > chosen.end - chosen.start:
        raise InputError(reason[:REASON])
    corrected = _last_correction(said, fitting[0][0].end, chosen.start)
    for earlier, other in fitting[:-1]:
        if other != value and set(earlier.value) == set(chosen.value) and not _replaced(said, earlier, corrected):
            raise InputError("it holds two different answers; write the one that you mean, once")
    return Read(value, chosen.repairs)


def read_code(text: str) -> str:
    """The block of code that a reply means. Raises InputError."""
    return str(read_source(text).value)


def read_source(text: str) -> Read:
    """The same with the repairs it took."""
    said = _spoken(_bounded(text))
    blocks = blocks_in(said)
    if blocks and not blocks[-1].closed:
        raise InputError("its fenced block of code does not end")
    code = [block for block in blocks if block.language.lower() in CODE and block.body.strip()]
    _require_few(len(code), "blocks of code")
    if (length := sum(len(block.body) for block in code)) > MOST_CODE:
        raise InputError(f"its code has {length:,} characters; at most {MOST_CODE:,} are read")
    if not code:
        if not blocks and len(said) <= MOST_CODE and _defines(said):
            return Read(said, frozenset({"no fence"}))
        raise InputError(_nothing(said, "the code that was asked for", "no fenced block of Python code"))
    answers = [block for block in code if _defines(block.body)] or code
    chosen = answers[-1]
    corrected = _last_correction(said, answers[0].end, chosen.start)
    for earlier in answers[:-1]:
        if earlier.body.strip() != chosen.body.strip() and not _replaced(said, earlier, corrected):
            raise InputError(f"it holds {len(answers)} fenced blocks of code; write the one that you mean, once")
    return Read(chosen.body)


def is_refusal(text: str) -> bool:
    """Whether a model says that it will not answer."""
    return bool(_REFUSAL.search(text[:MOST]))


def _bounded(text: str) -> str:
    if len(text) > MOST:
        raise InputError(f"it has {len(text):,} characters; at most {MOST:,} are read")
    return text


def _require_few(answers: int, what: str) -> None:
    if answers > MOST_ANSWERS:
        raise InputError(f"it holds more than {MOST_ANSWERS:,} {what}; write the one that you mean, once")


def _spoken(text: str) -> str:
    """The reply without what the model thought before it."""
    ends = [place + len(sign) for sign in _THOUGHT if (place := text.rfind(sign)) >= 0]
    if ends and (text[max(ends) :].strip() or not _OBJECT.search(text)):
        return text[max(ends) :]
    if ends:
        return text
    begins = [place for sign in _OPEN_THOUGHT if (place := text.find(sign)) >= 0]
    if begins and not text[: min(begins)].strip():
        raise InputError("it thinks and does not come to an answer")
    return text[: min(begins)] if begins else text


def _candidates(text: str) -> list[_Candidate]:
    """The objects and lists of a reply in order: those in fences, else those between words."""
    found: list[_Candidate] = []
    for block in blocks_in(text):
        body = block.body
        if block.language.lower() in DATA and body.lstrip()[:1] in ("{", "[") and len(found) <= MOST_ANSWERS:
            offset = text.find(body, block.start, block.end) if len(body) else block.start
            found += _objects(body, max(offset, block.start))
    if any(not one.error for one in found):
        return found
    return list(_objects(text, 0)) or found


def _objects(text: str, offset: int) -> Iterator[_Candidate]:
    at = starts = in_vain = answers = 0
    while starts < MOST_STARTS and in_vain < MOST_IN_VAIN and answers <= MOST_ANSWERS:
        places = [place for sign in "{[" if (place := text.find(sign, at)) >= 0]
        if not places:
            return
        start = min(places)
        meant = _OBJECT.match(text, start)
        try:
            found = mended(text, start)
        except BrokenJson as error:
            starts += 1
            in_vain += error.read
            if meant:
                yield _Candidate(offset + start, offset + len(text), None, frozenset(), str(error))
                return
            at = start + 1
            continue
        at = found.end
        if not meant:
            starts += 1
            continue
        answers += 1
        yield _read(found.body, offset + start, offset + at, found.repairs)


def _read(body: str, start: int, end: int, repairs: frozenset[str]) -> _Candidate:
    error = ""
    value: Any = None
    try:
        value = loads(body)
        require_usable(value, "")
    except FormatError as fault:
        error = str(fault)
    except (ValueError, RecursionError) as fault:
        error = f"it is not one JSON object ({fault})"
    return _Candidate(start, end, value, repairs, error)


def _fit(one: _Candidate, wanted: type[M]) -> M:
    """Raises InputError."""
    if one.error:
        raise InputError(one.error)
    try:
        return wanted.model_validate(_cleaned(one.value))
    except ValidationError as error:
        listed = error.errors(include_input=False, include_context=False, include_url=False)
        reasons = [f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}" for fault in listed[:ERRORS]]
        inside = _envelope(one.value, wanted)
        hint = f"it puts the answer into {inside!r}; write the object itself. " if inside else ""
        raise InputError(hint + "; ".join(part[: REASON // ERRORS] for part in reasons)) from None


def _envelope(value: Any, wanted: type[BaseModel]) -> str:
    """The only key of an object whose value is the answer; empty where it is none."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    [(key, inner)] = value.items()
    try:
        wanted.model_validate(_cleaned(inner))
    except ValidationError:
        return ""
    return str(key)[:60]


def _last_correction(text: str, start: int, end: int) -> int:
    """Where the last words stand by which an answer takes the place of those before it; -1 where there are none."""
    return max((words.start() for words in _CORRECTION.finditer(text, start, end)), default=-1)


def _replaced(text: str, earlier: _Candidate | Block, corrected: int) -> bool:
    """Whether words say that a later answer stands for the earlier one; `corrected` is where the last of them do."""
    return corrected >= earlier.end or bool(_ASIDE.search(text, max(0, earlier.start - 100), earlier.start))


def _nothing(text: str, asked: str, none: str) -> str:
    if text.lstrip()[:15].lower().startswith(("<!doctype", "<html")):
        return f"it is a page of HTML, not {asked}"
    return f"it is a refusal, not {asked}" if is_refusal(text) else f"it holds {none}"


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def _defines(source: str) -> bool:
    """Whether a text is Python that defines a class or a function."""
    if "def " not in source and "class " not in source:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = syntax.parse(source)
    except syntax.UNREADABLE:
        return False
    return any(isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) for part in tree.body)
