"""The JSON answer in a reply: lenient as to its form, strict as to what it means.

A model may think first, in marks (`thoughts.py`) or in words: what it means is the last object. Read past are words,
other blocks and drafts that it corrects; mended is what `lenient_json` mends. Refused, with a reason that helps: two
different answers, what is cut short, what repeats a key or is no JSON number, an answer inside another object. Code is
read by `source_reader.py`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.errors import FormatError, InputError
from synthesis.formats.values import clean
from synthesis.json_reader import read_json as read_strictly
from synthesis.llm.fences import Block, blocks_in
from synthesis.llm.lenient_json import CUT_SHORT, BrokenJson, MendedJson, mended
from synthesis.llm.reply_words import MOST_DRAFTS, Read, bounded, nothing_found, replaces, require_few
from synthesis.llm.thoughts import plain, spoken

REASON = 600
ERRORS = 3
THOUGHT = "reasoning"
"""The field in which a model may think that is held to JSON. Where a shape has none of this name it is left out."""
MOST_BROKEN = 10
"""So many objects that do not hold are read past."""
MOST_IN_VAIN = 200_000
"""So many characters of them are read, all together, before the rest is given up: it may be read again after each."""
DATA = frozenset({"", "json", "jsonc", "json5", "jsonl", "text", "txt", "yaml"})
PROGRAMS = frozenset({"python", "py", "javascript", "js"})
"""Languages whose blocks are data where they begin as such."""
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
    """The JSON object that a reply means. Raises InputError with what is wrong.

    Text in it is cleaned as all text is: NUL and half surrogate pairs become visible signs.
    """
    found: M = read_object(text, wanted).value
    return found


def read_object(text: str, wanted: type[M]) -> Read:
    """The same with the repairs it took."""
    said, unescaped = _once(plain(spoken(bounded(text), _OBJECT)))
    found = _candidates(said)
    if not found:
        raise InputError(nothing_found(said, "the JSON object that was asked for", "no JSON object"))
    fitting: list[tuple[_Candidate, M]] = []
    reason = ""
    for candidate in found:
        try:
            fitting.append((candidate, _fit(candidate, wanted)))
            reason = ""
        except InputError as error:
            reason = str(error)
    if not fitting:
        raise InputError(reason[:REASON])
    chosen, value = fitting[-1]
    broken = found[-1]
    if broken.error and broken.end - broken.start > chosen.end - chosen.start:
        raise InputError(reason[:REASON])
    drafts = [draft for draft, other in fitting[:-1] if other != value and set(draft.value) == set(chosen.value)]
    if len(drafts) > MOST_DRAFTS or not all(replaces(said, draft.start, draft.end, chosen.start) for draft in drafts):
        raise InputError("it holds two different answers; write the one that you mean, once")
    return Read(value, chosen.repairs | unescaped)


def _once(text: str) -> tuple[str, frozenset[str]]:
    """The text, where it is a JSON text that holds the answer as what it holds."""
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


def _candidates(text: str) -> list[_Candidate]:
    """The objects and lists of a reply in order. Where one of the whole text does not hold, each block and what stands
    between blocks is read by itself."""
    blocks = blocks_in(text)
    starts = [block.start for block in blocks]
    whole = [candidate for candidate in _objects(text, 0) if not _foreign(candidate, blocks, starts)]
    if not blocks or not any(candidate.error for candidate in whole):
        return whole
    apart: list[_Candidate] = []
    at = 0
    for block in [*blocks, None]:
        apart += _objects(text[at : block.start if block else len(text)], at)
        if block is None:
            break
        at = block.end
        if _is_data(block):
            offset = max(text.find(block.body[:200], block.start, block.end), block.start)
            apart += _objects(block.body, offset)
        require_few(len(apart), "objects")
    return apart if any(not candidate.error for candidate in apart) else whole or apart


def _foreign(candidate: _Candidate, blocks: list[Block], starts: list[int]) -> bool:
    """Whether it stands inside a block that is no data: a program, a command."""
    place = bisect(starts, candidate.start) - 1
    return place >= 0 and candidate.end <= blocks[place].end and not _is_data(blocks[place])


def _is_data(block: Block) -> bool:
    language = block.language.lower()
    return language in DATA or (language in PROGRAMS and block.body.lstrip()[:1] in ("{", "["))


def _objects(text: str, offset: int) -> list[_Candidate]:
    """The objects and lists of a text, in order. Raises InputError: too many."""
    return [
        _Candidate(offset + part[0], offset + part[1], None, frozenset(), part[2])
        if isinstance(part, tuple)
        else _read(part, offset)
        for part in _parts(text)
    ]


def _parts(text: str) -> Iterator[MendedJson | tuple[int, int, str]]:
    """What holds, and (start, end, error) of what does not."""
    at = broken = in_vain = answers = 0
    while (meant := _OBJECT.search(text, at)) is not None:
        start = meant.start()
        answers += 1
        require_few(answers, "objects")
        try:
            found = mended(text, start)
        except BrokenJson as error:
            broken += 1
            in_vain += error.read
            given_up = str(error) == CUT_SHORT or broken == MOST_BROKEN or in_vain > MOST_IN_VAIN
            after = None if given_up else _AFTER_BROKEN.search(text, start)
            at = after.end() if after else len(text)
            yield start, at, str(error)
        else:
            at = found.end
            yield found


def _read(part: MendedJson, offset: int) -> _Candidate:
    error = ""
    value: Any = None
    try:
        value = read_strictly(part.body, broken_text=True)
    except FormatError as fault:
        error = str(fault)
    return _Candidate(offset + part.start, offset + part.end, value, part.repairs, error)


def _fit(candidate: _Candidate, wanted: type[M]) -> M:
    """Raises InputError."""
    if candidate.error:
        raise InputError(candidate.error)
    value = _cleaned(candidate.value)
    if isinstance(value, dict) and isinstance(value.get(THOUGHT), str) and not _has_field(wanted, THOUGHT):
        del value[THOUGHT]
    try:
        return wanted.model_validate(value)
    except ValidationError as error:
        listed = error.errors(include_input=False, include_context=False, include_url=False)
        reasons = [f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}" for fault in listed[:ERRORS]]
        inside = _envelope(value, wanted)
        hint = f"it puts the answer into {inside!r}; write the object itself. " if inside else ""
        raise InputError(hint + "; ".join(part[: REASON // ERRORS] for part in reasons)) from None


def _has_field(wanted: type[BaseModel], name: str) -> bool:
    return any(name in (field, known.alias) for field, known in wanted.model_fields.items())


def _envelope(value: Any, wanted: type[BaseModel]) -> str:
    """The only key of an object whose value is the answer; empty where it is none."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    [(key, inner)] = value.items()
    try:
        wanted.model_validate(inner)
    except ValidationError:
        return ""
    return str(key)[:60]


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value
