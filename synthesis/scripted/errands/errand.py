"""Errands: one call in a user's words, with the answer requested and the facts that hold once it is done."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.scripted.programs.solver import Recipe, Steps

Edges = Mapping[str, tuple[tuple[str, str], ...]]
_PLACES: dict[str, str] = {
    "text": r"(?P<text>[A-Z]\w+(?: \w+)*)",
    "status": r"(?P<status>[a-z]+)",
}
_ID, _NUMBER = r"(?P<{0}>[A-Z]-\d+)", r"(?P<{0}>\d+)"
_HOLE = re.compile(r"\\\{(\w+)\\\}")


@dataclass(frozen=True)
class Errand:
    """One errand.

    `said` is a sentence with the values of the call in it; `always` are values implied by this sentence. `asks` is a
    field of the answer form (None: it asks nothing), whose value is computed by the last expression, Python over `r`,
    which is the result of the call. `holds` is a fact about the change, with values of the call or of its result.
    """

    tool: str
    said: str
    always: Mapping[str, Any] = field(default_factory=dict)
    asks: Mapping[str, str] | None = None
    told: str = ""
    holds: str = ""

    @property
    def takes(self) -> frozenset[str]:
        """The parameters that the sentence has a place for."""
        return frozenset(re.findall(r"\{(\w+)\}", self.said))

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that finds it in words."""
        return re.compile(_HOLE.sub(_spell_hole, re.escape(self.said)))

    def read(self, said: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of the call that the matched words mean."""
        return {name: int(value) if value.isdigit() else value for name, value in said.items()} | dict(self.always)


@dataclass(frozen=True)
class Said:
    """Errand with the arguments of its call, and the name of its field among those of a whole task ("": none)."""

    errand: Errand
    arguments: Mapping[str, Any]
    field: str = ""

    @property
    def words(self) -> str:
        return self.errand.said.format(**self.arguments)


def find_errand(tool: str, arguments: Mapping[str, Any], errands: Sequence[Errand]) -> Said | None:
    """Return the errand for a call. Values that the errand has no place for are dropped if there is one without
    them."""
    for errand in sorted(errands, key=lambda one: -len(one.takes)):
        fits = errand.tool == tool and errand.takes <= arguments.keys()
        if fits and all(arguments.get(name) == value for name, value in errand.always.items()):
            return Said(errand, {name: arguments[name] for name in sorted(errand.takes)} | dict(errand.always))
    return None


def name_fields(said: Iterable[Said]) -> list[Said]:
    """Return the errands of a task, each that requests an answer with a field of its own."""
    named_errands: list[Said] = []
    name_counts: Counter[str] = Counter()
    for said_errand in said:
        name = ""
        if said_errand.errand.asks is not None:
            name_counts[said_errand.errand.asks["name"]] += 1
            count = name_counts[said_errand.errand.asks["name"]]
            name = said_errand.errand.asks["name"] + (f"_{count}" if count > 1 else "")
        named_errands.append(Said(said_errand.errand, said_errand.arguments, name))
    return named_errands


def make_errand_recipe(errands: Sequence[Errand]) -> Recipe:
    """Return the recipe for words that hold one or more of these errands, done in the order of the words."""

    def start_steps(words: str) -> Steps | None:
        errands_found = sorted(_find_said_errands(words, errands), key=lambda pair: pair[0])
        return _run_errands(name_fields(said for _, said in errands_found)) if errands_found else None

    return start_steps


def compute_answer(errand: Errand, result: Any) -> Any:
    """Return the answer computed from a call's result. The expression is code of this repository."""
    return eval(errand.told, {"len": len, "r": result})


def _find_said_errands(words: str, errands: Sequence[Errand]) -> Iterator[tuple[int, Said]]:
    seen_words: set[str] = set()
    for errand in errands:
        for match in errand.pattern.finditer(words):
            if match[0] not in seen_words:  # a conversation may repeat it
                seen_words.add(match[0])
                yield match.start(), Said(errand, errand.read(match.groupdict()))


def _run_errands(said: Sequence[Said]) -> Steps:
    answer: dict[str, Any] = {}
    for said_errand in said:
        result = yield said_errand.errand.tool, dict(said_errand.arguments)
        if said_errand.field:
            answer[said_errand.field] = compute_answer(said_errand.errand, result)
    return "All of it is done.", answer


def _spell_hole(match: re.Match[str]) -> str:
    name = match[1]
    return _PLACES.get(name) or (_ID if name.endswith("_id") else _NUMBER).format(name)
