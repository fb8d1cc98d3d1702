"""Mutants of one method: each with one fault of the kind that authors make, as another source of the method."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from synthesis.formats.signatures import MUTATORS
from synthesis.syntax import parse_module

FaultKind = Literal[
    "comparison",
    "off_by_one",
    "constant",
    "condition",
    "arithmetic",
    "missing_guard",
    "wrong_field",
    "lost_write",
    "missing_row",
    "wrong_sort",
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
_Change = Callable[[ast.AST], None]
_OTHER: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Lt: ast.Gt(),
    ast.Gt: ast.Lt(),
}
_NEIGHBOUR: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
}


@dataclass(frozen=True)
class Mutation:
    """One fault that a method can be given, and its location: `place` numbers the node of its tree."""

    kind: FaultKind
    place: int
    change: _Change
    about: str


def normalize_method(source: str) -> str:
    """Return a method in normalised form, used for mutants and originals, so that only the fault distinguishes them."""
    return ast.unparse(parse_module(textwrap.dedent(source))) + "\n"


def list_mutations(source: str) -> list[Mutation]:
    """Return every fault that a method's source can be given."""
    (method,) = parse_module(normalize_method(source)).body
    words = sorted({text for text in _iter_texts(method) if text.isidentifier() and text.islower()})
    fields = sorted({text for node in ast.walk(method) if (text := _get_field_name(node))})
    faults: list[Mutation] = []
    for place, node in enumerate(ast.walk(method)):
        line = getattr(node, "lineno", 0)
        for kind, change, about in _iter_changes(node, words, fields):
            faults.append(Mutation(kind, place, change, f"line {line}: {about}"))
    return faults


def apply_mutation(source: str, mutation: Mutation) -> str:
    """Return the method's source with the fault in it."""
    tree = copy.deepcopy(parse_module(normalize_method(source)))
    mutation.change(list(ast.walk(tree.body[0]))[mutation.place])
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


_Found = Iterator[tuple[FaultKind, _Change, str]]


def _iter_changes(node: ast.AST, words: list[str], fields: list[str]) -> _Found:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _mutate_comparison(node, words)
    elif isinstance(node, ast.BoolOp):
        yield "condition", _swap_and_or, "and and or exchanged"
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        yield from _mutate_arithmetic(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and (field := _get_field_name(node)):
        for other in [name for name in fields if name != field][:3]:
            yield "wrong_field", _set_field(other), f"{other} instead of {field}"
    elif isinstance(node, ast.comprehension | ast.For):
        yield "missing_row", _skip_first, "the first entry is skipped"
    elif isinstance(node, ast.Call) and _is_sorting_call(node):
        yield "wrong_sort", _reverse_order, "sorted the other way"
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        yield from _mutate_value(node, words)
    yield from _mutate_block(node)


def _mutate_comparison(node: ast.Compare, words: list[str]) -> _Found:
    operator, right = node.ops[0], node.comparators[0]
    if type(operator) in _OTHER:
        yield "comparison", _set_operator(_OTHER[type(operator)]), "another comparison"
    if type(operator) in _NEIGHBOUR:
        yield "off_by_one", _set_operator(_NEIGHBOUR[type(operator)]), "the limit itself counts otherwise"
    if isinstance(right, ast.Constant) and isinstance(right.value, str) and right.value in words:
        for other in [word for word in words if word != right.value][:2]:
            yield "constant", _set_right(other), f"{other!r} instead of {right.value!r}"
    if isinstance(right, ast.Constant) and type(right.value) is int:
        yield "off_by_one", _set_right(right.value + 1), f"{right.value + 1} instead of {right.value}"


def _mutate_arithmetic(node: ast.BinOp | ast.AugAssign) -> _Found:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    texts = ast.JoinedStr | ast.List | ast.ListComp
    if any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str)) for side in sides
    ):
        return
    if isinstance(node.op, ast.Add | ast.Sub):
        yield (
            "arithmetic",
            _set_arithmetic(ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()),
            "added or taken off",
        )
    elif isinstance(node.op, ast.Mult):
        yield "arithmetic", _set_arithmetic(ast.Add()), "added instead of multiplied"
    last = sides[-1]
    if isinstance(last, ast.Constant) and type(last.value) is int:
        yield "off_by_one", _add_one_at_end, f"{last.value + 1} instead of {last.value}"


