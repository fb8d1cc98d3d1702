"""Evaluation of one check: a module that defines a function of the states, which returns True or False."""

from __future__ import annotations

import re
import types
from typing import Any

from .answer_values import HELPERS
from .check_names import build_names, require_allowed_names

KNOWN = ("initial_state", "final_state", "state", "answer")
_POSITIONAL = {1: ("final_state",), 2: ("initial_state", "final_state"), 3: ("initial_state", "final_state", "answer")}


SPACE = build_names(HELPERS)
"""The names of a check: those of its language, and what looks at submitted answers."""


class CheckError(Exception):
    """The source is not a check: it defines no function, or one that cannot be called with the available values."""


MESSAGE_CHARS = 2_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Where an object lies is another place in each process: two runs must say the same."""


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return the type and message of an exception whose own methods may misbehave."""
    try:
        message = str(error)[:MESSAGE_CHARS]
        if " at 0x" in message:
            message = _ADDRESS.sub(" at 0x0", message)
    except MemoryError:
        raise
    except BaseException:
        message = ""
    return str(type.__getattribute__(type(error), "__name__"))[:200], message


def evaluate_check(code: types.CodeType, initial: Any, final: Any, answer: Any) -> tuple[bool, bool, str]:
    """Return (passed, whether it returned something other than a boolean, why it failed to return anything).

    Only the object `True` passes. The states are decoded copies that belong to this evaluation alone.
    """
    values = {"initial_state": initial, "final_state": final, "answer": answer, "state": final}
    scope: dict[str, Any] = {"__builtins__": SPACE, "__name__": "check"}
    scope |= {"initial_state": initial, "final_state": final, "answer": answer}
    try:
        require_allowed_names(code)
        exec(code, scope)
        verdict = _call_check(_find_check_function(scope), values)
        if verdict is True or verdict is False:
            return verdict, False, ""
        return False, True, f"it returned a {_get_type_name(verdict)}, not a boolean"
    except MemoryError:
        raise
    except BaseException as error:
        name, message = describe_error(error)
        return False, False, f"{name}: {message}"[:MESSAGE_CHARS]


def _get_type_name(value: Any) -> str:
    return str(type.__getattribute__(type(value), "__name__"))[:100]


def _find_check_function(scope: dict[str, Any]) -> types.FunctionType:
    functions = {
        name: value
        for name, value in scope.items()
        if isinstance(value, types.FunctionType) and value.__globals__ is scope
    }
    if not functions:
        raise CheckError("it defines no function")
    for name in ("check_func", "check"):
        if name in functions:
            return functions[name]
    likely = [value for name, value in functions.items() if name.startswith("check")]
    return (likely or list(functions.values()))[-1]


def _list_parameters(function: types.FunctionType) -> tuple[list[str], list[str], list[str]]:
    """Return the names of positional parameters, of the required ones, and of keyword-only ones."""
    code = function.__code__
    count = code.co_argcount
    names = list(code.co_varnames[:count])
    others = list(code.co_varnames[count : count + code.co_kwonlyargcount])
    return names, names[: max(0, count - len(function.__defaults__ or ()))], others


def _call_check(function: types.FunctionType, values: dict[str, Any]) -> Any:
    names, needed, others = _list_parameters(function)
    keywords = {name: values[name] for name in others if name in KNOWN}
    if all(name in KNOWN for name in needed):
        # One function sees one final state, under whichever names it asks for it.
        order = [name for name in names if name in KNOWN] if needed or names else []
        if order == names[: len(order)]:
            return function(*(values[name] for name in order), **keywords)
        return function(**{name: values[name] for name in order}, **keywords)
    if len(needed) not in _POSITIONAL:
        raise CheckError(f"it takes {len(needed)} arguments: {', '.join(needed)[:200]}")
    return function(*(values[name] for name in _POSITIONAL[len(needed)]), **keywords)
