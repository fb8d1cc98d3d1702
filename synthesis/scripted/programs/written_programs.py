"""Teacher at programmatic tasks: it makes the calls of the theme's solution script, one by one.

The script is code of this repository. It is run from its beginning at every turn, with the results so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from synthesis.scripted.programs.solver import Recipe, Steps


class Written(Protocol):
    """Programmatic task from the theme's files."""

    @property
    def query(self) -> dict[str, Any]: ...

    @property
    def solution(self) -> str: ...


class _Asks(BaseException):
    """Signal of the first call whose result is not known."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self.tool, self.arguments = tool, arguments


def make_program_recipe(written: Iterable[Written]) -> Recipe:
    """Return the recipe for words that hold the query of one of these tasks."""
    solutions = {" ".join(task.query["instruction"].split()): task.solution for task in written}

    def start_steps(words: str) -> Steps | None:
        plain_words = " ".join(words.split())
        solution = next((solution for query, solution in solutions.items() if query in plain_words), None)
        return None if solution is None else _run_solution(solution)

    return start_steps


def _run_solution(solution: str) -> Steps:
    names: dict[str, Any] = {}
    exec(compile(solution, "<solution>", "exec"), names)
    solve: Callable[..., dict[str, Any]] = names["solve"]
    returned: list[Any] = []
    while True:
        left = iter(returned)

        def replay_call(tool: str, /, *, _left: Any = left, **arguments: Any) -> Any:
            for result in _left:
                return result
            raise _Asks(tool, arguments)

        try:
            answer = solve(replay_call)
        except _Asks as asked:
            returned.append((yield asked.tool, asked.arguments))
        else:
            return f"It is done: {answer}." if answer else "It is done.", answer
