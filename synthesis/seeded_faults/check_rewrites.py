"""Rewrites of a check's source: with one fault of the kind that authors make, or with the same meaning."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence

from synthesis.syntax import parse_module

Rewrite = tuple[str, str]
"""What was done, and the source."""
_Change = Callable[[ast.AST], ast.AST | None]
HEAD = "def check(initial_state, final_state, answer):\n"
CALL = "as_meant(initial_state, final_state, answer)"


def weaken_check(source: str) -> Iterator[Rewrite]:
    """Yield rewrites that each have one comparison that accepts more."""
    for place, node in enumerate(ast.walk(parse_module(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield from _weaken_equality(source, place, node)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            yield _edit_node(source, place, _use_or, "or instead of and")
            for at in range(len(node.values)):
                yield _edit_node(source, place, _delete_value(at), f"without {ast.unparse(node.values[at])[:80]}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all":
            yield _edit_node(source, place, _use_any, "any instead of all")
        elif (
            isinstance(node, ast.Dict)
            and len(node.keys) > 1
            and all(isinstance(key, ast.Constant) for key in node.keys)
        ):
            for at, key in enumerate(node.keys):
                yield _edit_node(
                    source, place, _delete_key(at), f"without the field {ast.unparse(key)[:40] if key else ''}"
                )


def make_never_failing(source: str) -> Iterator[Rewrite]:
    """Yield rewrites that are each true for any end."""
    yield "or True in other words", _wrap_source(source, f"return {CALL} or len(final_state) >= 0")
    yield "only the type is looked at", _wrap_source(source, f"return isinstance({CALL}, bool)")
    for place, node in enumerate(ast.walk(parse_module(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield _edit_node(source, place, _compare_itself, f"{ast.unparse(node.left)[:60]} is compared with itself")
    yield (
        "an error counts as passed",
        _wrap_source(
            source,
            f"try:\n        return bool({CALL} / 0)\n    except (TypeError, ZeroDivisionError):\n        return True",
        ),
    )


def make_true_at_start(source: str, collections: Sequence[str]) -> Iterator[Rewrite]:
    """Yield rewrites that are each also true while nothing was done."""
    for name in collections:
        is_unchanged = f"final_state[{name!r}] == initial_state[{name!r}]"
        yield f"passes while {name} is as before", _wrap_source(source, f"return {CALL} or {is_unchanged}")
    yield "passes while nothing has changed", _wrap_source(source, f"return {CALL} or final_state == initial_state")
    yield (
        "passes if it did at the start",
        _wrap_source(source, f"return {CALL} or not as_meant(initial_state, initial_state, answer)"),
    )


def negate_check(source: str) -> Iterator[Rewrite]:
    """Yield the opposite, of the whole and of one comparison."""
    yield "the opposite", _wrap_source(source, f"return not {CALL}")
    for place, node in enumerate(ast.walk(parse_module(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield _edit_node(source, place, _use_unequal, f"!= {ast.unparse(node.comparators[0])[:60]} instead of ==")


def aim_elsewhere(source: str, neighbours: Callable[[str], Sequence[str]]) -> Iterator[Rewrite]:
    """Yield rewrites that each read another record, which `neighbours` gives for an id; or the start state."""
    for place, node in enumerate(ast.walk(parse_module(source))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for other in neighbours(node.value)[:2]:
                yield _edit_node(source, place, _use_constant(other), f"{other!r} instead of {node.value!r}")
        elif isinstance(node, ast.Name) and node.id == "final_state" and isinstance(node.ctx, ast.Load):
            yield _edit_node(source, place, _use_name("initial_state"), "initial_state instead of final_state")


def narrow_check(source: str) -> Iterator[Rewrite]:
    """Yield rewrites that each require more than is meant: an order, or records that were made and removed again."""
    for place, node in enumerate(ast.walk(parse_module(source))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted":
            yield _edit_node(source, place, _drop_sorting, "not sorted before it is compared")
        elif isinstance(node, ast.comprehension):
            for at, test in enumerate(node.ifs):
                yield _edit_node(source, place, _delete_test(at), f"also where not {ast.unparse(test)[:80]}")
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.LtE):
            yield _edit_node(source, place, _use_equal, "== instead of <=")


def reword_check(source: str) -> Iterator[Rewrite]:
    """Yield rewrites with the same meaning in other syntax."""
    yield "formatted anew", ast.unparse(parse_module(source)) + "\n"
    yield "through a function of its own", _wrap_source(source, f"held = {CALL}\n    return True if held else False")
    yield "denied twice", _wrap_source(source, f"failed = not {CALL}\n    return not failed")
    yield "with an early return", _wrap_source(source, f"if not {CALL}:\n        return False\n    return True")
    for place, node in enumerate(ast.walk(parse_module(source))):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            yield _edit_node(source, place, _deny_unequal, "not != instead of ==")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "all" and _is_over_generator(node):
            yield _edit_node(source, place, _deny_any, "not any not instead of all")


def match_contained_words(source: str, words: str) -> str:
    """Return the check, satisfied by any text that contains these words if it required them."""
    tree = parse_module(source)
    changed = _Held(words.lower()).visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def split_check(source: str) -> list[str]:
    """Return a check for each of several conditions that the last statement joins by `and`; empty if it does not."""
    tree = parse_module(source)
    function = tree.body[0]
    last = function.body[-1] if isinstance(function, ast.FunctionDef) else None
    joined = last.value if isinstance(last, ast.Return) else None
    if not isinstance(joined, ast.BoolOp) or not isinstance(joined.op, ast.And):
        return []
    places = {id(node): at for at, node in enumerate(ast.walk(tree))}
    return [_edit_node(source, places[id(joined)], _keep_value(at), "")[1] for at in range(len(joined.values))]


def join_checks(sources: Sequence[str]) -> str:
    """Return one check that passes if all do."""
    parts = [source.replace("def check(", f"def part_{at}(", 1) for at, source in enumerate(sources)]
    calls = " and ".join(f"part_{at}(initial_state, final_state, answer)" for at in range(len(sources)))
    return "\n\n".join([*parts, f"{HEAD}    return {calls}\n"])


def wrap_check(source: str, body: str) -> str:
    """Return a check around another one, which its body calls as `as_meant`."""
    return _wrap_source(source, body)


def _wrap_source(source: str, body: str) -> str:
    return source.replace("def check(", "def as_meant(", 1).rstrip() + f"\n\n\n{HEAD}    {body}\n"


def _is_over_generator(node: ast.Call) -> bool:
    return isinstance(node.args[0], ast.GeneratorExp)


def _weaken_equality(source: str, place: int, node: ast.Compare) -> Iterator[Rewrite]:
    left_side, right_side = node.left, node.comparators[0]
    comparison = ast.unparse(node)[:80]
    yield _edit_node(source, place, _use_truth, f"whether there is anything instead of {comparison}")
    if (
        isinstance(right_side, ast.Constant)
        and isinstance(right_side.value, int | float)
        and not isinstance(right_side.value, bool)
    ):
        yield _edit_node(source, place, _use_operator(ast.GtE()), f">= in {comparison}")
        yield _edit_node(source, place, _use_operator(ast.LtE()), f"<= in {comparison}")
    elif isinstance(right_side, ast.Constant) and isinstance(right_side.value, str):
        yield _edit_node(source, place, _use_containment, f"in instead of == in {comparison}")
    elif isinstance(right_side, ast.List) and len(right_side.elts) == 1:
        yield _edit_node(source, place, _use_first_item, f"in instead of == in {comparison}")
    for at in range(_get_common_width(left_side, right_side)):
        yield _edit_node(source, place, _delete_part(at), f"without the part {at + 1} of {comparison}")


def _list_tuples(node: ast.expr) -> list[ast.Tuple]:
    if isinstance(node, ast.Tuple):
        return [node]
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _list_tuples(node.elt)
    if isinstance(node, ast.List):
        return [item for item in node.elts if isinstance(item, ast.Tuple)]
    return []


def _get_common_width(left: ast.expr, right: ast.expr) -> int:
    """Return the number of parts of the tuples on both sides; 0 if they are not tuples of the same length."""
    both = [_list_tuples(side) for side in (left, right)]
    widths = {len(item.elts) for side in both for item in side}
    return widths.pop() if all(both) and len(widths) == 1 and min(widths) > 1 else 0


def _edit_node(source: str, place: int, change: _Change, about: str) -> Rewrite:
    """Return the source with the node at a place changed, or replaced by the result of `change`."""
    tree = copy.deepcopy(parse_module(source))
    target = list(ast.walk(tree))[place]
    new = change(target)
    edited = tree if new is None else _Replaced(target, new).visit(tree)
    return about, ast.unparse(ast.fix_missing_locations(edited)) + "\n"


class _Held(ast.NodeTransformer):
    """Transformer of `X == "words"` and `X in ["words", ...]` into a test that X contains the words."""

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
        lower = ast.Call(ast.Attribute(_build_call("str", node.left), "lower", ast.Load()), [], [])
        return ast.Compare(ast.Constant(self.words), [ast.In()], [lower])


class _Replaced(ast.NodeTransformer):
    def __init__(self, target: ast.AST, new: ast.AST) -> None:
        self.target, self.new = target, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.target else self.generic_visit(node)


def _build_call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _use_truth(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return _build_call("bool", node.left)


def _use_containment(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return ast.Compare(node.comparators[0], [ast.In()], [_build_call("str", node.left)])


def _use_first_item(node: ast.AST) -> ast.AST:
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
    return ast.UnaryOp(ast.Not(), _build_call("any", failed))


def _drop_sorting(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    return _build_call("list", node.args[0])


def _delete_part(at: int) -> _Change:
    def delete_part(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        for item in [*_list_tuples(node.left), *_list_tuples(node.comparators[0])]:
            del item.elts[at]

    return delete_part


def _delete_value(at: int) -> _Change:
    def delete_value(node: ast.AST) -> ast.AST | None:
        assert isinstance(node, ast.BoolOp)
        del node.values[at]
        return node.values[0] if len(node.values) == 1 else None

    return delete_value


def _keep_value(at: int) -> _Change:
    def select_value(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.BoolOp)
        return node.values[at]

    return select_value


def _delete_key(at: int) -> _Change:
    def delete_key(node: ast.AST) -> None:
        assert isinstance(node, ast.Dict)
        del node.keys[at], node.values[at]

    return delete_key


def _delete_test(at: int) -> _Change:
    def delete_test(node: ast.AST) -> None:
        assert isinstance(node, ast.comprehension)
        del node.ifs[at]

    return delete_test


def _use_operator(operator: ast.cmpop) -> _Change:
    def set_operator(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops = [operator]

    return set_operator


_use_unequal = _use_operator(ast.NotEq())
_use_equal = _use_operator(ast.Eq())


def _use_or(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or()


def _use_any(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    node.func = ast.Name("any", ast.Load())


def _use_constant(value: str) -> _Change:
    def set_constant(node: ast.AST) -> None:
        assert isinstance(node, ast.Constant)
        node.value = value

    return set_constant


def _use_name(name: str) -> _Change:
    def set_name(node: ast.AST) -> None:
        assert isinstance(node, ast.Name)
        node.id = name

    return set_name
