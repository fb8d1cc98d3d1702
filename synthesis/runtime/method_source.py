"""Source of one method of a program: taken out to be edited on its own, and put back."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

from synthesis.errors import ProgramError
from synthesis.runtime.imports import add_imports, split_imports, with_imports
from synthesis.runtime.program import class_methods, parse_source
from synthesis.syntax import UNREADABLE, token_count

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


def require_short(source: str) -> None:
    """Raises ProgramError: the program is longer than those that are edited here."""
    if token_count(source) > MOST_TOKENS:
        words = f"the program has more than {MOST_TOKENS:,} words and signs; one so long is changed by an import"
        raise ProgramError(words)


def method_source(source: str, class_name: str, name: str) -> MethodSource:
    """The method as it stands in the program, inherited ones too. Raises ProgramError: there is none, or the program is
    too long."""
    require_short(source)
    node = class_methods(parse_source(source), class_name).get(name)
    if node is None or node.end_lineno is None:
        raise ProgramError(f"{class_name} has no method {name}")
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines(keepends=True)[first - 1 : node.end_lineno]
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    whole = all(line.startswith(indent) or not line.strip() for line in lines)
    kept = indent if whole else ""
    text = "".join(line.removeprefix(kept) if line.strip() else line.lstrip(" \t") for line in lines)
    return MethodSource(text, first, node.end_lineno, kept)


def with_method(source: str, class_name: str, name: str, text: str) -> str:
    """Return the program with another source of one method.

    Imports above the method go to the top of the program. One whose name means something else there goes into the
    method. A text that is not Python is put in place as it is. Raises ProgramError.
    """
    known = method_source(source, class_name, name)
    text = text.replace("\r\n", "\n").strip("\n")
    whole, text = _placed_imports(source, text)
    body = text + "\n"
    if known.indent and not body.startswith(known.indent):
        body = textwrap.indent(body, known.indent)
    moved = len(whole.splitlines()) - len(source.splitlines())
    lines = whole.splitlines(keepends=True)
    return "".join([*lines[: known.first - 1 + moved], body, *lines[known.last + moved :]])


def _placed_imports(source: str, text: str) -> tuple[str, str]:
    """Move the imports above a method into the program, and return both."""
    try:
        bindings, rest = split_imports(textwrap.dedent(text))
        if not bindings:
            return source, text
        whole, clashing = add_imports(source, bindings)
        return whole, with_imports(rest, [binding.line for binding in clashing])
    except UNREADABLE:
        return source, text


def docstring_of(text: str, name: str) -> str:
    """The docstring of a method's source on its own; empty where it has none or is not Python."""
    try:
        tree = parse_source(textwrap.dedent(text))
    except ProgramError:
        return ""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return ast.get_docstring(node) or ""
    return ""


def without_docstring(text: str) -> str:
    """Return a method's source without its docstring; a text that is not Python comes back as it is."""
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
