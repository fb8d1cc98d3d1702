"""Construction of an environment from its class and an initial state, as existing programs expect it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from .codec import get_attributes
from .records import Opaque

GENERIC = frozenset(
    ("init_config", "config", "initial_state", "init_state", "state", "data", "initial_data", "database", "db")
)
"""Parameter names that mean the whole initial state."""


def construct_environment(cls: type, fresh: Callable[[], Any]) -> Any:
    """Return an instance of `cls` that holds the initial state; `fresh` returns a new copy of that state at each call.

    A constructor with a parameter gets the state (or the parts that its parameters name). Afterwards every key is set
    as an attribute, unless the constructor made something of its own out of that key: if it only stores its parameter,
    or ignores it, the loading happens here.
    """
    state = fresh()
    state = {} if state is None else state
    if not isinstance(state, dict):
        raise TypeError("the initial state must be an object")
    whole, names = _choose_arguments(cls, state)
    environment = cls(*([state] if whole else ()), **names)
    consumed = frozenset(names) | (_list_mentioned_texts(cls) if whole and state else frozenset())
    everything = "setattr" in consumed
    if whole or names:
        state = fresh() or {}
    for key, value in state.items():
        if isinstance(value, Opaque):
            continue
        if (everything or key in consumed) and _has_value(environment, key):
            continue
        setattr(environment, key, value)
    return environment


def _has_value(environment: Any, key: str) -> bool:
    value = get_attributes(environment).get(key)
    return value is not None and not (hasattr(value, "__len__") and len(value) == 0)


def get_static_attribute(cls: type, name: str) -> Any:
    """Return the attribute of a class without running any code of the class, None if it has none."""
    for owner in type.__dict__["__mro__"].__get__(cls):
        space = type.__dict__["__dict__"].__get__(owner)
        if name in space:
            return space[name]
    return None


def _choose_arguments(cls: type, state: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Return (whether the constructor gets the whole state, the parts of it that are passed by name)."""
    function = get_static_attribute(cls, "__init__")
    if not isinstance(function, types.FunctionType):
        return False, {}
    code = function.__code__
    if code.co_argcount == 1 and not code.co_kwonlyargcount and not code.co_flags & _VARIADIC:
        return False, {}
    if code.co_argcount == 2 and code.co_varnames[1] in GENERIC and not code.co_kwonlyargcount:
        return True, {}
    return _choose_by_signature(function, state)


def _choose_by_signature(function: types.FunctionType, state: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional and any(p.kind is p.VAR_KEYWORD for p in parameters):
        return False, dict(state)
    named = {p.name: state[p.name] for p in parameters if p.kind in _NAMED and p.name in state}
    if not positional:
        return False, named
    first = positional[0]
    others_optional = all(p.default is not p.empty for p in parameters[1:] if p.kind in _NAMED)
    if (first.name in GENERIC or first.name not in state) and others_optional:
        if first.default is not first.empty and first.name not in GENERIC and not _takes_dict(first):
            return False, named
        named.pop(first.name, None)
        return True, named
    return False, named


_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _takes_dict(parameter: inspect.Parameter) -> bool:
    if parameter.default is None or isinstance(parameter.default, dict):
        return True
    return "dict" in str(parameter.annotation).lower()


def _list_mentioned_texts(cls: type) -> frozenset[str]:
    """Return the texts that a class's constructor, and the methods it calls on itself, mention: the keys it reads."""
    texts: set[str] = set()
    waiting = ["__init__", "__post_init__"]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        function = get_static_attribute(cls, name)
        function = getattr(function, "__func__", function)
        if name in seen or not isinstance(function, types.FunctionType):
            continue
        seen.add(name)
        stack = [function.__code__]
        while stack:
            code = stack.pop()
            stack.extend(part for part in code.co_consts if isinstance(part, types.CodeType))
            texts.update(part for part in code.co_consts if isinstance(part, str))
            for part in code.co_consts:
                if isinstance(part, tuple):
                    texts.update(item for item in part if isinstance(item, str))
            waiting.extend(code.co_names)
            # Keys that the constructor sets in a loop are its own work, whatever they are called.
            texts.update({"setattr"}.intersection(code.co_names))
    return frozenset(texts)
