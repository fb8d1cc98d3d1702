"""Names that the methods of one program must agree on, as they are written apart: of parameters and of results."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from synthesis.drafts import Plan
from synthesis.runtime import Method, outline, working_schema
from synthesis.runtime.program import class_methods
from synthesis.syntax import parse

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
MOST = 12
REASONS = frozenset(("error", "message", "reason", "msg", "detail", "details"))
"""Names under which refusals say why."""
GENERIC = frozenset(("data", "result", "results", "response", "output"))
"""Names of results that do not say what they hold."""
_DAY_ENDS = ("_on", "_date", "_day")


def disagreements(source: str, class_name: str, plan: Plan) -> list[str]:
    """On which names the planned methods of a valid program do not agree, one sentence each.

    Parameters that a tool document fixes are what they are, whether they agree or not.
    """
    wanted = {operation.name for operation in plan.operations}
    free = {operation.name for operation in plan.operations if operation.parameters is None}
    methods = [method for method in outline(source, class_name).methods if method.name in free]
    parameters = _parameters(methods)
    found = [
        *_spelled_apart(parameters, "parameters"),
        *_ids(parameters, methods),
        *_days(parameters),
        *_types(methods),
    ]
    nodes = class_methods(parse(source), class_name)
    found += _results({name: node for name, node in nodes.items() if name in wanted})
    return list(dict.fromkeys(found))[:MOST]


def _parameters(methods: Iterable[Method]) -> dict[str, list[str]]:
    """By parameter the methods that take it."""
    taken: dict[str, list[str]] = defaultdict(list)
    for method in methods:
        for parameter in method.parameters:
            taken[parameter.name].append(method.name)
    return taken


def _spelled_apart(names: dict[str, list[str]], what: str) -> Iterator[str]:
    """Names that differ in nothing but how they are joined: `memberId` and `member_id`."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[name.lower().replace("_", "")].append(name)
    for group in alike.values():
        if len(group) > 1:
            yield f"the {what} {_each(group, names)} are one thing: give it one name"


def _ids(taken: dict[str, list[str]], methods: Iterable[Method]) -> Iterator[str]:
    """`member` beside `member_id`, and `id` alone."""
    texts = {
        parameter.name
        for method in methods
        for parameter in method.parameters
        if parameter.annotation in ("str", "int")
    }
    for name in taken:
        if f"{name}_id" in taken and name in texts:
            yield f"the parameters {_each([name, f'{name}_id'], taken)} seem to be one thing: give it one name"
    whole = [name for name in taken if name.endswith("_id")]
    if "id" in taken and whole:
        yield f"{_listed(taken['id'])} takes `id`, where others take {_listed(whole)}: say whose id it is"


def _days(taken: dict[str, list[str]]) -> Iterator[str]:
    """`due_on` beside `due_date`."""
    stems: dict[str, list[str]] = defaultdict(list)
    for name in taken:
        for end in _DAY_ENDS:
            if name.endswith(end):
                stems[name.removesuffix(end)].append(name)
    for group in stems.values():
        if len(group) > 1:
            yield f"the parameters {_each(group, taken)} seem to be one day: give it one name"


def _types(methods: Iterable[Method]) -> Iterator[str]:
    """One name for a text here and a number there."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for method in methods:
        for name, rule in working_schema(method)["properties"].items():
            given = rule.get("type")
            told = sorted(set(given if isinstance(given, list) else [given]) - {"null", None})
            if len(told) == 1:
                kinds[name][told[0]].append(method.name)
    for name, by_kind in kinds.items():
        if len(by_kind) > 1 and set(by_kind) != {"integer", "number"}:
            told = [f"{kind} in {_listed(where)}" for kind, where in by_kind.items()]
            yield f"the parameter {name} is {' and '.join(told)}: give one name one type"


def _results(methods: dict[str, AnyFunction]) -> Iterator[str]:
    """Keys of the objects that methods return, as far as they are written out."""
    reasons: dict[str, list[str]] = defaultdict(list)
    keys: dict[str, list[str]] = defaultdict(list)
    for name, node in methods.items():
        for refused, key in _returned(node):
            if refused and key in REASONS:
                reasons[key].append(name)
            elif not refused:
                keys[key].append(name)
    if len(reasons) > 1:
        usual = Counter({key: len(set(where)) for key, where in reasons.items()}).most_common(1)[0][0]
        for key, where in reasons.items():
            if key != usual:
                yield f"{_listed(where)} say why they refuse as {key!r}, the others as {usual!r}: use {usual!r}"
    yield from _spelled_apart(keys, "results")
    answering = {name for where in keys.values() for name in where}
    for key in sorted(GENERIC & keys.keys()):
        if 2 * len(set(keys[key])) <= len(answering):
            yield f"{_listed(keys[key])} return their result as {key!r}: name what it holds, as the other methods do"


def _returned(method: AnyFunction) -> Iterator[tuple[bool, str]]:
    """(whether it refuses, key) of each text key of the objects that a method returns."""
    for node in ast.walk(method):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            pairs = list(zip(node.value.keys, node.value.values, strict=True))
            fields = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
            success = fields.get("success")
            refused = isinstance(success, ast.Constant) and success.value is False
            yield from ((refused, key) for key in fields if isinstance(key, str) and key != "success")


def _each(group: Iterable[str], where: dict[str, list[str]]) -> str:
    return " and ".join(f"{name} (of {_listed(where[name])})" for name in group)


def _listed(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:4]) + (f" and {len(distinct) - 4} more" if len(distinct) > 4 else "")
