"""Source of one method of a program: extracted to be edited on its own, and put back."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

from synthesis.errors import ProgramError
from synthesis.runtime.imports import add_imports, insert_imports, split_imports
from synthesis.runtime.program import class_methods, parse_source
from synthesis.syntax import UNREADABLE, count_tokens

MOST_TOKENS = 60_000
"""Words and signs of a program that is edited here, which is what reading costs: servers do it between two pages. The
largest bundled program has 10,000."""


@dataclass(frozen=True)
class MethodSource:
    """A method's lines, from its first decorator on. `text` is without the `indent` that every line of it has."""

    text: str
    first: int
    """Line of the program that it begins at, from 1."""
    last: int
    indent: str


def require_editable_length(source: str) -> None:
    """Raise ProgramError if the program is longer than those that are edited here."""
    if count_tokens(source) > MOST_TOKENS:
        words = f"the program has more than {MOST_TOKENS:,} words and signs; one so long is changed by an import"
        raise ProgramError(words)


def get_method_source(source: str, class_name: str, name: str) -> MethodSource:
    """Return the method as the program defines it, inherited ones too.

    Raise ProgramError if there is none, or the program is too long.
    """
    require_editable_length(source)
    node = class_methods(parse_source(source), class_name).get(name)
    if node is None or node.end_lineno is None:
        raise ProgramError(f"{class_name} has no method {name}")
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines(keepends=True)[first - 1 : node.end_lineno]
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    whole = all(line.startswith(indent) or not line.strip() for line in lines)
    removed_indent = indent if whole else ""
    text = "".join(line.removeprefix(removed_indent) if line.strip() else line.lstrip(" \t") for line in lines)
    return MethodSource(text, first, node.end_lineno, removed_indent)


def replace_method(source: str, class_name: str, name: str, text: str) -> str:
    """Return the program with another source of one method.

    Imports above the method move to the top of the program. An import whose name means something else there moves into
    the method. A text that is not Python is inserted unchanged. Raise ProgramError.
    """
    method = get_method_source(source, class_name, name)
    text = text.replace("\r\n", "\n").strip("\n")
    whole, text = _move_imports(source, text)
    body = text + "\n"
    if method.indent and not body.startswith(method.indent):
        body = textwrap.indent(body, method.indent)
    moved = len(whole.splitlines()) - len(source.splitlines())
    lines = whole.splitlines(keepends=True)
    return "".join([*lines[: method.first - 1 + moved], body, *lines[method.last + moved :]])


def _move_imports(source: str, text: str) -> tuple[str, str]:
    """Move the imports above a method into the program, and return both."""
    try:
        bindings, rest = split_imports(textwrap.dedent(text))
        if not bindings:
            return source, text
        whole, clashing = add_imports(source, bindings)
        return whole, insert_imports(rest, [binding.line for binding in clashing])
    except UNREADABLE:
        return source, text


def read_docstring(text: str, name: str) -> str:
    """Return the docstring of a method's source on its own; empty if it has none or is not Python."""
    try:
        tree = parse_source(textwrap.dedent(text))
    except ProgramError:
        return ""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return ast.get_docstring(node) or ""
    return ""


def strip_docstring(text: str) -> str:
    """Return a method's source without its docstring; a text that is not Python is returned unchanged."""
    try:
        tree = parse_source(textwrap.dedent(text))
    except ProgramError:
        return text
    function = next((node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    if function is None or ast.get_docstring(function) is None or len(function.body) < 2:
        return text
    stated, lines = function.body[0], text.splitlines()
    alone = stated.lineno > function.lineno and function.body[1].lineno > (stated.end_lineno or stated.lineno)
    return "\n".join(lines[: stated.lineno - 1] + lines[stated.end_lineno :]) if alone else text
