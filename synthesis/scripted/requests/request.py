"""A request: what is said, which tools it takes, and how the teacher carries it out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from synthesis.scripted.programs.solver import Recipe, Steps

Edges = Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Thought:
    """A reasoning node of a request. Tools are told by their place in it, from 0: the node stands behind `after`, reads
    what that returned (`T` in `derivation` stands for its id) and feeds the `parameter` of the tool `feeds`."""

    after: int
    purpose: str
    derivation: str
    feeds: int
    parameter: str
    why: str


@dataclass(frozen=True)
class Request:
    """`said` holds what is said of the theme's initial states, in their order, and `pattern` finds it in words.

    `steps` yields calls of exactly `tools`, in order. One that `changes_nothing` is never chosen: it is planted.
    """

    title: str
    tools: tuple[str, ...]
    said: tuple[str, ...]
    pattern: re.Pattern[str]
    steps: Callable[[Mapping[str, str]], Steps]
    thoughts: tuple[Thought, ...] = ()
    changes_nothing: bool = False


def recipe_for(requests: Sequence[Request]) -> Recipe:
    """The recipe for words that hold one or more of these requests, carried out in the order in which they are said."""

    def recipe(words: str) -> Steps | None:
        matches = [(match, request) for request in requests for match in request.pattern.finditer(words)]
        found = sorted(matches, key=lambda pair: pair[0].start())
        return _carry_out([(request, match.groupdict()) for match, request in found]) if found else None

    return recipe


def _carry_out(found: Sequence[tuple[Request, Mapping[str, str]]]) -> Steps:
    for request, said in found:
        yield from request.steps(said)
    return f"Done: {', '.join(request.title for request, _ in found)}.", {}


def find_requests(tools: Sequence[str], requests: Sequence[Request]) -> list[Request] | None:
    """The requests whose tools make up a chain, one after the other; None for another chain."""
    if not tools:
        return []
    for request in requests:
        if tuple(tools[: len(request.tools)]) == request.tools:
            rest = find_requests(tools[len(request.tools) :], requests)
            if rest is not None:
                return [request, *rest]
    return None


def prune_to_requests(merged: Sequence[str], requests: Sequence[Request], first: int) -> list[Request]:
    """Two different requests that a merged chain holds one after the other, else one; none if it holds none. Which are
    tried first goes round with `first`."""
    known = [request for request in requests if not request.changes_nothing]
    turn = first % len(known)
    known = known[turn:] + known[:turn]
    pairs = [[one, other] for one in known for other in known if one is not other]
    for chosen in (*pairs, *([one] for one in known)):
        left = iter(merged)
        if all(tool in left for request in chosen for tool in request.tools):
            return chosen
    return []
