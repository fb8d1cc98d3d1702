"""Execution of a solution script: its code in one sandboxed process, its calls in an episode of the environment.

The script never shares a process with the program, so it can only use tools. It is executed from its beginning for each
call: `call` returns the known results in their order, and ends the execution at the first call without one. That call
is made in the episode, and the script is executed again with its result. So the host records the calls, whatever a
script does, and a script that does not behave the same each time is detected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    CallResult,
    Frozen,
    Program,
    ReferenceCall,
    State,
    Tool,
    is_refusal,
)
from synthesis.errors import FormatError, InputError, ProgramEnded, ProgramError, StateError
from synthesis.json_reader import read_json
from synthesis.runtime import Episode, Sandbox, hash_state

FUNCTION = "solve"
PARAMETER = "call"
MOST_SECONDS = 60.0
"""Of all executions of one script together."""
RESULT_BYTES = 4 * 1024 * 1024
"""Of all results together."""
CALL_CHARS = 20_000
"""Of the arguments of one call, and of an answer."""
TOLD_CHARS = 500
_CLASS = "__Solution__"
_RUN = Tool(name="run")
_WRAPPED = """{source}


import json as __json__


class __Pending__(BaseException):
    pass


class __Solution__:
    def __init__(self, state):
        self.known = state["known"]

    def run(self):
        made = []
        pending = []
        closed = []

        def call(tool, /, **arguments):
            if closed:
                raise RuntimeError("the tools are closed: {function} has returned")
            if pending:
                raise __Pending__
            spelled = __json__.dumps([tool, arguments], allow_nan=False)
            if len(made) == len(self.known):
                pending.append(spelled)
                raise __Pending__
            known = self.known[len(made)]
            made.append(spelled)
            if known["call"] != spelled:
                pending.append("")
                raise __Pending__
            if known["error"]:
                raise RuntimeError(known["error"])
            return known["value"]

        try:
            answer = {function}(call)
        except __Pending__:
            pass
        except Exception as error:
            if not pending:
                return {{"error": f"{{type(error).__name__}}: {{error}}"[:{told}], "line": __line__(error)}}
        closed.append(True)
        if pending:
            return {{"pending": pending[0]}} if pending[0] else {{"unsteady": True}}
        if len(made) < len(self.known):
            return {{"unsteady": True}}
        try:
            return {{"answer": __json__.dumps(answer, allow_nan=False)}}
        except (TypeError, ValueError, RuntimeError) as error:
            return {{"error": f"what {function} returns is no JSON: {{error}}"[:{told}], "line": 0}}


def __line__(error):
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals is globals() and trace.tb_lineno <= {lines}:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
"""


class SolutionRun(Frozen):
    """An executed solution. `calls` are those that reached the environment, in order, `results` their results, encoded;
    `refused` and `changing` are places among them. `answer` is the script's return value, plain JSON. `failed` is the
    reason why it did not finish, if any.
    """

    calls: tuple[ReferenceCall, ...] = ()
    results: tuple[Any, ...] = ()
    refused: tuple[int, ...] = ()
    changing: tuple[int, ...] = ()
    answer: Any = None
    failed: str = ""
    state: State | None = Field(default=None, repr=False)
    digest: str = ""


def execute_solution(
    sandbox: Sandbox,
    program: Program,
    initial: State,
    source: str,
    most_calls: int,
    *,
    seed: int = DEFAULT_SEED,
    now: str = DEFAULT_NOW,
) -> SolutionRun:
    """Execute a solution on an initial state, which is encoded. Errors of the script are in the result.

    Raises ProgramError (the program does not start) and InfrastructureError.
    """
    lines = source.count("\n") + 1
    wrapped = _WRAPPED.format(source=source, function=FUNCTION, told=TOLD_CHARS, lines=lines)
    script = Program(source=wrapped, class_name=_CLASS, tools=(_RUN,))
    recorder = _Recorder(program, most_calls)
    answer: Any = None
    failed = ""
    try:
        with sandbox.reset(program, initial, seed=seed, now=now) as episode:
            try:
                answer = _find_answer(sandbox, script, episode, recorder, seed, now)
            except InputError as error:
                failed = str(error)
            state = episode.state()
    except ProgramEnded as error:
        return recorder.result(failed=f"the environment ended: {str(error)[:TOLD_CHARS]}")
    return recorder.result(answer=answer, failed=failed, state=state, digest=hash_state(state))


class _Recorder:
    """The calls of a script, and their results."""

    def __init__(self, program: Program, most_calls: int) -> None:
        self.most_calls = most_calls
        self.tools = [tool.name for tool in program.tools]
        self.known: list[dict[str, Any]] = []
        self.calls: list[ReferenceCall] = []
        self.results: list[Any] = []
        self.refused: list[int] = []
        self.changing: list[int] = []
        self.bytes = 0

    def make_call(self, episode: Episode, spelled: str) -> None:
        """Make a call in the episode, and store its result. Raises InputError and ProgramEnded."""
        tool, arguments = _read_call(spelled)
        if tool not in self.tools:
            raise InputError(f"it calls {tool!r:.100}, and there is no such tool; there are {', '.join(self.tools)}")
        if len(self.calls) == self.most_calls:
            raise InputError(f"it makes more than {self.most_calls} calls; look up less, or in fewer calls")
        call_result = episode.call(tool, arguments)
        number = len(self.calls)
        self.calls.append(ReferenceCall(tool=tool, arguments=arguments))
        self.results.append(call_result.result)
        self.refused += [number] if is_refusal(call_result.ok, call_result.result) else []
        self.changing += [number] if call_result.patch else []
        self.known.append({"call": spelled, "error": _format_error(call_result), "value": call_result.result})
        self.bytes += len(json.dumps(call_result.result))
        if self.bytes > RESULT_BYTES:
            raise InputError(f"what its calls return is more than {RESULT_BYTES:,} bytes together; look up less")

    def result(self, **more: Any) -> SolutionRun:
        return SolutionRun(
            calls=tuple(self.calls),
            results=tuple(self.results),
            refused=tuple(self.refused),
            changing=tuple(self.changing),
            **more,
        )


def _find_answer(sandbox: Sandbox, script: Program, episode: Episode, recorder: _Recorder, seed: int, now: str) -> Any:
    """Return the script's answer once all of its calls are made. Raises InputError and ProgramEnded."""
    spent = 0.0
    while True:
        call_result = _run_once(sandbox, script, recorder.known, seed, now)
        spent += call_result.duration_us / 1e6
        if spent > MOST_SECONDS:
            raise InputError(f"it takes more than {MOST_SECONDS:g} seconds")
        outcome = call_result.result if call_result.ok and isinstance(call_result.result, dict) else {}
        if isinstance(pending_call := outcome.get("pending"), str):
            recorder.make_call(episode, pending_call)
        elif "answer" in outcome:
            return _read_text(outcome["answer"], "what it returns")
        else:
            raise InputError(_describe_failure(call_result, outcome))


