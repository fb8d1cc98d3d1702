"""The JSON answer in a reply: lenient in its form, strict in its meaning.

A model may think first, in marks (`reply_marks.py`) or in words: its answer is the last object. Skipped are words,
other blocks and drafts that it corrects; the form is repaired by `lenient_json`. Refused, with a reason that helps: two
different answers, truncated text, repeated keys, numbers that are not JSON, an answer inside another object. Code is
read by `source_reader.py`."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.errors import FormatError, InputError
from synthesis.formats.values import clean_text
from synthesis.json_reader import read_json as read_strictly
from synthesis.llm.lenient_json import CUT_SHORT, BrokenJson, MendedJson, mend_json
from synthesis.llm.reply_marks import Block, find_blocks, strip_marks, strip_thoughts
from synthesis.llm.reply_words import (
    MOST_DRAFTS,
    Read,
    describe_missing_answer,
    is_draft_replaced,
    require_few,
    require_readable_length,
)

REASON = 600
ERRORS = 3
THOUGHT = "reasoning"
"""The field in which a model that is held to JSON may think. It is left out if a shape has no field of this name."""
MOST_BROKEN = 10
"""So many objects that do not hold are read past."""
MOST_IN_VAIN = 200_000
"""So many characters of them are read, all together, before the rest is given up: it may be read again after each."""
DATA = frozenset({"", "json", "jsonc", "json5", "jsonl", "text", "txt", "yaml"})
PROGRAMS = frozenset({"python", "py", "javascript", "js"})
"""Languages whose blocks are data if they begin as data."""
_OBJECT = re.compile(r"\{\s*(?:[\"'“”\u2018„`}]|[A-Za-z_$][\w$]*\s*[:\uff1a]|//|/\*)|\[\s*[\"'{\[]")
_AFTER_BROKEN = re.compile(r"\n[ \t]*\n(?=[^\n{]{0,200}\n?\{)|\n[ \t]*(?:```|~~~)")
"""Where the next object may begin that is not part of a broken one: behind an empty line, or behind a fence."""
_ESCAPED = re.compile(r"\{\s*\\+\"")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class _Candidate:
    start: int
    end: int
    value: Any
    repairs: frozenset[str]
    error: str = ""


def read_json(text: str, wanted: type[M]) -> M:
    """Return the JSON object that is the answer of a reply. Raise InputError with the reason.

    Text in it is cleaned as all text is: NUL and half surrogate pairs become visible signs.
    """
    found: M = read_object(text, wanted).value
    return found


def read_object(text: str, wanted: type[M]) -> Read:
    """Return the same as `read_json`, with the repairs."""
    answer_text, unescaped = _decode_once(strip_marks(strip_thoughts(require_readable_length(text), _OBJECT)))
    candidates = _list_candidates(answer_text)
    if not candidates:
        raise InputError(describe_missing_answer(answer_text, "the JSON object that was asked for", "no JSON object"))
    fitting: list[tuple[_Candidate, M]] = []
    reason = ""
    for candidate in candidates:
        try:
            fitting.append((candidate, _fit_candidate(candidate, wanted)))
            reason = ""
        except InputError as error:
            reason = str(error)
    if not fitting:
        raise InputError(reason[:REASON])
    chosen, value = fitting[-1]
    broken = candidates[-1]
    if broken.error and broken.end - broken.start > chosen.end - chosen.start:
        raise InputError(reason[:REASON])
    drafts = [draft for draft, other in fitting[:-1] if other != value and set(draft.value) == set(chosen.value)]
    if len(drafts) > MOST_DRAFTS or not all(
        is_draft_replaced(answer_text, draft.start, draft.end, chosen.start) for draft in drafts
    ):
        raise InputError("it holds two different answers; write the one that you mean, once")
    return Read(value, chosen.repairs | unescaped)


def _decode_once(text: str) -> tuple[str, frozenset[str]]:
    """Return the text, decoded if it is a JSON text that contains the answer."""
    bare = text.strip()
    if bare[:1] == '"' and bare[-1:] == '"' and _ESCAPED.match(bare, 1):
        inner = bare[1:-1]
    elif _ESCAPED.match(bare) and bare.endswith("}"):
        inner = bare
    else:
        return text, frozenset()
    try:
        once = json.loads('"' + inner.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"')
    except ValueError:
        return text, frozenset()
    return str(once), frozenset({"encoded twice"})


def _list_candidates(text: str) -> list[_Candidate]:
    """Return the objects and lists of a reply in order.

    If one of the whole text is invalid, each block and the text between blocks is read by itself.
    """
    blocks = find_blocks(text)
    starts = [block.start for block in blocks]
    whole = [candidate for candidate in _find_objects(text, 0) if not _is_foreign(candidate, blocks, starts)]
    if not blocks or not any(candidate.error for candidate in whole):
        return whole
    apart: list[_Candidate] = []
    at = 0
    for block in [*blocks, None]:
        apart += _find_objects(text[at : block.start if block else len(text)], at)
        if block is None:
            break
        at = block.end
        if _is_data(block):
            offset = max(text.find(block.body[:200], block.start, block.end), block.start)
            apart += _find_objects(block.body, offset)
        require_few(len(apart), "objects")
    return apart if any(not candidate.error for candidate in apart) else whole or apart


def _is_foreign(candidate: _Candidate, blocks: list[Block], starts: list[int]) -> bool:
    """Return whether a candidate is inside a block that is not data: a program, a command."""
    place = bisect(starts, candidate.start) - 1
    return place >= 0 and candidate.end <= blocks[place].end and not _is_data(blocks[place])


def _is_data(block: Block) -> bool:
    language = block.language.lower()
    return language in DATA or (language in PROGRAMS and block.body.lstrip()[:1] in ("{", "["))


def _find_objects(text: str, offset: int) -> list[_Candidate]:
    """Return the objects and lists of a text, in order. Raise InputError if there are too many."""
    return [
        _Candidate(offset + part[0], offset + part[1], None, frozenset(), part[2])
        if isinstance(part, tuple)
        else _read_candidate(part, offset)
        for part in _iterate_parts(text)
    ]


def _iterate_parts(text: str) -> Iterator[MendedJson | tuple[int, int, str]]:
    """Yield valid parts, and (start, end, error) of invalid ones."""
    at = broken = in_vain = answers = 0
    while (meant := _OBJECT.search(text, at)) is not None:
        start = meant.start()
        answers += 1
        require_few(answers, "objects")
        try:
            part = mend_json(text, start)
        except BrokenJson as error:
            broken += 1
            in_vain += error.read
            given_up = str(error) == CUT_SHORT or broken == MOST_BROKEN or in_vain > MOST_IN_VAIN
            after = None if given_up else _AFTER_BROKEN.search(text, start)
            at = after.end() if after else len(text)
            yield start, at, str(error)
        else:
            at = part.end
            yield part


def _read_candidate(part: MendedJson, offset: int) -> _Candidate:
    error = ""
    value: Any = None
    try:
        value = read_strictly(part.body, broken_text=True)
    except FormatError as fault:
        error = str(fault)
    return _Candidate(offset + part.start, offset + part.end, value, part.repairs, error)


def _fit_candidate(candidate: _Candidate, wanted: type[M]) -> M:
    """Return the candidate as an instance of `wanted`. Raise InputError."""
    if candidate.error:
        raise InputError(candidate.error)
    value = _clean_value(candidate.value)
    if isinstance(value, dict) and isinstance(value.get(THOUGHT), str) and not _has_field(wanted, THOUGHT):
        del value[THOUGHT]
    try:
        return wanted.model_validate(value)
    except ValidationError as error:
        listed = error.errors(include_input=False, include_context=False, include_url=False)
        reasons = [f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}" for fault in listed[:ERRORS]]
        inside = _find_envelope(value, wanted)
        hint = f"it puts the answer into {inside!r}; write the object itself. " if inside else ""
        raise InputError(hint + "; ".join(part[: REASON // ERRORS] for part in reasons)) from None


def _has_field(wanted: type[BaseModel], name: str) -> bool:
    return any(name in (field, known.alias) for field, known in wanted.model_fields.items())


def _find_envelope(value: Any, wanted: type[BaseModel]) -> str:
    """Return the only key of an object whose value is the answer; empty if there is none."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    [(key, inner)] = value.items()
    try:
        wanted.model_validate(inner)
    except ValidationError:
        return ""
    return str(key)[:60]


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(inner) for inner in value] if isinstance(value, list) else value
