"""Facts that the agent of an imported task must state: `contains`, a list of substrings of the agent's last message.

The rule is the source's own (tau2's communicated facts) and weak: a denial of the fact passes as well. Tasks that are
made here have an answer form instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.contracts import CheckRecord
from synthesis.errors import FormatError
from synthesis.formats.values import read_list_field, shorten_text

MOST_FACTS = 50
FACT_CHARS = 500
WEAK = "a substring of what was said"
_HEAD = "def check(initial_state, final_state, answer):\n    return "
_TAIL = " in (answer or '').lower()\n"


def read_facts(raw: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Read the facts of a task's record; empty if it has none. Raise FormatError if they are invalid."""
    listed = read_list_field(dict(raw), "contains", place)
    if len(listed) > MOST_FACTS:
        raise FormatError(f"{place}.contains", f"{len(listed)} texts; at most {MOST_FACTS} are allowed")
    for index, fact in enumerate(listed):
        if not isinstance(fact, str) or not fact.strip() or len(fact) > FACT_CHARS:
            raise FormatError(f"{place}.contains[{index}]", f"expected a text of 1 to {FACT_CHARS} characters")
    if listed and raw.get("answer_form"):
        reason = (
            "the answer of a task with an answer form is data, so nothing that is said counts; leave one of them out"
        )
        raise FormatError(f"{place}.contains", reason)
    return tuple(dict.fromkeys(listed))


def build_fact_checks(facts: Sequence[str]) -> tuple[CheckRecord, ...]:
    """Return a check for each fact: it tests if the agent's last message contains it, ignoring case."""
    return tuple(
        CheckRecord(label=f"The agent said: {shorten_text(fact, 200)}", source=f"{_HEAD}{fact.lower()!r}{_TAIL}")
        for fact in facts
    )


def add_fact_checks(own: Sequence[CheckRecord], facts: Sequence[str]) -> tuple[CheckRecord, ...]:
    """Return the checks of a task followed by those of its facts, each source once."""
    own_sources = {check.source for check in own}
    return (*own, *(check for check in build_fact_checks(facts) if check.source not in own_sources))


def is_fact_check(source: str) -> bool:
    """Return whether a check was made from a fact."""
    return source.startswith((f"{_HEAD}'", f'{_HEAD}"')) and source.endswith(_TAIL) and source.count("\n") == 2
