"""Names on which the separately written methods of one program must agree: of parameters and of results."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from synthesis.drafts import Plan
from synthesis.runtime import Method, derive_working_schema, outline_program
from synthesis.runtime.program import class_methods
from synthesis.syntax import parse_module

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
MOST = 12
REASONS = frozenset(("error", "message", "reason", "msg", "detail", "details"))
"""Names under which refusals say why."""
GENERIC = frozenset(("data", "result", "results", "response", "output"))
"""Names of results that do not say what they hold."""
_DAY_ENDS = ("_on", "_date", "_day")


def find_disagreements(source: str, class_name: str, plan: Plan) -> list[str]:
    """Return the names on which the planned methods of a valid program do not agree, one sentence each.

    Parameters that a tool document fixes are not compared.
    """
    planned = {operation.name for operation in plan.operations}
    free = {operation.name for operation in plan.operations if operation.parameters is None}
    methods = [method for method in outline_program(source, class_name).methods if method.name in free]
    parameters = _group_by_parameter(methods)
    problems = [
        *_find_spelling_variants(parameters, "parameters"),
        *_find_id_variants(parameters, methods),
        *_find_day_variants(parameters),
        *_find_type_conflicts(methods),
    ]
    nodes = class_methods(parse_module(source), class_name)
    problems += _find_result_conflicts({name: node for name, node in nodes.items() if name in planned})
    return list(dict.fromkeys(problems))[:MOST]


def _group_by_parameter(methods: Iterable[Method]) -> dict[str, list[str]]:
    """Return the methods that take each parameter."""
    by_parameter: dict[str, list[str]] = defaultdict(list)
    for method in methods:
        for parameter in method.parameters:
            by_parameter[parameter.name].append(method.name)
    return by_parameter


def _find_spelling_variants(names: dict[str, list[str]], what: str) -> Iterator[str]:
    """Yield names that differ only in how they are joined: `memberId` and `member_id`."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[name.lower().replace("_", "")].append(name)
    for group in alike.values():
        if len(group) > 1:
            yield f"the {what} {_format_uses(group, names)} are one thing: give it one name"


def _find_id_variants(taken: dict[str, list[str]], methods: Iterable[Method]) -> Iterator[str]:
    """Yield `member` in addition to `member_id`, and `id` alone."""
    texts = {
        parameter.name
        for method in methods
        for parameter in method.parameters
        if parameter.annotation in ("str", "int")
    }
    for name in taken:
        if f"{name}_id" in taken and name in texts:
            yield f"the parameters {_format_uses([name, f'{name}_id'], taken)} seem to be one thing: give it one name"
    id_names = [name for name in taken if name.endswith("_id")]
    if "id" in taken and id_names:
        takers, others = _format_names(taken["id"]), _format_names(id_names)
        yield f"{takers} takes `id`, where others take {others}: say whose id it is"


def _find_day_variants(taken: dict[str, list[str]]) -> Iterator[str]:
    """Yield `due_on` in addition to `due_date`."""
    stems: dict[str, list[str]] = defaultdict(list)
    for name in taken:
        for end in _DAY_ENDS:
            if name.endswith(end):
                stems[name.removesuffix(end)].append(name)
    for group in stems.values():
        if len(group) > 1:
            yield f"the parameters {_format_uses(group, taken)} seem to be one day: give it one name"


def _find_type_conflicts(methods: Iterable[Method]) -> Iterator[str]:
    """Yield names of a text in one method and a number in another."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for method in methods:
        for name, rule in derive_working_schema(method)["properties"].items():
            declared_type = rule.get("type")
            type_names = sorted(
                set(declared_type if isinstance(declared_type, list) else [declared_type]) - {"null", None}
            )
            if len(type_names) == 1:
                kinds[name][type_names[0]].append(method.name)
    for name, by_kind in kinds.items():
        if len(by_kind) > 1 and set(by_kind) != {"integer", "number"}:
            type_names = [f"{kind} in {_format_names(where)}" for kind, where in by_kind.items()]
            yield f"the parameter {name} is {' and '.join(type_names)}: give one name one type"


def _find_result_conflicts(methods: dict[str, AnyFunction]) -> Iterator[str]:
    """Yield conflicts of keys of the objects that methods return, if they are literals."""
    reasons: dict[str, list[str]] = defaultdict(list)
    keys: dict[str, list[str]] = defaultdict(list)
    for name, node in methods.items():
        for refused, key in _iter_returned_keys(node):
            if refused and key in REASONS:
                reasons[key].append(name)
            elif not refused:
                keys[key].append(name)
    if len(reasons) > 1:
        usual = Counter({key: len(set(where)) for key, where in reasons.items()}).most_common(1)[0][0]
        for key, where in reasons.items():
            if key != usual:
                yield f"{_format_names(where)} say why they refuse as {key!r}, the others as {usual!r}: use {usual!r}"
    yield from _find_spelling_variants(keys, "results")
    answering = {name for where in keys.values() for name in where}
    for key in sorted(GENERIC & keys.keys()):
        if 2 * len(set(keys[key])) <= len(answering):
            answerers = _format_names(keys[key])
            yield f"{answerers} return their result as {key!r}: name what it holds, as the other methods do"


def _iter_returned_keys(method: AnyFunction) -> Iterator[tuple[bool, str]]:
    """Yield (whether it refuses, key) of each text key of the objects that a method returns."""
    for node in ast.walk(method):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            pairs = list(zip(node.value.keys, node.value.values, strict=True))
            fields = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
            success = fields.get("success")
            refused = isinstance(success, ast.Constant) and success.value is False
            yield from ((refused, key) for key in fields if isinstance(key, str) and key != "success")


def _format_uses(group: Iterable[str], where: dict[str, list[str]]) -> str:
    return " and ".join(f"{name} (of {_format_names(where[name])})" for name in group)


def _format_names(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:4]) + (f" and {len(distinct) - 4} more" if len(distinct) > 4 else "")
