"""Requests: the user's words, the tools they take, and their execution by the teacher."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from synthesis.scripted.programs.solver import Recipe, Steps

Edges = Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Thought:
    """Reasoning node of a request.

    Tools are identified by their place in the request, from 0: the node follows `after`, reads its result (`T` in
    `derivation` is replaced by its id) and feeds the `parameter` of the tool `feeds`.
    """

    after: int
    purpose: str
    derivation: str
    feeds: int
    parameter: str
    why: str


@dataclass(frozen=True)
class Request:
    """One request. `said` holds the sentences for the theme's initial states, in their order; `pattern` finds them in
    words.

    `steps` yields calls of exactly `tools`, in order. One that `changes_nothing` is never chosen: it is planted.
    """

    title: str
    tools: tuple[str, ...]
    said: tuple[str, ...]
    pattern: re.Pattern[str]
    steps: Callable[[Mapping[str, str]], Steps]
    thoughts: tuple[Thought, ...] = ()
    changes_nothing: bool = False


def make_request_recipe(requests: Sequence[Request]) -> Recipe:
    """Return the recipe for words that hold one or more of these requests, carried out in the order of the words."""

    def start_steps(words: str) -> Steps | None:
        matches = [(match, request) for request in requests for match in request.pattern.finditer(words)]
        ordered = sorted(matches, key=lambda pair: pair[0].start())
        return _run_requests([(request, match.groupdict()) for match, request in ordered]) if ordered else None

    return start_steps


def _run_requests(found: Sequence[tuple[Request, Mapping[str, str]]]) -> Steps:
    for request, values in found:
        yield from request.steps(values)
    return f"Done: {', '.join(request.title for request, _ in found)}.", {}


def find_requests(tools: Sequence[str], requests: Sequence[Request]) -> list[Request] | None:
    """Return the requests whose tools make up a chain, one after the other; None for another chain."""
    if not tools:
        return []
    for request in requests:
        if tuple(tools[: len(request.tools)]) == request.tools:
            rest = find_requests(tools[len(request.tools) :], requests)
            if rest is not None:
                return [request, *rest]
    return None


def prune_to_requests(merged: Sequence[str], requests: Sequence[Request], first: int) -> list[Request]:
    """Return two different requests that a merged chain holds one after the other, else one; empty if it holds none.

    The requests to try first rotate with `first`.
    """
    candidates = [request for request in requests if not request.changes_nothing]
    turn = first % len(candidates)
    candidates = candidates[turn:] + candidates[:turn]
    pairs = [[one, other] for one in candidates for other in candidates if one is not other]
    for chosen in (*pairs, *([one] for one in candidates)):
        remaining_tools = iter(merged)
        if all(tool in remaining_tools for request in chosen for tool in request.tools):
            return chosen
    return []
