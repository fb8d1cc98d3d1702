"""The teacher at programmatic tasks: it does what the theme's solution script does, call by call.

The script is code of this repository. It is run from its beginning at every turn, with what was returned so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from synthesis.scripted.programs.solver import Recipe, Steps


class Written(Protocol):
    """A programmatic task as the theme's files have it."""

    @property
    def query(self) -> dict[str, Any]: ...

    @property
    def solution(self) -> str: ...


class _Asks(BaseException):
    """The first call whose result is not known."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self.tool, self.arguments = tool, arguments


def recipe_for_programs(written: Iterable[Written]) -> Recipe:
    """The recipe for words that hold the query of one of these tasks."""
    known = {" ".join(task.query["instruction"].split()): task.solution for task in written}

    def recipe(words: str) -> Steps | None:
        said = " ".join(words.split())
        solution = next((solution for query, solution in known.items() if query in said), None)
        return None if solution is None else _carry_out(solution)

    return recipe


def _carry_out(solution: str) -> Steps:
    names: dict[str, Any] = {}
    exec(compile(solution, "<solution>", "exec"), names)
    solve: Callable[..., dict[str, Any]] = names["solve"]
    returned: list[Any] = []
    while True:
        left = iter(returned)

        def call(tool: str, /, *, _left: Any = left, **arguments: Any) -> Any:
            for result in _left:
                return result
            raise _Asks(tool, arguments)

        try:
            answer = solve(call)
        except _Asks as asked:
            returned.append((yield asked.tool, asked.arguments))
        else:
            return f"It is done: {answer}." if answer else "It is done.", answer