def _run_once(sandbox: Sandbox, script: Program, known: list[dict[str, Any]], seed: int, now: str) -> CallResult:
    try:
        with sandbox.reset(script, {"known": known}, seed=seed, now=now) as process:
            return process.call(_RUN.name, {})
    except (ProgramEnded, ProgramError, StateError) as error:
        raise InputError(f"it does not come back: {str(error)[:TOLD_CHARS]}") from error


def _read_call(spelled: str) -> tuple[str, dict[str, Any]]:
    value = _read_text(spelled, "a call")
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], dict):
        raise InputError('a call is spelled `call("the_tool", parameter=value)`')
    tool, arguments = value
    if not isinstance(tool, str):
        raise InputError(f"the first argument of `call` is the name of a tool, not {tool!r:.100}")
    return tool, arguments


def _read_text(text: Any, what: str) -> Any:
    if not isinstance(text, str) or len(text) > CALL_CHARS:
        raise InputError(f"{what} is longer than {CALL_CHARS:,} characters")
    try:
        return read_json(text, what)
    except FormatError as error:
        raise InputError(str(error)[:TOLD_CHARS]) from None


def _format_error(made: CallResult) -> str:
    """Return the error of a call as the script receives it; empty for one that returned, even if it was refused."""
    if made.ok:
        return ""
    if made.error is None:
        return "the call failed"
    return f"{made.error.type or made.error.kind}: {made.error.message}"[:TOLD_CHARS]


def _describe_failure(made: CallResult, told: dict[str, Any]) -> str:
    if told.get("unsteady"):
        return "it does not call the same when it is executed again with the same results"
    if "error" in told:
        line = told.get("line")
        return f"{f'line {line}: ' if line else ''}{told['error']}"[: TOLD_CHARS * 2]
    error = made.error
    return f"it fails: {error.type} {error.message}"[:TOLD_CHARS] if error else "it gives back nothing that can be read"


def format_calls(run: SolutionRun, most: int) -> str:
    """Return the last calls of a run with their results, one per line, in at most so many characters."""
    lines: list[str] = []
    for line in _iterate_lines_backwards(run):
        most -= len(line) + 1
        if most < 0:
            break
        lines.append(line)
    left_out_count = len(run.calls) - len(lines)
    return "\n".join(([f"({left_out_count} earlier calls)"] if left_out_count else []) + lines[::-1]) or "no calls"


def _iterate_lines_backwards(run: SolutionRun) -> Iterator[str]:
    for number in range(len(run.calls) - 1, -1, -1):
        call = run.calls[number]
        asked = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        yield f"{number + 1}. {call.tool}({asked[:300]}) -> {json.dumps(run.results[number], ensure_ascii=False)[:400]}"
