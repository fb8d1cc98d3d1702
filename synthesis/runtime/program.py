"""The outline of a program's source and its faults, read without running it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from synthesis.contracts import Finding, Frozen, Severity
from synthesis.errors import ProgramError
from synthesis.runtime.child.preload import ALLOWED_MODULES
from synthesis.syntax import list_lineage, parse_module

SOURCE_CAP = 2_000_000
"""Characters; a longer program is refused unread."""
MOST_CLASSES = 500
ParameterKind = Literal["positional_only", "normal", "keyword_only", "var_positional", "var_keyword"]
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_DATA_BASES = frozenset(
    {"TypedDict", "NamedTuple", "Protocol", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "BaseModel"}
    | {"Exception", "BaseException", "ValueError", "RuntimeError", "LookupError", "KeyError", "TypeError"}
)


class MethodParameter(Frozen):
    """One parameter of a method; `annotation` and `default` are source text, `default` None if it has none."""

    name: str
    annotation: str = ""
    default: str | None = None
    kind: ParameterKind = "normal"


class Method(Frozen):
    """One public method of the environment class."""

    name: str
    parameters: tuple[MethodParameter, ...] = ()
    returns: str = ""
    docstring: str = ""
    source: str = ""
    line: int = 0
    is_async: bool = False
    decorators: tuple[str, ...] = ()


class ProgramOutline(Frozen):
    """The environment class of a program: its constructor's parameters and its public methods."""

    class_name: str
    docstring: str = ""
    constructor: tuple[MethodParameter, ...] = ()
    methods: tuple[Method, ...] = ()
    imports: tuple[str, ...] = ()

    def method(self, name: str) -> Method | None:
        """Return the public method of that name, or None."""
        return next((method for method in self.methods if method.name == name), None)


def parse_source(source: str) -> ast.Module:
    """Return the syntax tree. Raise ProgramError with the place of the error."""
    if len(source) > SOURCE_CAP:
        raise ProgramError(f"the program is longer than {SOURCE_CAP} characters")
    try:
        return parse_module(source)
    except SyntaxError as error:
        raise ProgramError(f"the program is not Python: {error.msg} (line {error.lineno})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"the program cannot be read: {error or type(error).__name__}") from None


@functools.lru_cache(maxsize=16)  # called again with every task and run of an environment
def outline_program(source: str, class_name: str | None = None) -> ProgramOutline:
    """Return the outline of the environment class: the named one, or the one that is not data and has most methods.

    Methods inherited from classes of the same source are included. Raise ProgramError.
    """
    tree = parse_source(source)
    classes = _list_classes(tree)
    if class_name is None:
        candidates = _list_candidates(classes)
        if not candidates:
            raise ProgramError("the program defines no class with public methods")
        class_name = max(candidates, key=lambda name: len(candidates[name]))
    if class_name not in classes:
        raise ProgramError(f"the program defines no class {class_name}")
    methods = _list_methods(class_name, classes)
    constructor = methods.get("__init__")
    lines = source.splitlines(keepends=True)
    return ProgramOutline(
        class_name=class_name,
        docstring=ast.get_docstring(classes[class_name]) or "",
        constructor=_build_parameters(constructor, bound=True) if constructor else (),
        methods=tuple(_build_method(node, lines) for node in _list_public_methods(methods)),
        imports=tuple(sorted({name for name, _, _ in _list_imports(tree)})),
    )


def class_methods(tree: ast.Module, class_name: str) -> dict[str, _Function]:
    """Return the methods of a class by name, with those that it inherits from classes of the same source."""
    return _list_methods(class_name, _list_classes(tree))


def _list_classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by name. Raise ProgramError if there are too many: each may inherit from all
    others."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if len(classes) > MOST_CLASSES:
        raise ProgramError(f"the program defines {len(classes):,} classes; at most {MOST_CLASSES} are read")
    return classes


def environment_classes(tree: ast.Module) -> list[str]:
    """Return the names of the classes that could be the environment: not data, not a mere base, with public methods."""
    return list(_list_candidates(_list_classes(tree)))


def _list_candidates(classes: dict[str, ast.ClassDef]) -> dict[str, set[str]]:
    """Return the classes that could be the environment, with the names of their public methods."""
    own = {
        name: {method.name for method in _list_public_methods(_list_own_methods(node))}
        for name, node in classes.items()
    }
    bases = {base.id for node in classes.values() for base in node.bases if isinstance(base, ast.Name)}
    last = {name: _list_public_names(name, classes, own) for name in classes if name not in bases}
    able = {name: names for name, names in last.items() if names}
    return {name: names for name, names in able.items() if not _is_data(name, classes)} or able


def _list_public_names(name: str, classes: dict[str, ast.ClassDef], own: dict[str, set[str]]) -> set[str]:
    return set().union(*(own[node.name] for node in list_lineage(name, classes)))


def check_program(source: str, class_name: str | None = None, tool_names: Iterable[str] | None = None) -> list[Finding]:
    """Return the faults of a program, without running it; `fatal` only if it cannot run at all."""
    try:
        return _find_program_faults(source, class_name, tool_names)
    except ProgramError as error:
        return [_build_finding("syntax", "fatal", "program", str(error))]


def _find_program_faults(source: str, class_name: str | None, tool_names: Iterable[str] | None) -> list[Finding]:
    tree = parse_source(source)
    findings = list(_check_imports(tree))
    classes = _list_classes(tree)
    candidates = environment_classes(tree)
    if class_name is None and len(candidates) != 1:
        if not candidates:
            return [
                *findings,
                _build_finding("no_class", "fatal", "program", "no class with public methods is defined"),
            ]
        message = f"more than one class could be the environment: {', '.join(candidates)}"
        findings.append(_build_finding("several_classes", "warning", "program", message))
    if class_name is not None and class_name not in classes:
        return [*findings, _build_finding("no_class", "fatal", "program", f"the class {class_name} is not defined")]
    if class_name is None:
        class_name = outline_program(source).class_name
    return findings + list(_check_tools(_list_methods(class_name, classes), class_name, tool_names))


def _check_tools(methods: dict[str, _Function], class_name: str, tool_names: Iterable[str] | None) -> Iterator[Finding]:
    checked_names = (
        list(tool_names) if tool_names is not None else [node.name for node in _list_public_methods(methods)]
    )
    for name in dict.fromkeys(checked_names):
        place = f"tools.{name}"
        if name.startswith("_"):
            yield _build_finding("private_tool", "warning", place, f"{name} is not public")
        if name not in methods:
            yield _build_finding("no_method", "warning", place, f"{class_name} has no method {name}")
            continue
        node = methods[name]
        if not ast.get_docstring(node):
            yield _build_finding("undocumented", "warning", place, f"{name} has no docstring")
        if isinstance(node, ast.AsyncFunctionDef):
            yield _build_finding("async_tool", "warning", place, f"{name} is asynchronous: its calls give no result")
        if any(p.kind == "positional_only" for p in _build_parameters(node, bound=not _is_static(node))):
            yield _build_finding("positional_only", "warning", place, f"{name} has parameters without usable names")


def _build_finding(kind: str, severity: Severity, place: str, message: str) -> Finding:
    return Finding(kind=kind, severity=severity, place=place, message=message)


def _list_imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Yield (module, line, whether it is imported unconditionally as soon as the program loads)."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, True)]
    while waiting:
        node, at_once = waiting.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, at_once
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), node.lineno, at_once
        guarded = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Try, ast.If))
        waiting.extend((child, at_once and not guarded) for child in ast.iter_child_nodes(node))


