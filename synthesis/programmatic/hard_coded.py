"""Ids and names in a solution script that are not in the words of the task: the script has no source for them.

Only text that distinguishes one record from others counts: the key of a record, or the value of a field that differs in
each record. Text of the program itself (a status, a unit), days and times do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from synthesis.contracts import Program, State
from synthesis.syntax import parse_module

LEAST_RECORDS = 3
"""Of fewer records any field may happen to differ in each."""
_TELLING = re.compile(r"(?=.*[^\W\d_])(?!\d{4}-\d\d-\d\d)\S.+")
"""Text with a letter in it, and more than one character; neither a day nor a moment."""


def find_hard_coded(source: str, instruction: str, program: Program, initial: State) -> list[str]:
    """Return the ids and names of a readable script that neither the words of the task nor the program contain, in
    their order.

    `initial` is encoded.
    """
    constants = [node.value for node in ast.walk(parse_module(source)) if isinstance(node, ast.Constant)]
    texts = dict.fromkeys(value for value in constants if isinstance(value, str) and _TELLING.fullmatch(value))
    if not texts:
        return []
    telling = set(_list_distinguishing(initial))
    known_words = " ".join([instruction, program.source, *(tool.description for tool in program.tools)]).casefold()
    return [text for text in texts if text in telling and not _is_contained(text.casefold(), known_words)]


def _is_contained(text: str, said: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None


def _list_distinguishing(value: Any) -> Iterator[str]:
    """Yield the texts that distinguish records, at any depth."""
    if isinstance(value, Mapping):
        inner = list(value.values())
        if inner and all(isinstance(item, Mapping | list) for item in inner):
            yield from value
            yield from _list_distinct(inner)
    elif isinstance(value, list):
        inner = value
        yield from _list_distinct(inner)
    else:
        return
    for item in inner:
        yield from _list_distinguishing(item)


def _list_distinct(records: Sequence[Any]) -> Iterator[str]:
    """Yield the texts of each field that no two of the records share."""
    if len(records) < LEAST_RECORDS or not all(isinstance(record, Mapping) for record in records):
        return
    for name in records[0]:
        values = [record.get(name) for record in records]
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) == len(values) == len(set(texts)):
            yield from texts
