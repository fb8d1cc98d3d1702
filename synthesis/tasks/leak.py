"""Leaks in instructions: names inside the system, which a user cannot know.

A name counts if it cannot be mistaken for an ordinary word: it is spelled like code (`waiting_list`, `WaitingEntry`),
occurs in code quotes or before a bracket, or is called a tool. `status` alone is a word that people use. Ids that are
printed on paper (`A-113`, `PAT1002`) may be known to a user; machine-made ones (`usr_17`, a UUID) are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from synthesis.assessment.environments import build_view
from synthesis.assessment.truncated_names import iter_schema_words
from synthesis.contracts import Frozen
from synthesis.errors import InputError
from synthesis.formats.records import EnvironmentRecord

LeakKind = Literal["tool", "field", "id"]
WORDS: dict[LeakKind, str] = {"tool": "a tool", "field": "a name inside the system", "id": "an internal id"}
TOLD = 8
MOST_NAMES = 50_000
_WORD = re.compile(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_TOKEN = re.compile(r"(?<![\w@.])_?[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*_?(?![\w@])")
_QUOTED = re.compile(r"`([^`\n]{1,80})`")
_CALLED = re.compile(r"(?<![\w@.])([A-Za-z_]\w{0,79})\s?\(\s*(?:\)|[\w\"'{\[][^()\n]{0,200}[=,:][^()\n]{0,200}\))")
_NAMED = re.compile(r"(?<!\w)([A-Za-z]+(?:[ -][A-Za-z]+){0,4})\s+(?:tool|endpoint|API)\b", re.IGNORECASE)
_MACHINE = re.compile(
    r"(?<![\w-])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{16,64})(?![\w-])"
)
_KNOWN_FIELDS = frozenset(
    {
        "name",
        "title",
        "username",
        "user_name",
        "login",
        "handle",
        "email",
        "phone",
        "nickname",
        "code",
        "number",
        "path",
    }
)
"""Under these a record keeps what people call it by."""


class Leak(Frozen):
    """Name that leaked: `word` as it occurs in the instruction."""

    word: str
    kind: LeakKind


class Names(Frozen):
    """Names inside a system, normalised to lower-case words joined by `_`."""

    tools: frozenset[str]
    fields: frozenset[str]
    ids: frozenset[str]


def collect_names(record: EnvironmentRecord, state: Mapping[str, Any]) -> Names:
    """Return tools; parameters, state keys, fields and planned names; ids of records that only the system uses."""
    tools = build_view(record).program.tools
    fields = {record.class_name, *state}
    for tool in tools:
        fields |= set(tool.parameters.get("properties", {}))
    fields |= {word for word, _place, _entity in iter_schema_words(record.state_schema)}
    inner, ids = _collect_state_names(state)
    groups = (
        frozenset(map(_normalize_name, names)) - {""} for names in ({tool.name for tool in tools}, fields | inner, ids)
    )
    tool_names, others, internal = groups
    return Names(tools=tool_names, fields=others - tool_names, ids=internal)


def find_leaks(instruction: str, names: Names) -> list[Leak]:
    """Return the names of a system that occur in an instruction, in its order, each once."""
    by_place: dict[tuple[int, str], Leak] = {}
    text = "".join(c for c in unicodedata.normalize("NFKC", instruction) if unicodedata.category(c) != "Cf")
    for place, word, code in _iter_candidates(text):
        kind = _get_leak_kind(word, code, names)
        if kind:
            by_place.setdefault((place, word), Leak(word=word, kind=kind))
    for match in _NAMED.finditer(text):
        words = match[1].replace("-", " ").split()
        called = [" ".join(words[start:]) for start in range(len(words))]
        for word in called:
            if _normalize_name(word) in names.tools:
                by_place.setdefault((match.start(1), word), Leak(word=word, kind="tool"))
    ordered = [by_place[key] for key in sorted(by_place)]
    return list({leak.word: leak for leak in ordered}.values())


def require_no_leak(instruction: str, names: Names) -> None:
    """Raise InputError with the leaked names."""
    leaked = find_leaks(instruction, names)
    if leaked:
        leak_texts = ", ".join(f"{leak.word[:80]!r} ({WORDS[leak.kind]})" for leak in leaked[:TOLD])
        raise InputError(f"the instruction names what a user cannot know: {leak_texts}. Say it in the words of a user")


def _get_leak_kind(word: str, code: bool, names: Names) -> LeakKind | None:
    """Return the kind of a word inside the system; a plain word only counts if it is set as code."""
    normal = _normalize_name(word)
    if _MACHINE.fullmatch(word):
        return "id"
    if not code and "_" not in normal:
        return None
    if normal in names.tools:
        return "tool"
    if normal in names.ids:
        return "id"
    return "field" if normal in names.fields else None


def _iter_candidates(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (place, word, whether it is set as code) of all that could be a name."""
    yield from ((match.start(), match[0], False) for match in _TOKEN.finditer(text))
    yield from ((match.start(), match[0], True) for match in _MACHINE.finditer(text))
    yield from ((match.start(1), match[1], True) for match in _CALLED.finditer(text))
    for match in _QUOTED.finditer(text):
        yield from ((match.start(1), word[0], True) for word in _WORD.finditer(match[1]))


def _normalize_name(name: str) -> str:
    """Return the normal form: `cancelOrder`, `cancel order` and `cancel_order` are one name."""
    return "_".join(part.lower() for part in _PARTS.findall(name))


def _collect_state_names(state: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return names of fields, and ids that no record shows to people, below a state's keys."""
    fields: set[str] = set()
    ids: set[str] = set()
    waiting: list[Any] = list(state.values())
    while waiting and len(fields) + len(ids) < MOST_NAMES:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict) and value:
            if all(isinstance(item, dict) for item in value.values()):
                ids |= {
                    key for key, item in value.items() if _is_internal_id(key) and key not in _list_shown_values(item)
                }
            else:
                fields |= set(value)
                own_ids = (item for key, item in value.items() if key == "id" or key.endswith("_id"))
                shown_values = _list_shown_values(value)
                ids |= {
                    record_id
                    for record_id in own_ids
                    if isinstance(record_id, str) and _is_internal_id(record_id) and record_id not in shown_values
                }
            waiting += value.values()
    return fields, ids


def _is_internal_id(key: str) -> bool:
    """Return whether an id looks as only programs write it: `usr_17`, `check_up`."""
    return "_" in key.strip("_")


def _list_shown_values(record: Mapping[str, Any]) -> set[str]:
    return {value for key, value in record.items() if key in _KNOWN_FIELDS and isinstance(value, str)}
