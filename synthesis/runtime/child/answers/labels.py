"""Names and phrases in a text: of people, places and things, with or without accents and articles."""

from __future__ import annotations

from collections.abc import Sequence

from .lexicon import words
from .numerals import SMALL
from .statements import Candidate
from .tokens import Token, cut

_EMPTY = words("the a an of and mr mrs ms miss dr prof de da al la le von van der")
_COMMON = words("will may mark grace hope rose bill art joy dawn june april august sun page young long")
"""Names that are words as well: written small they are those."""


def parts_of(name: str) -> list[str]:
    """The words and numbers that a name is made of, folded; numbers in digits."""
    parts = [_digits(token) for token in cut(name) if token.kind != "sign"]
    return [part for part in parts if part not in _EMPTY] or parts


def _digits(token: Token) -> str:
    if token.kind == "number":
        return token.raw.lstrip("0") or "0"
    return str(SMALL[token.text]) if token.text in SMALL else token.text.removesuffix("'s")


def names(tokens: list[Token], known: Sequence[str]) -> list[Candidate]:
    """Where known names are named, in whole or by a part.

    The value of a candidate is the set of the indices of names that it may stand for: of `Kwame`, all that are called
    so. A candidate that means one name is strong.
    """
    spelled = [parts_of(name) for name in known]
    bearers: dict[str, set[int]] = {}
    for index, parts in enumerate(spelled):
        for part in parts:
            bearers.setdefault(part, set()).add(index)
    longest = max(map(len, spelled), default=0)
    found: list[Candidate] = []
    at = 0
    while at < len(tokens):
        if not _bears(tokens[at], bearers):
            at += 1
            continue
        run, meant = [at], bearers[_digits(tokens[at])]
        while len(run) < longest and (following := _next(tokens, run[-1], bearers)) is not None:
            narrower = meant & bearers[_digits(tokens[following])]
            if not narrower or [_digits(tokens[place]) for place in run] in spelled:
                break
            run.append(following)
            meant = narrower
        parts = [_digits(tokens[place]) for place in run]
        meant = {index for index in meant if spelled[index] == parts} or meant
        found.append(Candidate(run[0], run[-1], meant, strong=len(meant) == 1))
        at = run[-1] + 1
    return found


def _bears(token: Token, bearers: dict[str, set[int]]) -> bool:
    if token.kind == "sign" or _digits(token) not in bearers:
        return False
    return token.text not in _COMMON or token.raw[0].isupper()


def _next(tokens: Sequence[Token], last: int, bearers: dict[str, set[int]]) -> int | None:
    """The next token of the same mention: glued signs, initials and little words may stand between."""
    place = last + 1
    while place < len(tokens) and place - last <= 2:
        token = tokens[place]
        if _bears(token, bearers):
            return place
        if not (token.raw in "-.'" or token.text in _EMPTY - {"and"} or (len(token.raw) == 1 and token.raw.isupper())):
            return None
        if token.raw == "." and len(tokens[place - 1].raw) > 2:
            return None
        place += 1
    return None


def codes(tokens: list[Token], known: Sequence[str]) -> list[Candidate]:
    """Where known codes (`AE16-3TN8`) stand, whatever their case and the signs and spaces in them."""
    flat = {_flat(code): index for index, code in reversed(list(enumerate(known)))}
    longest = max(map(len, flat), default=0)
    found: list[Candidate] = []
    at = 0
    while at < len(tokens):
        text, last, hit = "", at, None
        while last < len(tokens) and len(text) <= longest:
            token = tokens[last]
            if token.kind == "sign" and (token.raw not in "-/. " or not text):
                break
            text += "" if token.kind == "sign" else _flat(token.raw)
            whole = last + 1 >= len(tokens) or not tokens[last + 1].glued or tokens[last + 1].kind == "sign"
            if text in flat and whole and not (at and tokens[at].glued and tokens[at - 1].kind != "sign"):
                hit = (last, flat[text])
            last += 1
        if hit is not None:
            found.append(Candidate(at, hit[0], {hit[1]}, strong=True))
            at = hit[0]
        at += 1
    return found


def _flat(code: str) -> str:
    return "".join(sign for sign in code.lower() if sign.isalnum())


def phrases(tokens: list[Token], wanted: Sequence[str]) -> list[Candidate]:
    """Where one of the phrases stands, word by word; a word that ends in `*` stands for all that begin so."""
    spelled = [(index, phrase.split()) for index, phrase in enumerate(map(str.lower, wanted))]
    words = [token for token in tokens if token.kind != "sign"]
    places = [at for at, token in enumerate(tokens) if token.kind != "sign"]
    found = []
    for start in range(len(words)):
        for index, phrase in spelled:
            if start + len(phrase) <= len(words) and all(
                _alike(words[start + offset].text, part) for offset, part in enumerate(phrase)
            ):
                found.append(Candidate(places[start], places[start + len(phrase) - 1], {index}, strong=True))
                break
    return found


def _alike(word: str, part: str) -> bool:
    return word.startswith(part[:-1]) if part.endswith("*") else word == part
