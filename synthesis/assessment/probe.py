"""Findings that need the sandbox: a bounded, deterministic round of calls on a fresh episode."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from synthesis.assessment.arguments import WRONG, Guesses, collect_guesses, guess_arguments, list_schema_types
from synthesis.assessment.kinds import make_finding
from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, CallResult, Finding, Program, State, Tool
from synthesis.errors import ProgramEnded, ProgramError
from synthesis.runtime import Episode, Sandbox

MAX_CALLS = 400
MAX_SECONDS = 20.0
MAX_LOST = 3


@dataclass
class ProbeRound:
    """One round: its costs and its observations."""

    sandbox: Sandbox
    program: Program
    initial: State
    calls: int = 0
    lost: int = 0
    started: float = field(default_factory=time.monotonic)
    aliasing: list[str] = field(default_factory=list)
    listless: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def spent(self) -> bool:
        return self.calls >= MAX_CALLS or self.lost >= MAX_LOST or time.monotonic() - self.started > MAX_SECONDS


def probe_program(sandbox: Sandbox, program: Program, initial: State) -> list[Finding]:
    """Construct the program, inspect its state and try every tool, each parameter once with a wrong type.

    `SandboxUnavailable` passes through: it implies nothing about the program.
    """
    probe = ProbeRound(sandbox, program, initial)
    try:
        state = _read_start_state(probe)
    except ProgramError as error:
        return [make_finding("program_fails", "program", f"The program does not start: {error}")]
    probe.findings += list_state_findings(state)
    guesses = collect_guesses(state)
    for tool in sorted(program.tools, key=lambda tool: tool.kind != "query"):
        if probe.spent:
            message = f"Stopped after {probe.calls} calls, before {tool.name}."
            probe.findings.append(make_finding("probe_incomplete", "program", message))
            break
        _try_tool(probe, tool, guesses)
    _add_summary(probe, "result_aliases_state", probe.aliasing, "hand out live records of the state")
    _add_summary(probe, "list_for_text_raises", probe.listless, "raise if a list is given instead of a text")
    return probe.findings


def _add_summary(probe: ProbeRound, kind: str, tools: list[str], words: str) -> None:
    """Add one finding for a fault that tools of an environment share."""
    if tools:
        names = ", ".join(tools[:8]) + ("…" if len(tools) > 8 else "")
        message = f"{len(tools)} of {len(probe.program.tools)} tools {words}: {names}."
        probe.findings.append(make_finding(kind, "tools", message, tools=tools))


def _read_start_state(probe: ProbeRound) -> State:
    with probe.sandbox.reset(probe.program, probe.initial, seed=DEFAULT_SEED, now=DEFAULT_NOW) as episode:
        return episode.state()


def _try_tool(probe: ProbeRound, tool: Tool, guesses: Guesses) -> None:
    """Try one tool on episodes of its own, so that findings do not depend on the tools before it."""
    base = guess_arguments(tool, guesses)
    try:
        with _reset_episode(probe, aliases=True) as episode:
            first = _call_tool(probe, episode, tool, base)
        if first.aliases_state:
            probe.aliasing.append(tool.name)
        if _has_raised(first):
            message = f"{tool.name} raises {_format_error(first)} for arguments of the right types."
            probe.findings.append(make_finding("plausible_call_raises", f"tools.{tool.name}", message, arguments=base))
        elif base:
            with _reset_episode(probe) as episode:
                _try_wrong_types(probe, episode, tool, base)
    except ProgramEnded as error:
        probe.lost += 1
        probe.findings.append(make_finding("episode_lost", f"tools.{tool.name}", f"{tool.name}: {error}"))


def _try_wrong_types(probe: ProbeRound, episode: Episode, tool: Tool, base: dict[str, Any]) -> None:
    """Try each parameter once with a value of another type, then all texts at once as lists."""
    wrong: dict[str, str] = {}
    for name, value in _iter_wrong_values(tool, base):
        if probe.spent:
            break
        result = _call_tool(probe, episode, tool, {**base, name: value})
        if _has_raised(result):
            wrong[name] = _format_error(result)
    texts = {name: ["a", "list"] for name in base if "string" in list_schema_types(_get_parameter_schema(tool, name))}
    if wrong:
        error_texts = "; ".join(f"{name}: {text}" for name, text in wrong.items())
        message = f"{tool.name} raises when an argument has a wrong type ({error_texts})."
        probe.findings.append(make_finding("wrong_type_raises", f"tools.{tool.name}", message, parameters=wrong))
    elif texts and not probe.spent and _has_raised(_call_tool(probe, episode, tool, base | texts)):
        probe.listless.append(tool.name)


def _reset_episode(probe: ProbeRound, *, aliases: bool = False) -> Episode:
    return probe.sandbox.reset(
        probe.program,
        probe.initial,
        seed=DEFAULT_SEED,
        now=DEFAULT_NOW,
        validation="source",
        observe_aliases=aliases,
    )


def _call_tool(probe: ProbeRound, episode: Episode, tool: Tool, arguments: dict[str, Any]) -> CallResult:
    probe.calls += 1
    return episode.call(tool.name, arguments)


def _iter_wrong_values(tool: Tool, base: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each parameter of a known type with a value of another one."""
    for name in base:
        for kind in list_schema_types(_get_parameter_schema(tool, name)):
            if kind in WRONG:
                yield name, WRONG[kind]
                break


def _get_parameter_schema(tool: Tool, name: str) -> dict[str, Any]:
    schema = (tool.parameters.get("properties") or {}).get(name)
    return schema if isinstance(schema, dict) else {}


def _has_raised(result: CallResult) -> bool:
    return result.error is not None and result.error.kind == "raised"


def _format_error(result: CallResult) -> str:
    return f"{result.error.type}: {result.error.message}"[:200] if result.error else ""


def list_state_findings(state: State) -> list[Finding]:
    """Return a finding on top-level attributes that JSON cannot hold: sets, tuples, objects, keys that are not text."""
    tags: dict[str, list[str]] = {}
    for name, value in state.items():
        kinds = sorted(set(_iter_tags(value)))
        if kinds:
            tags[name.removeprefix("$") if name.startswith("$$") else name] = kinds
    if not tags:
        return []
    attribute_texts = "; ".join(
        f"{name} ({', '.join(WORDS.get(tag, tag) for tag in kinds)})" for name, kinds in tags.items()
    )
    return [
        make_finding(
            "state_not_plain", "state", f"JSON cannot hold all of the state: {attribute_texts}.", attributes=tags
        )
    ]


WORDS = {
    "$set": "set",
    "$frozenset": "frozen set",
    "$tuple": "tuple",
    "$dict": "keys that are not text",
    "$object": "object of a class",
    "$opaque": "value that cannot be written down",
    "$float": "NaN or infinity",
    "$bytes": "bytes",
}
PLAIN_TAGS = frozenset({"$str", "$text"})


def _iter_tags(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            key = next(iter(item), "")
            if len(item) == 1 and key.startswith("$") and not key.startswith("$$") and key not in PLAIN_TAGS:
                yield key
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
