"""The names of checks and scripts: all that they find when they run, whatever their source says.

The host decides which source runs (`check_language`). Here its code is checked once more: no name in it leads to the
interpreter, to frames or to code.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    GeneratorType,
    ModuleType,
    TracebackType,
)
from typing import Any

MEMORY = "the end of memory"
"""A name that no source can write down: the exception that every `try` lets through."""
_NAMES = """
abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float frozenset
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

UNSEEN = frozenset(("format", "format_map", "mro", "with_traceback"))
"""Attributes that read other attributes by their names, or lead to what is above."""
INSPECTED = frozenset(
    name
    for owner in (AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, TracebackType)
    for name in dir(owner)
    if name.startswith(("ag_", "co_", "cr_", "f_", "gi_", "tb_"))
)
"""Attributes that lead to frames and code."""


_GENERATED = frozenset(("__future__", "__annotations__", "__annotate__", "__conditional_annotations__"))
"""Names that an import of the language, or an annotation, is compiled to."""


class OutsideLanguage(Exception):
    """Code that no source in the language of checks compiles to."""


def require_allowed_names(code: CodeType) -> None:
    """Raise OutsideLanguage if a name of this code, or of a function defined in it, leads out of the language."""
    waiting = [code]
    while waiting:
        current = waiting.pop()
        for name in current.co_names:
            if (name[:2] == "__" and name not in _GENERATED) or name in UNSEEN or name in INSPECTED:
                raise OutsideLanguage(f"the name `{name}` leads behind the data")
        waiting += [part for part in current.co_consts if type(part) is CodeType]


def build_names(helpers: dict[str, Any]) -> dict[str, Any]:
    """Return the names that source in the language finds as built-ins: made once, before the fork."""
    names = {name: getattr(builtins, name) for name in (*NAMES, *ORDINARY)} | helpers
    modules = {name: _build_module(name) for name in MODULES}
    names |= {MEMORY: MemoryError, "print": _discard_print, "type": _get_type, "__import__": _make_importer(modules)}
    return names


def _build_module(name: str) -> ModuleType:
    """Return a module that holds only the allowed names of the real one."""
    module = ModuleType(name)
    real = importlib.import_module(name)
    for word in MODULES[name] - {"abc"}:
        setattr(module, word, getattr(real, word))
    return module


def _make_importer(modules: dict[str, ModuleType]) -> Callable[..., Any]:
    modules["collections"].abc = modules["collections.abc"]  # type: ignore[attr-defined]
    real = builtins.__import__

    def import_allowed_module(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if type(fromlist) is list:
            # C code imports like this for its caller (`strptime` wants `_strptime`); an `import` gives a tuple.
            return real(name, globals, locals, fromlist, level)
        if name not in modules or level:
            raise ImportError(f"the module {name!r} is not in the language of checks", name=name)
        return modules[name if fromlist else name.partition(".")[0]]

    return import_allowed_module


def _discard_print(*values: Any, **how: Any) -> None:
    """Discard the values: the output of a check is not read."""


def _get_type(value: Any, /) -> Any:
    """Return the type of a value that is not itself a type: there is no way to make a new one."""
    if isinstance(value, type):
        raise TypeError("the type of a type is not in the language of checks")
    return type(value)
