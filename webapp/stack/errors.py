"""What goes wrong at a start, in words for the person who started it."""

from __future__ import annotations


class StackError(Exception):
    """The start cannot go on. `str(error)` says what is wrong and what to do about it."""


class Interrupted(Exception):
    """A person pressed Ctrl-C (or sent TERM) while something was being waited for."""


class HomeHeld(StackError):
    """Another process holds this ENVARIUM_HOME; the message names it."""
