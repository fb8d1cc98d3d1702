"""The language of checks and scripts: the part of Python that cannot tell when, where or how often it runs.

An allow-list of syntax, of built-ins and of names out of modules. Source outside of it is refused before it runs, here
by the host and once more in the process that would run it. There are no classes, decorators, generator functions or
context managers, no attributes that begin with an underscore or lead to frames and code, no formatting that reads
attributes, and no way to swallow what is no ordinary exception: a doubt, the end of memory.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, ModuleType, TracebackType
from typing import Any, NamedTuple

MEMORY = "the end of memory"
"""A name that no source can write down: the exception that every `try` lets through."""


class Breach(NamedTuple):
    """One place outside of the language: the line, what stands there and what to use instead."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


_NAMES = """
abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format frozenset
getattr hasattr hex int isinstance issubclass iter len list map max min next object oct ord pow print range repr
reversed round set slice sorted str sum tuple type zip
"""
NAMES = frozenset(_NAMES.split())
"""The built-ins of the language. `getattr` and `hasattr` take a name that is written down."""
_ORDINARY = """
ArithmeticError AssertionError AttributeError Exception IndexError KeyError LookupError NotImplementedError
OverflowError RuntimeError StopIteration TypeError UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError
ZeroDivisionError
"""
ORDINARY = frozenset(_ORDINARY.split())
"""The exceptions that source may raise and catch."""
_BY_MODULE = {
    "JSONDecodeError": "json",
    "InvalidOperation": "decimal",
    "StatisticsError": "statistics",
    "error": "re",
}
"""Exceptions of modules, caught as `json.JSONDecodeError` or by an imported name."""
_WORDS: dict[str, str] = {
    "__future__": "annotations",
    "base64": "b64decode b64encode urlsafe_b64decode urlsafe_b64encode",
    "bisect": "bisect bisect_left bisect_right",
    "calendar": "day_abbr day_name isleap leapdays month_abbr month_name monthrange timegm weekday",
    "collections": "ChainMap Counter OrderedDict abc defaultdict deque",
    "collections.abc": "Callable Collection Container Hashable ItemsView Iterable Iterator KeysView Mapping"
    " MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView",
    "copy": "copy deepcopy",
    "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone",
    "decimal": "Decimal InvalidOperation ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN"
    " ROUND_HALF_UP ROUND_UP",
    "difflib": "SequenceMatcher get_close_matches",
    "fractions": "Fraction",
    "functools": "cmp_to_key partial reduce",
    "hashlib": "blake2b md5 sha1 sha256 sha512",
    "heapq": "heapify heappop heappush merge nlargest nsmallest",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile"
    " filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest",
    "json": "JSONDecodeError dumps loads",
    "math": "acos asin atan atan2 ceil comb copysign cos degrees dist e exp fabs factorial floor fmod fsum gcd hypot"
    " inf isclose isfinite isinf isnan isqrt lcm log log10 log1p log2 modf nan perm pi pow prod radians remainder sin"
    " sqrt tan tau trunc",
    "numbers": "Integral Number Rational Real",
    "operator": "add and_ concat contains countOf eq floordiv ge getitem gt indexOf is_ is_not itemgetter le lt mod mul"
    " ne neg not_ or_ pos pow sub truediv truth xor",
    "re": "A ASCII DOTALL I IGNORECASE M MULTILINE Match Pattern S U UNICODE VERBOSE X compile error escape findall"
    " finditer fullmatch match search split sub subn",
    "statistics": "StatisticsError fmean geometric_mean harmonic_mean mean median median_high median_low mode multimode"
    " pstdev pvariance quantiles stdev variance",
    "string": "ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable punctuation"
    " whitespace",
    "typing": "Any Callable Collection Dict FrozenSet Hashable Iterable Iterator List Literal Mapping MutableMapping"
    " Optional Sequence Set Tuple Type Union cast",
    "unicodedata": "category combining decimal digit east_asian_width lookup name normalize numeric",
    "uuid": "UUID",
}
MODULES: dict[str, frozenset[str]] = {name: frozenset(words.split()) for name, words in _WORDS.items()}
"""What each module of the language offers; everything else in it is out of reach."""

