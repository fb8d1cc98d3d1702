"""Forms in which an author replies with code: reasoning nodes, and a call's arguments. One block each, because code is
never requested inside JSON.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from synthesis import syntax
from synthesis.contracts.blueprints import ArgumentSource
from synthesis.errors import InputError
from synthesis.scenarios.states import AuthorReply
from synthesis.tool_graph.dag import AddedNode

MOST_ARGUMENTS = 60
MOST_NODES = 20
TOLD_CHARS = 400
_NODE = re.compile(r"^#[ \t]*Node[ \t]*:[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)
_AFTER = re.compile(r"^#[ \t]*After[ \t]*:[ \t]*(\S*)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PARAMETER = re.compile(r"^#[ \t]*Parameter[ \t]*:[ \t]*(\S*)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_KNOWN = ("intent", "tool")


class GivenArgument(AuthorReply):
    """One value as the author gives it. `node` is the node whose result it is taken from, `derivation` the code that
    computes it.
    """

    name: str = Field(max_length=200)
    source: ArgumentSource
    value: Any = None
    node: str = Field(default="", max_length=10)
    derivation: str = Field(default="", max_length=4_000)


def read_reasoning_nodes(source: str) -> list[AddedNode]:
    """Return the reasoning nodes in a block of code, each function below its lines `# Node: ` and `# After: `; none in
    a block without such a line. Raises InputError.
    """
    nodes = []
    for number, (purpose, code) in enumerate(_split_at_headings(source, _NODE), 1):
        after = _AFTER.search(code)
        if after is None:
            raise InputError(f"reasoning node {number}: no line `# After: ` with the id of the call it stands behind")
        derivation = code[after.end() :].strip() + "\n"
        nodes.append(_validate_value(AddedNode, {"after": after[1], "purpose": purpose, "derivation": derivation}))
    if len(nodes) > MOST_NODES:
        raise InputError(f"there are {len(nodes)} reasoning nodes; put in fewer")
    return nodes


def read_arguments(source: str) -> list[GivenArgument]:
    """Return the values of a call in a block of code: `VALUES` and `SOURCES`, and a function below `# Parameter: ` for
    each derived value. Raises InputError.
    """
    parts = _split_at_headings(source, _PARAMETER)
    first = _PARAMETER.search(source)
    head = source[: first.start()] if first else source
    assigned = _read_head(head)
    values, sources = assigned.get("VALUES", {}), assigned.get("SOURCES", {})
    if values.keys() != sources.keys():
        odd = sorted(values.keys() ^ sources.keys())
        raise InputError(f"VALUES and SOURCES must name the same parameters; {odd[0]!r:.80} is in one of them only")
    given_values: list[dict[str, Any]] = []
    for name, value in values.items():
        named_source = sources[name]
        is_known = named_source in _KNOWN
        given_values.append(
            {
                "name": name,
                "value": value,
                "source": named_source if is_known else "result",
                "node": "" if is_known else named_source,
            }
        )
    given_values += [{"name": name, "source": "derivation", "derivation": code.strip() + "\n"} for name, code in parts]
    if len(given_values) > MOST_ARGUMENTS:
        raise InputError(f"{len(given_values)} values are given, and no call takes so many")
    return [_validate_value(GivenArgument, item) for item in given_values]


def _split_at_headings(source: str, heading: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return the text of each heading, with the code below it."""
    places = list(heading.finditer(source))
    ends = [*(place.start() for place in places[1:]), len(source)]
    return [(place[1].strip(), source[place.end() : end]) for place, end in zip(places, ends, strict=False)]


def _read_head(head: str) -> Mapping[str, dict[str, Any]]:
    """Return the dictionaries that are assigned above the first function."""
    try:
        tree = syntax.parse_module(head)
    except syntax.UNREADABLE:
        raise InputError("what stands above the first `# Parameter: ` is no Python") from None
    assigned: dict[str, dict[str, Any]] = {}
    for part in tree.body:
        target = part.targets[0] if isinstance(part, ast.Assign) else None
        if not isinstance(part, ast.Assign) or not isinstance(target, ast.Name):
            continue
        try:
            value = syntax.read_literal(ast.get_source_segment(head, part.value) or "")
        except (*syntax.UNREADABLE, TypeError):
            raise InputError(
                f"{target.id} must be a plain Python value; write a function for what is computed"
            ) from None
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise InputError(f"{target.id} must be a dictionary by the names of parameters")
        assigned[target.id] = value
    return assigned


def _validate_value(wanted: type[Any], value: dict[str, Any]) -> Any:
    try:
        return wanted.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:TOLD_CHARS]) from None
