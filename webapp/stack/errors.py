"""Errors of a start, in words for the person who started it."""

from __future__ import annotations


class StackError(Exception):
    """The start cannot go on. `str(error)` describes the problem and what to do about it."""


class Interrupted(Exception):
    """A person pressed Ctrl-C (or sent TERM) during a wait."""


class HomeHeld(StackError):
    """Another process holds this ENVARIUM_HOME; the message names it."""