_NODES: frozenset[type[ast.AST]] = frozenset(
    (
        *(ast.Module, ast.Expr, ast.Expression, ast.Pass, ast.Assert, ast.Raise, ast.Return, ast.Break, ast.Continue),
        *(ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Call, ast.keyword, ast.Global, ast.Nonlocal),
        *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Delete, ast.Name, ast.Attribute, ast.Starred),
        *(ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.alias),
        *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.JoinedStr, ast.FormattedValue),
        *(ast.Subscript, ast.Slice, ast.Dict, ast.List, ast.Set, ast.Tuple),
        *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
    )
)
_INSTEAD: dict[type[ast.AST], str] = {
    ast.ClassDef: "a class; use functions, dicts and tuples",
    ast.With: "`with`; call functions directly",
    ast.Yield: "`yield`; return a list, or write a generator expression",
    ast.YieldFrom: "`yield`; return a list, or write a generator expression",
    ast.Match: "`match`; use `if` and `elif`",
}
_SKIPPED = frozenset(("ctx", "op", "ops"))
_UNSEEN = frozenset(("format", "format_map", "mro", "with_traceback"))
_INSPECTED = frozenset(
    name
    for owner in (AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, TracebackType)
    for name in dir(owner)
    if name.startswith(("ag_", "co_", "cr_", "f_", "gi_", "tb_"))
)
_READABLE = frozenset(("_asdict", "_fields"))
_CONSTANT_NAME = frozenset(("getattr", "hasattr"))
_UNKNOWN = frozenset(dir(builtins)) - NAMES - ORDINARY


def breaches(tree: ast.Module) -> list[Breach]:
    """Every place of a module that is outside of the language, in the order of lines."""
    return sorted(set(_Reader(tree).found()))


class _Reader:
    """Goes over a module once. `bound` are the names that the source gives to something of its own."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = list(_nodes(tree))
        self.bound = {name for node, _ in self.nodes for name in _bound(node)}
        self.called = {id(node.func) for node, _ in self.nodes if type(node) is ast.Call}

    def found(self) -> Iterator[Breach]:
        for node, line in self.nodes:
            kind = type(node)
            if kind not in _NODES:
                yield Breach(line, f"{_INSTEAD.get(kind, f'`{kind.__name__}`')} is outside of the language of checks")
                continue
            look = _LOOKS.get(kind)
            if look is not None:
                for message in look(self, node):
                    yield Breach(line, message)
            for name in _bound(node):
                if name.startswith("__"):
                    yield Breach(line, f"the name `{name}`: names must not begin with two underscores")

    def name(self, node: Any) -> Iterator[str]:
        name = node.id
        if name.startswith("__"):
            yield f"the name `{name}`: names must not begin with two underscores"
        elif name in self.bound:
            return
        elif name in _UNKNOWN:
            yield f"`{name}` is not in the language of checks; its built-ins are {_listed(NAMES)}"
        elif name in _CONSTANT_NAME and id(node) not in self.called:
            yield f"`{name}` can only be called, with a name that is written down; use `value[key]`"

    def attribute(self, node: Any) -> Iterator[str]:
        if type(node.ctx) is not ast.Load:
            yield f"`.{node.attr}` is set or deleted; a check only reads: keep values in variables or dicts"
        yield from _attribute_name(node.attr)

    def call(self, node: Any) -> Iterator[str]:
        function = node.func
        if type(function) is not ast.Name or function.id not in _CONSTANT_NAME or function.id in self.bound:
            return
        name = node.args[1] if len(node.args) > 1 and not node.keywords else None
        if type(name) is not ast.Constant or type(name.value) is not str or type(node.args[0]) is ast.Starred:
            yield f"`{function.id}` takes a name that is written down; use `value[key]`"
        else:
            yield from _attribute_name(name.value)

    def imported(self, node: Any) -> Iterator[str]:
        for alias in node.names:
            if alias.name not in MODULES:
                yield _no_module(alias.name)

    def imported_from(self, node: Any) -> Iterator[str]:
        module = "." * node.level + (node.module or "")
        if module not in MODULES:
            yield _no_module(module)
            return
        for alias in node.names:
            if alias.name not in MODULES[module]:
                yield f"`{alias.name}` of {module}; of this module there are {_listed(MODULES[module])}"

    def function(self, node: Any) -> Iterator[str]:
        if node.decorator_list:
            yield "a decorator; call the function that it would wrap"
        if getattr(node, "type_params", None):
            yield "type parameters; leave them out"

    def comprehension(self, node: Any) -> Iterator[str]:
        if node.is_async:
            yield "`async`; use a plain loop"

    def attempt(self, node: Any) -> Iterator[str]:
        if any(_leaves(part) for part in node.finalbody):
            yield "`return`, `break` or `continue` in a `finally` swallows what was raised; put it behind the `try`"

    def handler(self, node: Any) -> Iterator[str]:
        caught = node.type
        if caught is None:
            yield "a bare `except`; name what may be raised: `except (KeyError, ValueError):`"
            return
        for part in caught.elts if type(caught) is ast.Tuple else (caught,):
            if not self._is_ordinary(part):
                yield f"`except {ast.unparse(part)[:80]}`; catch one of {_listed(ORDINARY)}"

    def _is_ordinary(self, part: ast.expr) -> bool:
        if isinstance(part, ast.Attribute):
            return isinstance(part.value, ast.Name) and _BY_MODULE.get(part.attr) == part.value.id
        if not isinstance(part, ast.Name):
            return False
        return part.id not in self.bound if part.id in ORDINARY else part.id in _BY_MODULE


_LOOKS: dict[type[ast.AST], Callable[[_Reader, Any], Iterator[str]]] = {
    ast.Name: _Reader.name,
    ast.Attribute: _Reader.attribute,
    ast.Call: _Reader.call,
    ast.Import: _Reader.imported,
    ast.ImportFrom: _Reader.imported_from,
    ast.FunctionDef: _Reader.function,
    ast.comprehension: _Reader.comprehension,
    ast.Try: _Reader.attempt,
    ast.ExceptHandler: _Reader.handler,
}


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, int]]:
    """Every node that says something, with its line."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    while waiting:
        node, line = waiting.pop()
        line = getattr(node, "lineno", line)
        yield node, line
        for field in node._fields:
            if field in _SKIPPED:
                continue
            value = getattr(node, field)
            if isinstance(value, ast.AST):
                waiting.append((value, line))
            elif type(value) is list:
                waiting.extend((item, line) for item in value if isinstance(item, ast.AST))


