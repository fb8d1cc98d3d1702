"""Execution of a blueprint in the sandbox: its calls on one episode, its derivations over their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, BlueprintNode, Frozen, Program, State, is_refusal
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Sandbox, hash_state
from synthesis.tool_graph.derivations import run_derivation

TOLD_CHARS = 800
REFUSED = "it was refused: "


class Execution(Frozen):
    """Result of executing nodes. `results` are their return values, encoded, by node; `changing` the calls that changed
    the state. `failed` is the node that erred or refused, with the reason in `message`; later nodes were not executed.
    """

    results: dict[str, Any] = Field(default_factory=dict)
    changing: tuple[str, ...] = ()
    failed: str = ""
    message: str = ""
    state: State | None = None
    digest: str = ""


def execute_nodes(
    sandbox: Sandbox,
    program: Program,
    initial: State,
    nodes: Sequence[BlueprintNode],
    *,
    seed: int = DEFAULT_SEED,
    now: str = DEFAULT_NOW,
) -> Execution:
    """Execute nodes in order from an initial state, up to the first that fails.

    The same nodes give the same results. Raises ProgramError (the program does not start) and InfrastructureError.
    """
    results: dict[str, Any] = {}
    changing: list[str] = []
    failed = message = ""
    node = None
    try:
        with sandbox.reset(program, initial, seed=seed, now=now) as episode:
            for node in nodes:
                if node.kind == "reason":
                    message = _add_derived_value(sandbox, node, results)
                else:
                    call_result = episode.call(node.tool, node.call_arguments)
                    message = _describe_refusal(call_result.ok, call_result.result, call_result.error)
                    results[node.id] = call_result.result
                    changing += [node.id] if call_result.patch else []
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
        digest=hash_state(state),
    )


def _add_derived_value(sandbox: Sandbox, node: BlueprintNode, results: dict[str, Any]) -> str:
    """Add the value of a reasoning node to the results; return why it fails, or an empty text."""
    try:
        results[node.id] = run_derivation(sandbox, node.derivation, results)
    except InputError as error:
        return str(error)
    return ""


def _describe_refusal(ok: bool, result: Any, error: Any) -> str:
    """Return why a call erred or was refused; empty if it succeeded."""
    if not is_refusal(ok, result):
        return ""
    if error is not None:
        return f"{error.type or error.kind}: {error.message}"[:TOLD_CHARS]
    return f"{REFUSED}{result}"[:TOLD_CHARS]