def _check_imports(tree: ast.Module) -> Iterator[Finding]:
    for name, line, at_once in _list_imports(tree):
        if name in ALLOWED_MODULES or name.partition(".")[0] in ALLOWED_MODULES:
            continue
        message = f"line {line}: the module {name!r} is not available in the sandbox"
        yield _build_finding("import", "fatal" if at_once else "warning", "program", message)


def _is_data(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """Return whether a class, or one that it inherits from, is data by a base or a decorator of it."""
    bases = (base for node in list_lineage(name, classes) for base in node.bases)
    decorators = (decorator for node in list_lineage(name, classes) for decorator in node.decorator_list)
    return any(_get_last_name(base) in _DATA_BASES for base in bases) or any(
        _get_last_name(d) == "dataclass" for d in decorators
    )


def _get_last_name(node: ast.expr) -> str:
    """Return the last name: `dataclass` of `@dataclasses.dataclass()`, `Protocol` of `typing.Protocol[T]`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _list_methods(name: str, classes: dict[str, ast.ClassDef]) -> dict[str, _Function]:
    return {name: node for owner in list_lineage(name, classes) for name, node in _list_own_methods(owner).items()}


def _list_own_methods(owner: ast.ClassDef) -> dict[str, _Function]:
    return {node.name: node for node in owner.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _format_expression(node: ast.expr) -> str:
    """Return an expression as source. Raise ProgramError if it is nested too deeply to be written."""
    try:
        return ast.unparse(node)
    except RecursionError:
        raise ProgramError(f"an expression of the program is nested too deeply (line {node.lineno})") from None


def _list_decorators(node: _Function) -> tuple[str, ...]:
    return tuple(_format_expression(decorator) for decorator in node.decorator_list)


def _list_public_methods(methods: dict[str, _Function]) -> list[_Function]:
    properties = ("property", "cached_property", "functools.cached_property")
    return [
        node
        for name, node in methods.items()
        if not name.startswith("_")
        and not any(d in properties or d.endswith((".setter", ".deleter")) for d in _list_decorators(node))
    ]


def _is_static(node: _Function) -> bool:
    return "staticmethod" in _list_decorators(node)


def _build_method(node: _Function, lines: Sequence[str]) -> Method:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return Method(
        name=node.name,
        parameters=_build_parameters(node, bound=not _is_static(node)),
        returns=_format_expression(node.returns) if node.returns else "",
        docstring=ast.get_docstring(node) or "",
        source="".join(lines[first - 1 : node.end_lineno]),
        line=node.lineno,
        is_async=isinstance(node, ast.AsyncFunctionDef),
        decorators=_list_decorators(node),
    )


def _build_parameters(node: _Function, bound: bool) -> tuple[MethodParameter, ...]:
    spec = node.args
    parameters: list[MethodParameter] = []

    def add_parameter(argument: ast.arg, default: ast.expr | None, kind: ParameterKind) -> None:
        annotation = _format_expression(argument.annotation) if argument.annotation else ""
        text = _format_expression(default) if default is not None else None
        parameters.append(MethodParameter(name=argument.arg, annotation=annotation, default=text, kind=kind))

    places = [*spec.posonlyargs, *spec.args]
    defaults = [None] * (len(places) - len(spec.defaults)) + list(spec.defaults)
    for index, (argument, default) in enumerate(zip(places, defaults, strict=True)):
        if bound and index == 0:
            continue
        add_parameter(argument, default, "positional_only" if index < len(spec.posonlyargs) else "normal")
    if spec.vararg:
        add_parameter(spec.vararg, None, "var_positional")
    for argument, keyword_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        add_parameter(argument, keyword_default, "keyword_only")
    if spec.kwarg:
        add_parameter(spec.kwarg, None, "var_keyword")
    return tuple(parameters)