def _bound(node: ast.AST) -> tuple[str, ...]:
    """The names that a node binds."""
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.FunctionDef):
        return (node.name,)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0],) if node.name != "__future__" else ()
    if isinstance(node, ast.ExceptHandler):
        return (node.name,) if node.name else ()
    return tuple(node.names) if isinstance(node, ast.Global | ast.Nonlocal) else ()


def _attribute_name(name: str) -> Iterator[str]:
    if name in _UNSEEN:
        yield f'`.{name}`; write an f-string, or read a key of that name: value["{name}"]'
    elif name in _INSPECTED or (name.startswith("_") and name not in _READABLE):
        yield f'`.{name}` leads behind the data; read it by its key: value["{name}"]'


def _no_module(name: str) -> str:
    return f"the module {name!r} is not in the language of checks; it has {_listed(MODULES)}"


def _leaves(node: ast.AST) -> bool:
    """Whether a statement leaves the block that it stands in, function bodies aside."""
    if isinstance(node, ast.Return | ast.Break | ast.Continue):
        return True
    return not isinstance(node, ast.FunctionDef) and any(map(_leaves, ast.iter_child_nodes(node)))


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))


def compile_check(tree: ast.Module) -> CodeType:
    """The code of a module that is inside the language. No `try` of it catches the end of memory, which would measure
    how much there is."""
    for node, _ in list(_nodes(tree)):
        if isinstance(node, ast.Try) and node.handlers:
            place = {"lineno": node.lineno, "col_offset": node.col_offset}
            caught = ast.Name(id=MEMORY, ctx=ast.Load(), **place)
            node.handlers.insert(0, ast.ExceptHandler(type=caught, body=[ast.Raise(**place)], **place))
    return compile(ast.fix_missing_locations(tree), "<check>", "exec", dont_inherit=True)


def make_names(helpers: dict[str, Any]) -> dict[str, Any]:
    """What source in the language finds as built-ins: made once, before the fork."""
    names = {name: getattr(builtins, name) for name in (*NAMES, *ORDINARY)} | helpers
    modules = {name: _make_module(name) for name in MODULES}
    names |= {MEMORY: MemoryError, "print": _print, "type": _type, "__import__": _importer(modules)}
    return names


def _make_module(name: str) -> ModuleType:
    """What source gets as a module: its allowed names alone."""
    made = ModuleType(name)
    real = importlib.import_module(name)
    for word in MODULES[name] - {"abc"}:
        setattr(made, word, getattr(real, word))
    return made


def _importer(modules: dict[str, ModuleType]) -> Callable[..., Any]:
    modules["collections"].abc = modules["collections.abc"]  # type: ignore[attr-defined]
    real = builtins.__import__

    def find(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if type(fromlist) is list:
            # C code imports like this for its caller (`strptime` wants `_strptime`); an `import` gives a tuple.
            return real(name, globals, locals, fromlist, level)
        if name not in modules or level:
            raise ImportError(_no_module(name), name=name)
        return modules[name if fromlist else name.partition(".")[0]]

    return find


def _print(*values: Any, **how: Any) -> None:
    """Nobody reads what a check prints."""


def _type(value: Any, /) -> Any:
    """The type of a value that is no type itself: there is no way to make a new one."""
    if isinstance(value, type):
        raise TypeError("the type of a type is not in the language of checks")
    return type(value)
