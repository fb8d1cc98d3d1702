"""JSON as models write it: one pass that mends its form, where what is meant is certain, and nothing else.

Mended, each under a name that is counted: raw newlines in texts, lone backslashes, trailing and missing commas,
comments, quotes of other kinds, keys without quotes, Python's literals. Never closed, never filled in: what is cut
short stays refused, and repeated keys and NaN are left to the reader.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from synthesis.errors import InputError
from synthesis.formats.files import MAX_DEPTH

CUT_SHORT = "it is cut short: the object that begins here does not end"
PAIRS = {"{": "}", "[": "]"}
WORDS = {"True": "true", "False": "false", "None": "null"}
CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN = re.compile(r"[^\s{}\[\],:\"'“”`/#]+")
_KEY = re.compile(r'"[^"\\\n]{0,200}"\s*:')
_COLON = re.compile(r"\s*:")
_QUOTES = {'"': '"', "'": "'", "“": "”"}
_RUNS = {closing: re.compile(rf'[^"{closing}\\\x00-\x1f]+') for closing in _QUOTES.values()}
_ESCAPES = frozenset('"\\/bfnrtu')


class BrokenJson(InputError):
    """Text that begins as JSON and does not hold as such; `read` characters of it were looked at."""

    read: int = 0


@dataclass(frozen=True)
class MendedJson:
    """An object or list: where it stands in the text, as JSON, and which repairs it took."""

    start: int
    end: int
    body: str
    repairs: frozenset[str]


@dataclass
class _Scanner:
    text: str
    at: int
    out: list[str] = field(default_factory=list)
    repairs: set[str] = field(default_factory=set)
    open: list[str] = field(default_factory=list)
    ended: bool = False
    """Whether a value has just ended, so that a comma or a bracket has to follow."""


def mended(text: str, start: int) -> MendedJson:
    """The object or list that begins at `start`, up to its closing bracket. Raises BrokenJson."""
    scan = _Scanner(text, start)
    try:
        while True:
            if scan.at >= len(text):
                raise BrokenJson(CUT_SHORT)
            _step(scan)
            if not scan.open:
                return MendedJson(start, scan.at, "".join(scan.out), frozenset(scan.repairs))
    except BrokenJson as error:
        error.read = scan.at - start
        raise


def _step(scan: _Scanner) -> None:
    text, at = scan.text, scan.at
    sign = text[at]
    if sign.isspace() and (space := _SPACE.match(text, at)):
        scan.out.append(space[0])
        scan.at = space.end()
    elif sign in "/#" and text.startswith(("//", "/*", "#"), at):
        _comment(scan)
    elif sign in PAIRS:
        _begin(scan)
        scan.open.append(sign)
        if len(scan.open) > MAX_DEPTH:
            raise BrokenJson(f"it is nested more than {MAX_DEPTH} levels deep")
        _put(scan, sign)
    elif sign in "}]":
        _close(scan, sign)
    elif sign in ",:":
        scan.ended = False
        _put(scan, sign)
    elif sign in _QUOTES:
        _begin(scan)
        _string(scan, sign)
        scan.ended = True
    else:
        _begin(scan)
        _plain(scan)
        scan.ended = True


def _put(scan: _Scanner, sign: str) -> None:
    scan.out.append(sign)
    scan.at += 1


def _begin(scan: _Scanner) -> None:
    """A value or a key begins: where the one before it ended without a comma, a key on a line of its own is meant."""
    if scan.ended and scan.open:
        line = scan.out[-1] if scan.out else ""
        if scan.open[-1] != "{" or "\n" not in line or not _KEY.match(scan.text, scan.at):
            raise BrokenJson("a comma is missing between two of its values")
        scan.out[-1:] = [",", line]
        scan.repairs.add("missing comma")
    scan.ended = False


def _close(scan: _Scanner, sign: str) -> None:
    if PAIRS[scan.open[-1]] != sign:
        raise BrokenJson(f"a {scan.open[-1]} of it is closed by {sign}")
    last = len(scan.out) - 1
    while scan.out[last].isspace():
        last -= 1
    if scan.out[last] == ",":
        scan.out[last] = ""
        scan.repairs.add("trailing comma")
    scan.open.pop()
    scan.ended = True
    _put(scan, sign)


def _comment(scan: _Scanner) -> None:
    closing = "*/" if scan.text.startswith("/*", scan.at) else "\n"
    end = scan.text.find(closing, scan.at)
    if end < 0:
        raise _unended(scan)
    scan.at = end + (2 if closing == "*/" else 0)
    scan.out.append(" ")
    scan.repairs.add("comment")


def _plain(scan: _Scanner) -> None:
    """A number or a word; what is no JSON is left for the reader to refuse."""
    word = _WORD.match(scan.text, scan.at)
    if word and scan.open[-1] == "{" and _COLON.match(scan.text, word.end()):
        scan.out.append(json.dumps(word[0]))
        scan.repairs.add("key without quotes")
        scan.at = word.end()
        return
    found = _PLAIN.match(scan.text, scan.at)
    if found is None:
        raise BrokenJson(f"it holds {scan.text[scan.at]!r} where a value should stand")
    if found[0] in WORDS:
        scan.repairs.add("Python literal")
    scan.out.append(WORDS.get(found[0], found[0]))
    scan.at = found.end()


def _string(scan: _Scanner, sign: str) -> None:
    text, triple = scan.text, sign * 3
    if sign in "\"'" and text.startswith(triple, scan.at):
        end = text.find(triple, scan.at + 3)
        if end < 0:
            raise _unended(scan)
        scan.out.append(json.dumps(text[scan.at + 3 : end], ensure_ascii=False))
        scan.repairs.add("triple quotes")
        scan.at = end + 3
        return
    if sign != '"':
        scan.repairs.add("Python literal" if sign == "'" else "curly quotes")
    parts, closing = ['"'], _QUOTES[sign]
    plain = _RUNS[closing]
    scan.at += 1
    while True:
        if run := plain.match(text, scan.at):
            parts.append(run[0])
            scan.at = run.end()
        if scan.at >= len(text):
            raise _unended(scan)
        if text[scan.at] == closing:
            break
        parts.append(_character(scan, closing))
    scan.out.append("".join([*parts, '"']))
    scan.at += 1


def _character(scan: _Scanner, closing: str) -> str:
    """What stands for the character that the scanner has come to in a text; it goes past it."""
    sign, following = scan.text[scan.at], scan.text[scan.at + 1 : scan.at + 2]
    scan.at += 1
    if sign == "\\":
        if following == closing and closing != '"':
            scan.at += 1
            return following
        if following and following in _ESCAPES:
            scan.at += 1
            return sign + following
        if following == "x" or not following:
            raise BrokenJson("it holds an escape that JSON does not have")
        scan.repairs.add("lone backslash")
        return "\\\\"
    if sign in CONTROL:
        scan.repairs.add("raw newline")
        return CONTROL[sign]
    return '\\"' if sign == '"' else sign


def _unended(scan: _Scanner) -> BrokenJson:
    """What begins here has no end, after which the whole rest was looked through."""
    scan.at = len(scan.text)
    return BrokenJson(CUT_SHORT)
