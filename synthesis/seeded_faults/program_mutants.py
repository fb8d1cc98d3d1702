"""Mutants of one method: each with one fault of the sort that authors make, as another source of the method."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from synthesis.formats.signatures import MUTATORS
from synthesis.syntax import parse

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
    """One fault that a method can be given, and where: `place` numbers the node of its tree."""

    kind: FaultKind
    place: int
    change: _Change
    about: str


def plain_source(source: str) -> str:
    """A method as all are written here, mutants or not, so that nothing but the fault tells them apart."""
    return ast.unparse(parse(textwrap.dedent(source))) + "\n"


def mutations(source: str) -> list[Mutation]:
    """Every fault that a method's source can be given."""
    (method,) = parse(plain_source(source)).body
    words = sorted({text for text in _texts(method) if text.isidentifier() and text.islower()})
    fields = sorted({text for node in ast.walk(method) if (text := _field(node))})
    found: list[Mutation] = []
    for place, node in enumerate(ast.walk(method)):
        line = getattr(node, "lineno", 0)
        for kind, change, about in _changes(node, words, fields):
            found.append(Mutation(kind, place, change, f"line {line}: {about}"))
    return found


def mutant(source: str, mutation: Mutation) -> str:
    """The method's source with the fault in it."""
    tree = copy.deepcopy(parse(plain_source(source)))
    mutation.change(list(ast.walk(tree.body[0]))[mutation.place])
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


_Found = Iterator[tuple[FaultKind, _Change, str]]


def _changes(node: ast.AST, words: list[str], fields: list[str]) -> _Found:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _of_comparison(node, words)
    elif isinstance(node, ast.BoolOp):
        yield "condition", _swap_and_or, "and and or exchanged"
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        yield from _of_arithmetic(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and (field := _field(node)):
        for other in [name for name in fields if name != field][:3]:
            yield "wrong_field", _set_field(other), f"{other} instead of {field}"
    elif isinstance(node, ast.comprehension | ast.For):
        yield "missing_row", _skip_first, "the first entry is skipped"
    elif isinstance(node, ast.Call) and _sorts(node):
        yield "wrong_sort", _other_order, "sorted the other way"
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        yield from _of_value(node, words)
    yield from _of_block(node)


def _of_comparison(node: ast.Compare, words: list[str]) -> _Found:
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


def _of_arithmetic(node: ast.BinOp | ast.AugAssign) -> _Found:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    texts = ast.JoinedStr | ast.List | ast.ListComp
    if any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str)) for side in sides
    ):
        return
    if isinstance(node.op, ast.Add | ast.Sub):
        yield "arithmetic", _set_op(ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()), "added or taken off"
    elif isinstance(node.op, ast.Mult):
        yield "arithmetic", _set_op(ast.Add()), "added instead of multiplied"
    last = sides[-1]
    if isinstance(last, ast.Constant) and type(last.value) is int:
        yield "off_by_one", _add_one_at_the_end, f"{last.value + 1} instead of {last.value}"


def _of_value(node: ast.Assign, words: list[str]) -> _Found:
    """What is written into a record: another flag or another of the words that the method knows."""
    value = node.value.value if isinstance(node.value, ast.Constant) else None
    if not isinstance(node.targets[0], ast.Subscript | ast.Attribute):
        return
    if isinstance(value, bool):
        yield "constant", _set_value(not value), f"{not value} instead of {value}"
    elif isinstance(value, str):
        for other in [word for word in words if word != value][:2]:
            yield "constant", _set_value(other), f"{other!r} instead of {value!r}"


def _of_block(node: ast.AST) -> _Found:
    """What a block of statements can lose: a guard, or a write."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        for number, statement in enumerate(block if isinstance(block, list) else ()):
            if _guards(statement):
                yield "missing_guard", _lose(name, number), f"without: {ast.unparse(statement.test)[:80]}"
            elif _writes(statement):
                yield "lost_write", _lose(name, number), f"without: {ast.unparse(statement)[:80]}"


def _guards(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Return)


def _writes(statement: ast.stmt) -> bool:
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


def _field(node: ast.AST) -> str:
    """The field that a subscript names (`rider["name"]`)."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _texts(method: ast.stmt) -> Iterator[str]:
    """Texts that are compared with or written into records."""
    for node in ast.walk(method):
        parts = [*node.comparators, node.left] if isinstance(node, ast.Compare) else []
        parts += [node.value] if isinstance(node, ast.Assign) else []
        for part in parts:
            for leaf in ast.walk(part) if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]:
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def _sorts(node: ast.Call) -> bool:
    named = isinstance(node.func, ast.Name) and node.func.id == "sorted"
    return named or (isinstance(node.func, ast.Attribute) and node.func.attr == "sort")


def _set_operator(operator: ast.cmpop) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops = [operator]

    return change


def _set_right(value: str | int) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.comparators = [ast.Constant(value)]

    return change


def _set_op(operator: ast.operator) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        node.op = operator

    return change


def _set_value(value: str | bool) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Assign)
        node.value = ast.Constant(value)

    return change


def _set_field(name: str) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Subscript)
        node.slice = ast.Constant(name)

    return change


def _lose(block: str, number: int) -> _Change:
    def change(node: ast.AST) -> None:
        statements = getattr(node, block)
        statements[number : number + 1] = [] if len(statements) > 1 else [ast.Pass()]

    return change


def _swap_and_or(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _add_one_at_the_end(node: ast.AST) -> None:
    name = "right" if isinstance(node, ast.BinOp) else "value"
    number = getattr(node, name)
    assert isinstance(number, ast.Constant)
    assert isinstance(number.value, int)
    setattr(node, name, ast.Constant(number.value + 1))


def _skip_first(node: ast.AST) -> None:
    assert isinstance(node, ast.comprehension | ast.For)
    every = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
    node.iter = ast.Subscript(every, ast.Slice(lower=ast.Constant(1)), ast.Load())


def _other_order(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    named = next((keyword for keyword in node.keywords if keyword.arg == "reverse"), None)
    if named is None:
        node.keywords.append(ast.keyword("reverse", ast.Constant(True)))
    else:
        named.value = ast.UnaryOp(ast.Not(), named.value)
