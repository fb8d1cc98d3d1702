"""JSON as models write it: one pass that repairs its form if the meaning is certain, and nothing else.

Repaired, each under a name that is counted: raw newlines in texts, lone backslashes, quotes that are not escaped,
trailing and missing commas, comments, quotes and signs of other kinds, keys without quotes, Python's literals. Never
closed, never completed: truncated text stays refused, and repeated keys and NaN are left to the reader.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from synthesis.errors import InputError
from synthesis.json_reader import MAX_DEPTH

CUT_SHORT = "it is cut short: the object that begins here does not end"
PAIRS = {"{": "}", "[": "]"}
WORDS = {"True": "true", "False": "false", "None": "null", "TRUE": "true", "FALSE": "false", "NULL": "null"}
CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
WIDE = {"\uff1a": ":", "\uff0c": ","}
MOST_KEPT = 500
LOOKED_AHEAD = 200
"""Characters after a quote that decide whether it ends its text."""
_SPACE = re.compile(r"[\s\u200b\u2060\ufeff]+")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN = re.compile(r"[^\s{}\[\],:\"'“”\u2018\u2019„`/#\uff1a\uff0c]+")
_KEY = re.compile(r'"[^"\\\n]{0,200}"\s*[:\uff1a]|[\'“][^"\'“”\\\n]{0,200}[\'”]\s*[:\uff1a]|[A-Za-z_$][\w$]{0,200}\s*:')
_VALUE = re.compile(r"[\"'“{\[\]\d-]|(?:true|false|null|True|False|None)\b")
_ENDING = re.compile(r"\s*[,\uff0c}\]]")
_COLON = re.compile(r"\s*[:\uff1a]")
_HEX = re.compile(r"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}")
_SIGNED = re.compile(r"\+?(-?)(\d*)\.?(\d*)([eE][+-]?\d+)?")
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "\u2018": "\u2019", "„": "“", "`": "`"}
_RUNS = {closing: re.compile(rf'[^"{closing}\\\x00-\x1f]+') for closing in _QUOTES.values()}
_NAMES = {'"': "", "'": "Python literal", "`": "backtick quotes"}
_ESCAPES = frozenset('"\\/bfnrt')
_NO_ESCAPE = frozenset("'_`")
"""Escaped by habit, in Markdown or in Python: the sign alone is meant."""


class BrokenJson(InputError):
    """Text that begins as JSON and is not valid; `read` characters of it were scanned."""

    read: int = 0


@dataclass(frozen=True)
class MendedJson:
    """An object or list: its place in the text, its JSON, and the repairs."""

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
    inner: bool = False
    """Whether a quote ends its text only if something follows that can come after a text."""
    kept: int = 0
    """Quotes that were taken for words."""


def mend_json(text: str, start: int) -> MendedJson:
    """Return the object or list that begins at `start`, up to its closing bracket. Raise BrokenJson.

    Invalid text is read once more with quotes inside its texts taken as characters, if they cannot be anything else;
    the error is that of the first reading.
    """
    try:
        return _scan_json(_Scanner(text, start))
    except BrokenJson as error:
        try:
            return _scan_json(_Scanner(text, start, inner=True))
        except BrokenJson as again:
            error.read += again.read
            raise error from None


def _scan_json(scan: _Scanner) -> MendedJson:
    text, start = scan.text, scan.at
    try:
        while True:
            if scan.at >= len(text):
                raise BrokenJson(CUT_SHORT)
            _scan_step(scan)
            if not scan.open:
                return MendedJson(start, scan.at, "".join(scan.out), frozenset(scan.repairs))
    except BrokenJson as error:
        error.read = scan.at - start
        raise


def _scan_step(scan: _Scanner) -> None:
    text, at = scan.text, scan.at
    sign = text[at]
    if space := _SPACE.match(text, at):
        scan.out.append("\n" if "\n" in space[0] else " ")
        scan.at = space.end()
    elif sign in "/#" and text.startswith(("//", "/*", "#"), at):
        _skip_comment(scan)
    elif sign in PAIRS:
        _begin_value(scan)
        scan.open.append(sign)
        if len(scan.open) > MAX_DEPTH:
            raise BrokenJson(f"it is nested more than {MAX_DEPTH} levels deep")
        _put_sign(scan, sign)
    elif sign in "}]":
        _close_bracket(scan, sign)
    elif sign in ",:" or sign in WIDE:
        scan.ended = False
        if sign in WIDE:
            scan.repairs.add("wide signs")
        _put_sign(scan, WIDE.get(sign, sign))
    elif sign in _QUOTES:
        _begin_value(scan)
        _scan_string(scan, sign)
        scan.ended = True
    else:
        _begin_value(scan)
        _scan_plain(scan)
        scan.ended = True


def _put_sign(scan: _Scanner, sign: str) -> None:
    scan.out.append(sign)
    scan.at += 1


def _begin_value(scan: _Scanner) -> None:
    """Begin a value or a key.

    If the value before it ended without a comma, only a key, or the next object of a list on a line of its own, is
    accepted.
    """
    if scan.ended and scan.open:
        own_line = bool(scan.out) and "\n" in scan.out[-1]
        if scan.open[-1] == "{":
            meant = bool(_KEY.match(scan.text, scan.at)) and (own_line or scan.text[scan.at] in _QUOTES)
        else:
            meant = own_line and scan.text[scan.at] == "{" and _get_last_part(scan) == "}"
        if not meant:
            raise BrokenJson("a comma is missing between two of its values")
        scan.out.append(",")
        scan.repairs.add("missing comma")
    scan.ended = False


def _get_last_part(scan: _Scanner) -> str:
    """Return the newest part that is not a space."""
    return next((part for part in reversed(scan.out) if part.strip()), "")


def _close_bracket(scan: _Scanner, sign: str) -> None:
    if PAIRS[scan.open[-1]] != sign:
        raise BrokenJson(f"a {scan.open[-1]} of it is closed by {sign}")
    last = len(scan.out) - 1
    while scan.out[last].isspace():
        last -= 1
    if scan.out[last] == "," and _has_value_before(scan.out, last):
        scan.out[last] = ""
        scan.repairs.add("trailing comma")
    scan.open.pop()
    scan.ended = True
    _put_sign(scan, sign)


def _has_value_before(parts: list[str], comma: int) -> bool:
    """Return whether there is a value before this comma."""
    before = next((part for part in reversed(parts[max(0, comma - 4) : comma]) if part.strip()), "")
    return before not in ("", ",", ":", "{", "[")


def _skip_comment(scan: _Scanner) -> None:
    closing = "*/" if scan.text.startswith("/*", scan.at) else "\n"
    end = scan.text.find(closing, scan.at)
    if end < 0:
        raise _build_cut_error(scan)
    scan.at = end + (2 if closing == "*/" else 0)
    scan.out.append(" ")
    scan.repairs.add("comment")


def _scan_plain(scan: _Scanner) -> None:
    """Scan a number or a word; invalid JSON is left for the reader to refuse."""
    word = _WORD.match(scan.text, scan.at)
    if word and scan.open[-1] == "{" and _COLON.match(scan.text, word.end()):
        scan.out.append(json.dumps(word[0]))
        scan.repairs.add("key without quotes")
        scan.at = word.end()
        return
    run = _PLAIN.match(scan.text, scan.at)
    if run is None:
        raise BrokenJson(f"it holds {scan.text[scan.at]!r} where a value should stand")
    if run[0].strip(".…") == "":
        raise BrokenJson(f"it leaves something out ({run[0][:10]}); write it whole")
    if run[0] in WORDS:
        scan.repairs.add("Python literal")
    scan.out.append(_mend_number(scan, WORDS.get(run[0], run[0])))
    scan.at = run.end()


def _mend_number(scan: _Scanner, text: str) -> str:
    """Return `+1`, `.5` and `5.` as JSON writes them; anything else unchanged."""
    if not (text[0] in "+." or text[-1] == "." or text.startswith("-.")):
        return text
    parts = _SIGNED.fullmatch(text)
    if parts is None or not (parts[2] or parts[3]):
        return text
    scan.repairs.add("number form")
    return f"{parts[1]}{parts[2] or '0'}{'.' + parts[3] if parts[3] else ''}{parts[4] or ''}"


def _scan_string(scan: _Scanner, sign: str) -> None:
    text, triple = scan.text, sign * 3
    if sign in "\"'`" and text.startswith(triple, scan.at):
        end = text.find(triple, scan.at + 3)
        if end < 0:
            raise _build_cut_error(scan)
        scan.out.append(json.dumps(text[scan.at + 3 : end], ensure_ascii=False))
        scan.repairs.add("triple quotes")
        scan.at = end + 3
        return
    if name := _NAMES.get(sign, "curly quotes"):
        scan.repairs.add(name)
    parts, closing = ['"'], _QUOTES[sign]
    plain = _RUNS[closing]
    is_key = scan.open[-1] == "{" and _get_last_part(scan) in ("{", ",")
    scan.at += 1
    while True:
        if run := plain.match(text, scan.at):
            parts.append(run[0])
            scan.at = run.end()
        if scan.at >= len(text):
            raise _build_cut_error(scan)
        if text[scan.at] == closing and (not scan.inner or _is_closing_quote(scan, is_key)):
            break
        part, scan.at = _scan_character(scan, scan.at, closing)
        parts.append(part)
    scan.out.append("".join([*parts, '"']))
    scan.at += 1


def _build_cut_error(scan: _Scanner) -> BrokenJson:
    """Return the error for a part without an end, after which the whole rest was scanned."""
    scan.at = len(scan.text)
    return BrokenJson(CUT_SHORT)


def _is_closing_quote(scan: _Scanner, is_key: bool) -> bool:
    """Return whether the quote at the scanner's place ends its text, by the characters after it."""
    behind = scan.text[scan.at + 1 : scan.at + 1 + LOOKED_AHEAD]
    rest = behind.lstrip()
    sign = rest[:1]
    if is_key:
        return sign in (":", "\uff1a")
    if sign in _QUOTES:  # two texts without a comma, unless the second sign ends this text
        return len(rest) < len(behind) or not _ENDING.match(rest, 1)
    if sign in ("", "}", "]") or rest.startswith(("//", "/*")):
        return True
    if sign in (",", "\uff0c"):
        after = rest[1:].lstrip()
        if scan.open[-1] == "{":
            return not after or after[0] == "}" or after.startswith(("//", "/*", "#")) or bool(_KEY.match(after))
        return not after or bool(_VALUE.match(after))
    return "\n" in behind[: len(behind) - len(rest)] and scan.open[-1] == "{" and bool(_KEY.match(rest))


def _scan_character(scan: _Scanner, at: int, closing: str) -> tuple[str, int]:
    """Return (the JSON for the character at a place of a text, the place of the next one)."""
    sign, following = scan.text[at], scan.text[at + 1 : at + 2]
    if sign == "\\":
        if following == closing and closing != '"':
            return ('\\"' if following == '"' else following), at + 2
        if following and following in _ESCAPES:
            return sign + following, at + 2
        if code := _HEX.match(scan.text, at + 1):
            if code[0][0] == "x":
                scan.repairs.add("Python literal")
            return f"\\u{code[0][1:]:0>4}", code.end()
        if not following or following == "x":
            raise BrokenJson("it holds an escape that JSON does not have")
        scan.repairs.add("lone backslash")
        return (following, at + 2) if following in _NO_ESCAPE else ("\\\\", at + 1)
    if sign in CONTROL:
        scan.repairs.add("raw newline")
        return CONTROL[sign], at + 1
    if sign == closing:
        scan.repairs.add("quote not escaped")
        scan.kept += 1
        if scan.kept > MOST_KEPT:
            raise BrokenJson("too many quotes in its texts are not escaped")
    return ('\\"' if sign == '"' else sign), at + 1
