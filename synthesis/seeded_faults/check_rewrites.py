"""Rewrites of a check's source: with one fault of the sort that authors make, or with the same meaning."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence

from synthesis.syntax import parse

Rewrite = tuple[str, str]
"""What was done, and the source."""
_Change = Callable[[ast.AST], ast.AST | None]
HEAD = "def check(initial_state, final_state, answer):\n"
CALL = "as_meant(initial_state, final_state, answer)"


def weaken(source: str) -> Iterator[Rewrite]:
    """Each with one comparison that lets more through."""
    for place, node in enumerate(ast.walk(parse(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield from _weaken_equality(source, place, node)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            yield _edit(source, place, _use_or, "or instead of and")
            for at in range(len(node.values)):
                yield _edit(source, place, _lose_value(at), f"without {ast.unparse(node.values[at])[:80]}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all":
            yield _edit(source, place, _use_any, "any instead of all")
        elif (
            isinstance(node, ast.Dict)
            and len(node.keys) > 1
            and all(isinstance(key, ast.Constant) for key in node.keys)
        ):
            for at, key in enumerate(node.keys):
                yield _edit(source, place, _lose_key(at), f"without the field {ast.unparse(key)[:40] if key else ''}")


def never_fail(source: str) -> Iterator[Rewrite]:
    """Each true whatever the end is."""
    yield "or True in other words", _wrap(source, f"return {CALL} or len(final_state) >= 0")
    yield "only the type is looked at", _wrap(source, f"return isinstance({CALL}, bool)")
    for place, node in enumerate(ast.walk(parse(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield _edit(source, place, _compare_itself, f"{ast.unparse(node.left)[:60]} is compared with itself")
    yield (
        "an error counts as passed",
        _wrap(
            source,
            f"try:\n        return bool({CALL} / 0)\n    except (TypeError, ZeroDivisionError):\n        return True",
        ),
    )


def hold_at_start(source: str, collections: Sequence[str]) -> Iterator[Rewrite]:
    """Each true also as long as nothing was done."""
    for name in collections:
        kept = f"final_state[{name!r}] == initial_state[{name!r}]"
        yield f"passes while {name} is as before", _wrap(source, f"return {CALL} or {kept}")
    yield "passes while nothing has changed", _wrap(source, f"return {CALL} or final_state == initial_state")
    yield (
        "passes if it did at the start",
        _wrap(source, f"return {CALL} or not as_meant(initial_state, initial_state, answer)"),
    )


def negate(source: str) -> Iterator[Rewrite]:
    """The opposite, of the whole and of one comparison."""
    yield "the opposite", _wrap(source, f"return not {CALL}")
    for place, node in enumerate(ast.walk(parse(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield _edit(source, place, _use_unequal, f"!= {ast.unparse(node.comparators[0])[:60]} instead of ==")


def aim_elsewhere(source: str, neighbours: Callable[[str], Sequence[str]]) -> Iterator[Rewrite]:
    """Each looks at another record: one that `neighbours` names in place of an id; or at the start."""
    for place, node in enumerate(ast.walk(parse(source))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for other in neighbours(node.value)[:2]:
                yield _edit(source, place, _use_constant(other), f"{other!r} instead of {node.value!r}")
        elif isinstance(node, ast.Name) and node.id == "final_state" and isinstance(node.ctx, ast.Load):
            yield _edit(source, place, _use_name("initial_state"), "initial_state instead of final_state")


def narrow(source: str) -> Iterator[Rewrite]:
    """Each asks for more than is meant: an order, or the records that were made and given up again."""
    for place, node in enumerate(ast.walk(parse(source))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted":
            yield _edit(source, place, _unsorted, "not sorted before it is compared")
        elif isinstance(node, ast.comprehension):
            for at, test in enumerate(node.ifs):
                yield _edit(source, place, _lose_test(at), f"also where not {ast.unparse(test)[:80]}")
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.LtE):
            yield _edit(source, place, _use_equal, "== instead of <=")


def reword(source: str) -> Iterator[Rewrite]:
    """Each means the same in other syntax."""
    yield "formatted anew", ast.unparse(parse(source)) + "\n"
    yield "through a function of its own", _wrap(source, f"held = {CALL}\n    return True if held else False")
    yield "denied twice", _wrap(source, f"failed = not {CALL}\n    return not failed")
    yield "with an early return", _wrap(source, f"if not {CALL}:\n        return False\n    return True")
    for place, node in enumerate(ast.walk(parse(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield _edit(source, place, _deny_unequal, "not != instead of ==")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "all" and _goes_over(node):
            yield _edit(source, place, _deny_any, "not any not instead of all")


def hold_words(source: str, words: str) -> str:
    """The check, content with any text that holds these words if it asked for them."""
    tree = parse(source)
    changed = _Held(words.lower()).visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def split(source: str) -> list[str]:
    """The parts of a check whose last statement returns several conditions joined by and, a check each; else none."""
    tree = parse(source)
    function = tree.body[0]
    last = function.body[-1] if isinstance(function, ast.FunctionDef) else None
    joined = last.value if isinstance(last, ast.Return) else None
    if not isinstance(joined, ast.BoolOp) or not isinstance(joined.op, ast.And):
        return []
    places = {id(node): at for at, node in enumerate(ast.walk(tree))}
    return [_edit(source, places[id(joined)], _keep_value(at), "")[1] for at in range(len(joined.values))]


def join(sources: Sequence[str]) -> str:
    """One check that passes if all do."""
    parts = [source.replace("def check(", f"def part_{at}(", 1) for at, source in enumerate(sources)]
    calls = " and ".join(f"part_{at}(initial_state, final_state, answer)" for at in range(len(sources)))
    return "\n\n".join([*parts, f"{HEAD}    return {calls}\n"])


def wrap(source: str, body: str) -> str:
    """A check around another one, which its body calls as `as_meant`."""
    return _wrap(source, body)


def _wrap(source: str, body: str) -> str:
    return source.replace("def check(", "def as_meant(", 1).rstrip() + f"\n\n\n{HEAD}    {body}\n"


def _goes_over(node: ast.Call) -> bool:
    return isinstance(node.args[0], ast.GeneratorExp)


def _weaken_equality(source: str, place: int, node: ast.Compare) -> Iterator[Rewrite]:
    left, right = node.left, node.comparators[0]
    shown = ast.unparse(node)[:80]
    yield _edit(source, place, _use_truth, f"whether there is anything instead of {shown}")
    if isinstance(right, ast.Constant) and isinstance(right.value, int | float) and not isinstance(right.value, bool):
        yield _edit(source, place, _use_operator(ast.GtE()), f">= in {shown}")
        yield _edit(source, place, _use_operator(ast.LtE()), f"<= in {shown}")
    elif isinstance(right, ast.Constant) and isinstance(right.value, str):
        yield _edit(source, place, _contain, f"in instead of == in {shown}")
    elif isinstance(right, ast.List) and len(right.elts) == 1:
        yield _edit(source, place, _hold_first, f"in instead of == in {shown}")
    for at in range(_width(left, right)):
        yield _edit(source, place, _lose_part(at), f"without the part {at + 1} of {shown}")


def _tuples(node: ast.expr) -> list[ast.Tuple]:
    if isinstance(node, ast.Tuple):
        return [node]
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _tuples(node.elt)
    if isinstance(node, ast.List):
        return [item for item in node.elts if isinstance(item, ast.Tuple)]
    return []


def _width(left: ast.expr, right: ast.expr) -> int:
    """How many parts the tuples on both sides have; 0 if they are none of the same length."""
    both = [_tuples(side) for side in (left, right)]
    widths = {len(item.elts) for side in both for item in side}
    return widths.pop() if all(both) and len(widths) == 1 and min(widths) > 1 else 0


def _edit(source: str, place: int, change: _Change, about: str) -> Rewrite:
    """The source with the node at a place changed, or replaced by what `change` returns."""
    tree = copy.deepcopy(parse(source))
    target = list(ast.walk(tree))[place]
    new = change(target)
    edited = tree if new is None else _Replaced(target, new).visit(tree)
    return about, ast.unparse(ast.fix_missing_locations(edited)) + "\n"


class _Held(ast.NodeTransformer):
    """Makes of `X == "words"` and of `X in ["words", ...]` whether the words stand in X."""

    def __init__(self, words: str) -> None:
        self.words = words

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        right = node.comparators[0]
        listed = right.elts if isinstance(right, ast.List | ast.Tuple | ast.Set) else [right]
        texts = [
            item.value.lower() for item in listed if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        if self.words not in texts or not isinstance(node.ops[0], ast.Eq | ast.In):
            return self.generic_visit(node)
        lower = ast.Call(ast.Attribute(_call("str", node.left), "lower", ast.Load()), [], [])
        return ast.Compare(ast.Constant(self.words), [ast.In()], [lower])


class _Replaced(ast.NodeTransformer):
    def __init__(self, target: ast.AST, new: ast.AST) -> None:
        self.target, self.new = target, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.target else self.generic_visit(node)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _use_truth(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return _call("bool", node.left)


def _contain(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return ast.Compare(node.comparators[0], [ast.In()], [_call("str", node.left)])


def _hold_first(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    listed = node.comparators[0]
    assert isinstance(listed, ast.List)
    return ast.Compare(listed.elts[0], [ast.In()], [node.left])


def _compare_itself(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return ast.Compare(node.left, node.ops, [copy.deepcopy(node.left)])


def _deny_unequal(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return ast.UnaryOp(ast.Not(), ast.Compare(node.left, [ast.NotEq()], node.comparators))


def _deny_any(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    inner = node.args[0]
    assert isinstance(inner, ast.GeneratorExp)
    failed = ast.GeneratorExp(ast.UnaryOp(ast.Not(), inner.elt), inner.generators)
    return ast.UnaryOp(ast.Not(), _call("any", failed))


def _unsorted(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    return _call("list", node.args[0])


def _lose_part(at: int) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        for item in [*_tuples(node.left), *_tuples(node.comparators[0])]:
            del item.elts[at]

    return change


def _lose_value(at: int) -> _Change:
    def change(node: ast.AST) -> ast.AST | None:
        assert isinstance(node, ast.BoolOp)
        del node.values[at]
        return node.values[0] if len(node.values) == 1 else None

    return change


def _keep_value(at: int) -> _Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.BoolOp)
        return node.values[at]

    return change


def _lose_key(at: int) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Dict)
        del node.keys[at], node.values[at]

    return change


def _lose_test(at: int) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.comprehension)
        del node.ifs[at]

    return change


def _use_operator(operator: ast.cmpop) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops = [operator]

    return change


_use_unequal = _use_operator(ast.NotEq())
_use_equal = _use_operator(ast.Eq())


def _use_or(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or()


def _use_any(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    node.func = ast.Name("any", ast.Load())


def _use_constant(value: str) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Constant)
        node.value = value

    return change


def _use_name(name: str) -> _Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Name)
        node.id = name

    return change
