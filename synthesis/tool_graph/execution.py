"""Execution of a blueprint in the sandbox: its calls on one episode, its derivations over what they returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from synthesis.contracts import BlueprintNode, Frozen, Program, State, is_refusal
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Sandbox, state_hash
from synthesis.tool_graph.derivations import run_derivation

TOLD_CHARS = 800


class Execution(Frozen):
    """What nodes came to. `results` are what they returned, encoded, by node; `changing` the calls that changed the
    state. `failed` is the node that erred or refused, with why in `message`; what stands behind it was not executed."""

    results: dict[str, Any] = Field(default_factory=dict)
    changing: tuple[str, ...] = ()
    failed: str = ""
    message: str = ""
    state: State | None = None
    digest: str = ""


def execute_nodes(sandbox: Sandbox, program: Program, initial: State, nodes: Sequence[BlueprintNode]) -> Execution:
    """Execute nodes in order from an initial state, up to the first that fails.

    The same nodes give the same results. Raises ProgramError (the program does not start) and InfrastructureError.
    """
    results: dict[str, Any] = {}
    changing: list[str] = []
    failed = message = ""
    node = None
    try:
        with sandbox.reset(program, initial) as episode:
            for node in nodes:
                if node.kind == "reason":
                    message = _derive(sandbox, node, results)
                else:
                    made = episode.call(node.tool, node.call_arguments)
                    message = _say_refusal(made.ok, made.result, made.error)
                    results[node.id] = made.result
                    changing += [node.id] if made.patch else []
                if message:
                    failed = node.id
                    break
            state = episode.state()
    except ProgramEnded as error:
        return Execution(results=results, failed=node.id if node else "", message=str(error)[:TOLD_CHARS])
    return Execution(
        results=results,
        changing=tuple(changing),
        failed=failed,
        message=message,
        state=state,
        digest=state_hash(state),
    )


def _derive(sandbox: Sandbox, node: BlueprintNode, results: dict[str, Any]) -> str:
    """Add what a reasoning node works out to the results; say why it fails."""
    try:
        results[node.id] = run_derivation(sandbox, node.derivation, results)
    except InputError as error:
        return str(error)
    return ""


def _say_refusal(ok: bool, result: Any, error: Any) -> str:
    """Why a call erred or was refused; empty if it went through."""
    if not is_refusal(ok, result):
        return ""
    if error is not None:
        return f"{error.type or error.kind}: {error.message}"[:TOLD_CHARS]
    return f"it was refused: {result}"[:TOLD_CHARS]
