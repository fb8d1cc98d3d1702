"""Form of a check function, read from its source without running it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from synthesis.runtime.check_request import find_language_problem
from synthesis.runtime.child.answer_values import HELPERS
from synthesis.syntax import UNREADABLE, parse_module
from synthesis.tasks.task_context import Unfit

PARAMETERS = ["initial_state", "final_state", "answer"]
SOURCE_CHARS = 8_000
INVALID = "check_invalid"
NEVER_VARIES = "check_never_varies"


def require_form(source: str) -> None:
    """Raise Unfit unless it is one function `check(initial_state, final_state, answer)` in the language of checks.

    It must also be able to return both True and False.
    """
    function = _parse_function(source)
    outside = find_language_problem(source)
    if outside:
        raise Unfit(INVALID, outside)
    signature = function.args
    names = [item.arg for item in (*signature.posonlyargs, *signature.args)]
    if names != PARAMETERS or signature.vararg or signature.kwarg or signature.kwonlyargs or function.decorator_list:
        raise Unfit(INVALID, f"the function must be `def check({', '.join(PARAMETERS)})`, without decorators")
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if not read & {"final_state", "answer"}:
        raise Unfit(NEVER_VARIES, "it looks at neither final_state nor answer, so it can never vary")
    returns = [node.value for node in _iter_returns(function)]
    values = {node.value for node in returns if isinstance(node, ast.Constant)}
    if returns and len(values) == 1 and all(isinstance(node, ast.Constant) for node in returns):
        raise Unfit(NEVER_VARIES, f"whatever it is given, it returns {values.pop()!r}, so it can never vary")


def list_read_fields(source: str) -> frozenset[str]:
    """Return the fields of the answer that a check reads by `answer_value` or `is_expected`."""
    return frozenset(name for name, _ in _iter_field_reads(source))


def require_answer_reads(source: str, fields: Collection[str], wanted: Collection[str] = ()) -> None:
    """Raise Unfit if a check reads the answer other than by its `fields`, or reads none of those `wanted`."""
    reads = list(_iter_field_reads(source))
    known_nodes = {id(node) for _, node in reads}
    loads = [node for node in ast.walk(parse_module(source)) if isinstance(node, ast.Name) and node.id == "answer"]
    if len(loads) > len(known_nodes):
        how = f'by `answer_value(answer, "{min(fields)}")`' if fields else "by no check: the task asks for none"
        raise Unfit(INVALID, f"it reads `answer` by itself; the answer is read {how}, and all else from the state")
    unknown = sorted({name for name, _ in reads} - set(fields))
    if unknown:
        field_names = ", ".join(sorted(fields)) or "none"
        raise Unfit(INVALID, f"the answer has no field {unknown[0][:60]!r}; its fields are: {field_names}")
    if wanted and not list_read_fields(source) & set(wanted):
        raise Unfit(INVALID, f'the condition is on the answer: read it by `answer_value(answer, "{min(wanted)}")`')


def _iter_field_reads(source: str) -> Iterator[tuple[str, ast.Name]]:
    """Yield (field, the name `answer` in it) for each call of a helper whose field is a literal."""
    for node in ast.walk(parse_module(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in HELPERS:
            continue
        match node.args:
            case [ast.Name(id="answer") as read, ast.Constant(value=str(name)), *_]:
                yield name, read


def normalize_source(source: str) -> str:
    """Return the same text for two checks that differ only in layout, comments and docstrings."""
    tree = parse_module(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _parse_function(source: str) -> ast.FunctionDef:
    if len(source) > SOURCE_CHARS:
        raise Unfit(INVALID, f"it has {len(source):,} characters; at most {SOURCE_CHARS:,} are allowed")
    try:
        tree = parse_module(source)
    except UNREADABLE as error:
        raise Unfit(INVALID, f"it is not Python: {str(error)[:300]}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    texts = [node for node in others if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    if [node.name for node in functions] != ["check"] or len(texts) < len(others):
        raise Unfit(INVALID, "beside imports there must be one function, called `check`, and nothing else")
    return functions[0]


def _iter_returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    """Yield the `return` statements of the function itself, not of those inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
