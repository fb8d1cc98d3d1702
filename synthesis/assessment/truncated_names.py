"""Identifiers that lost letters at an end, found by comparing a state schema with the program's own names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from synthesis.contracts import Finding

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
IN_BRACKETS = re.compile(r"\([^()]*\)")
ENDINGS = frozenset({"s", "d", "ed", "ing", "r", "er", "ly"})
"""What may follow a whole word to make another whole word: plurals and tenses are no cuts."""
DERIVED = frozenset(
    {"or", "al", "ion", "ive", "ant", "ent", "ity", "y", "id", "ids", "ism", "ist", "ful", "ery", "age", "n"}
)
HISSING = ("s", "x", "z", "ch", "sh", "o")


def collect_identifiers(tree: ast.AST) -> set[str]:
    """Return the names in a program: variables, attributes, arguments, functions, classes, keys, identifier-like
    texts."""
    names: set[str] = set()
    for node in ast.walk(tree):
        for name in ("id", "attr", "arg", "name"):
            value = getattr(node, name, None)
            if isinstance(value, str):
                names.add(value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.match(node.value):
            names.add(node.value)
    return names


def find_cut_identifiers(
    state_schema: tuple[dict[str, Any], ...], tree: ast.AST, prose: str = "", source: str = ""
) -> list[Finding]:
    """Return one finding for each entity or attribute of the schema that seems cut, with the likely whole name.

    A name that the program shares is compared with the words of the documentation (`prose`) and of the source, comments
    included: `preferenc` is cut if the documentation says "preference".
    """
    spoken = {word.lower() for word in re.findall(r"[A-Za-z]{5,}", prose)}
    written = spoken | {word.lower() for word in re.findall(r"[A-Za-z]{6,}", source)}
    names = sorted(collect_identifiers(tree))
    whole_names = {name.lower() for name in names}
    words = whole_names | {part.lower() for name in names for part in PARTS.findall(name)}
    findings: dict[str, Finding] = {}
    for word, place, is_entity in iter_schema_words(state_schema):
        single = is_entity or "_" not in word.strip("_")
        is_known = word.lower() in (words if single else whole_names)
        likely = _find_spoken_word(word, spoken, written) if is_known else find_likely_name(word, names)
        if likely or word.startswith("_") or word.endswith("_"):
            findings.setdefault(place, _make_finding(word, place, likely))
    return list(findings.values())


def _make_finding(word: str, place: str, likely: str) -> Finding:
    hint = f", probably {likely!r}" if likely else ""
    return Finding(
        kind="cut_identifier",
        severity="warning",
        place=place[:300],
        message=f"{word!r} seems to have lost letters{hint}.",
        data={"found": word, "likely": likely},
    )


def _is_whole_ending(stem: str, tail: str) -> bool:
    return tail in ENDINGS or (tail == "es" and stem.lower().endswith(HISSING))


def _find_spoken_word(word: str, spoken: set[str], written: set[str]) -> str:
    """Return the word of the documentation or the program of which the last part of a name lost up to three letters."""
    part = (PARTS.findall(word) or [""])[-1].lower()
    if len(part) < 5 or part in spoken:
        return ""
    longer = sorted(full for full in written if full.startswith(part) and 0 < len(full) - len(part) <= 3)
    tails = ((full, full[len(part) :]) for full in longer)
    return next((full for full, tail in tails if not _is_whole_ending(part, tail) and tail not in DERIVED), "")


def iter_schema_words(state_schema: tuple[dict[str, Any], ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield each entity and attribute name with its place, and whether it is an entity."""
    for item in state_schema:
        entity = item.get("entity")
        entity = IN_BRACKETS.sub("", entity).strip() if isinstance(entity, str) else ""
        if WORD.match(entity):
            yield entity, f"state_schema.{entity}", True
        for word in list_attribute_names(item.get("attributes")):
            yield word, f"state_schema.{entity}.{word}", False


def list_attribute_names(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value)
    if isinstance(value, str):
        value = IN_BRACKETS.sub("", value).split(",")
    if not isinstance(value, list):
        return []
    texts = [item.get("name") if isinstance(item, dict) else item for item in value]
    names = [re.split(r"[:\s(]", text.strip(), maxsplit=1)[0] for text in texts if isinstance(text, str)]
    return [name for name in names if WORD.match(name)]


def find_likely_name(word: str, names: list[str]) -> str:
    """Return the program's name that `word` is a piece of, cut inside a word; empty if there is none."""
    small = word.lower()
    best = ""
    for name in names:
        if len(name) <= len(word) or len(word) < 2:
            continue
        if name.lower().startswith(small) and name[len(word)].islower():
            rest = PARTS.match(name[len(word) :])
            tail = rest[0] if rest else ""
            candidate = name[: len(word) + len(tail)]
            if _is_whole_ending(word, tail) or len(tail) > 6:
                continue
        elif name.lower().endswith(small) and name[-len(word) - 1].isalpha() and word[0].islower():
            candidate = name
            if len(PARTS.findall(name[: -len(word)])) > 1 and "_" not in word:
                continue
        else:
            continue
        if not best or len(candidate) < len(best):
            best = candidate
    return best
