"""What a check function looks like, read from its source; nothing runs here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from synthesis.runtime.check_request import language_problem
from synthesis.runtime.child.answers import HELPERS
from synthesis.syntax import UNREADABLE, parse
from synthesis.tasks.task_context import Unfit
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.doubts import CRITERION, criterion_of

PARAMETERS = ["initial_state", "final_state", "answer"]
SOURCE_CHARS = 8_000
INVALID = "check_invalid"
UNUSABLE_CRITERION = (
    f"beside the function only {CRITERION} may be set, once, to a text, and only if the function reads no final_state"
)
NEVER_VARIES = "check_never_varies"
BY_HAND = "check_reads_by_hand"
"""What an author is told once; no reason for a rejection."""


def require_form(source: str) -> None:
    """Raises Unfit unless it is one function `check(initial_state, final_state, answer)` in the language of checks that
    can say both, with the criterion that its doubts are left to, or without one."""
    function = _function(source)
    outside = language_problem(source)
    if outside:
        raise Unfit(INVALID, outside)
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args)]
    if names != PARAMETERS or given.vararg or given.kwarg or given.kwonlyargs or function.decorator_list:
        raise Unfit(INVALID, f"the function must be `def check({', '.join(PARAMETERS)})`, without decorators")
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if not read & {"final_state", "answer"}:
        raise Unfit(NEVER_VARIES, "it looks at neither final_state nor answer, so it can never vary")
    returns = [node.value for node in _returns(function)]
    values = {node.value for node in returns if isinstance(node, ast.Constant)}
    if returns and len(values) == 1 and all(isinstance(node, ast.Constant) for node in returns):
        raise Unfit(NEVER_VARIES, f"whatever it is given, it returns {values.pop()!r}, so it can never vary")


def reads_by_hand(source: str) -> bool:
    """Whether a check reads the answer and asks none of the helpers that read texts."""
    names = {node.id for node in ast.walk(parse(source)) if isinstance(node, ast.Name)}
    return reads_answer(source) and not names & HELPERS.keys()


def normal_form(source: str) -> str:
    """The same text for two checks that differ in layout, comments and docstrings alone."""
    tree = parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _function(source: str) -> ast.FunctionDef:
    if len(source) > SOURCE_CHARS:
        raise Unfit(INVALID, f"it has {len(source):,} characters; at most {SOURCE_CHARS:,} are allowed")
    try:
        tree = parse(source)
    except UNREADABLE as error:
        raise Unfit(INVALID, f"it is not Python: {str(error)[:300]}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    if any(isinstance(node, ast.Assign) for node in others):
        if not criterion_of(source):
            raise Unfit(INVALID, UNUSABLE_CRITERION)
        others = [node for node in others if not isinstance(node, ast.Assign)]
    texts = [node for node in others if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    if [node.name for node in functions] != ["check"] or len(texts) < len(others):
        raise Unfit(
            INVALID, f"beside imports and {CRITERION} there must be one function, called `check`, and nothing else"
        )
    return functions[0]


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    """The `return` statements of the function itself, not of those inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