def _mutate_value(node: ast.Assign, words: list[str]) -> _Found:
    """Yield faults of a value written into a record: another flag or another of the words that the method knows."""
    value = node.value.value if isinstance(node.value, ast.Constant) else None
    if not isinstance(node.targets[0], ast.Subscript | ast.Attribute):
        return
    if isinstance(value, bool):
        yield "constant", _set_value(not value), f"{not value} instead of {value}"
    elif isinstance(value, str):
        for other in [word for word in words if word != value][:2]:
            yield "constant", _set_value(other), f"{other!r} instead of {value!r}"


def _mutate_block(node: ast.AST) -> _Found:
    """Yield the omissions of a guard or a write from a block of statements."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        for number, statement in enumerate(block if isinstance(block, list) else ()):
            if _is_guard(statement):
                yield "missing_guard", _delete_statement(name, number), f"without: {ast.unparse(statement.test)[:80]}"
            elif _is_write(statement):
                yield "lost_write", _delete_statement(name, number), f"without: {ast.unparse(statement)[:80]}"


def _is_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Return)


def _is_write(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return any(isinstance(target, ast.Subscript | ast.Attribute) for target in statement.targets)
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.target, ast.Subscript | ast.Attribute)
    if isinstance(statement, ast.Delete):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in MUTATORS - {"sort", "reverse"} and not isinstance(call.func.value, ast.Name)


def _get_field_name(node: ast.AST) -> str:
    """Return the field that a subscript names (`rider["name"]`)."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _iter_texts(method: ast.stmt) -> Iterator[str]:
    """Yield texts that are compared with or written into records."""
    for node in ast.walk(method):
        parts = [*node.comparators, node.left] if isinstance(node, ast.Compare) else []
        parts += [node.value] if isinstance(node, ast.Assign) else []
        for part in parts:
            for leaf in ast.walk(part) if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]:
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def _is_sorting_call(node: ast.Call) -> bool:
    is_sorted_call = isinstance(node.func, ast.Name) and node.func.id == "sorted"
    return is_sorted_call or (isinstance(node.func, ast.Attribute) and node.func.attr == "sort")


def _set_operator(operator: ast.cmpop) -> _Change:
    def replace_operator(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops = [operator]

    return replace_operator


def _set_right(value: str | int) -> _Change:
    def replace_right(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.comparators = [ast.Constant(value)]

    return replace_right


def _set_arithmetic(operator: ast.operator) -> _Change:
    def replace_arithmetic(node: ast.AST) -> None:
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        node.op = operator

    return replace_arithmetic


def _set_value(value: str | bool) -> _Change:
    def replace_value(node: ast.AST) -> None:
        assert isinstance(node, ast.Assign)
        node.value = ast.Constant(value)

    return replace_value


def _set_field(name: str) -> _Change:
    def replace_field(node: ast.AST) -> None:
        assert isinstance(node, ast.Subscript)
        node.slice = ast.Constant(name)

    return replace_field


def _delete_statement(block: str, number: int) -> _Change:
    def delete_statement(node: ast.AST) -> None:
        statements = getattr(node, block)
        statements[number : number + 1] = [] if len(statements) > 1 else [ast.Pass()]

    return delete_statement


def _swap_and_or(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _add_one_at_end(node: ast.AST) -> None:
    name = "right" if isinstance(node, ast.BinOp) else "value"
    number = getattr(node, name)
    assert isinstance(number, ast.Constant)
    assert isinstance(number.value, int)
    setattr(node, name, ast.Constant(number.value + 1))


def _skip_first(node: ast.AST) -> None:
    assert isinstance(node, ast.comprehension | ast.For)
    every = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
    node.iter = ast.Subscript(every, ast.Slice(lower=ast.Constant(1)), ast.Load())


def _reverse_order(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    reverse_keyword = next((keyword for keyword in node.keywords if keyword.arg == "reverse"), None)
    if reverse_keyword is None:
        node.keywords.append(ast.keyword("reverse", ast.Constant(True)))
    else:
        reverse_keyword.value = ast.UnaryOp(ast.Not(), reverse_keyword.value)
