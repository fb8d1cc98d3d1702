"""Calls into code that nobody trusts, from an empty stack: below a program's own frames there is none of ours.

The loop is one of C, begun when the interpreter has run its script to the end (`begin_at_exit`). It takes a piece of
work from a generator, calls it and keeps what came of it. While the work runs, the generator that asked for it is
suspended, so that neither its frame nor that of any caller stands on the stack.
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
    """What does all the work that `steps` asks for, when it is called."""
    return partial(deque, map(outcomes.append, map(_attempt, steps)), 0)


def begin_at_exit(steps: Iterator[Work], outcomes: Outcomes) -> None:
    """Do the work once the script has ended, before anything else that waits for that."""
    atexit.register(make_loop(steps, outcomes))


def take(outcomes: Outcomes) -> Any:
    """The value that the last work gave, or what it raised, raised here."""
    passed, value = outcomes.pop()
    if passed:
        return value
    raise value
