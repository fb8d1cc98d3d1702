"""Calls into untrusted code from an empty stack: below a program's own frames there is no frame of this package.

The loop runs in C, started when the interpreter has run its script to the end (`begin_at_exit`). It takes a piece of
work from a generator, calls it and stores the outcome. While the work runs, the generator that asked for it is
suspended, so that neither its frame nor that of any caller is on the stack.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

Work = Callable[[], Any]
Outcomes = list[tuple[bool, Any]]
"""What came of the work, and whether that is a value; else it is what was raised. Whoever asked takes it out."""


def _attempt(work: Work) -> tuple[bool, Any]:
    try:
        return True, work()
    except BaseException as error:
        return False, error


# Without globals of ours: this one frame can be seen.
_attempt = FunctionType(_attempt.__code__, {"__builtins__": {"BaseException": BaseException}}, "attempt")


def make_loop(steps: Iterator[Work], outcomes: Outcomes) -> Callable[[], Any]:
    """Return a function that does all the work that `steps` asks for."""
    return partial(deque, map(outcomes.append, map(_attempt, steps)), 0)


def begin_at_exit(steps: Iterator[Work], outcomes: Outcomes) -> None:
    """Do the work once the script has ended, before any other exit handler."""
    atexit.register(make_loop(steps, outcomes))


def take_outcome(outcomes: Outcomes) -> Any:
    """Return the value of the last piece of work, or raise the exception that it raised."""
    passed, value = outcomes.pop()
    if passed:
        return value
    raise value
