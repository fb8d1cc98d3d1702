"""Calls to try a tool of the bundled programs on: those of references, the same elsewhere, made-up ones, wrong ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis import starter
from synthesis.assessment.cases import CallSetting, Outcome, execute_call, is_refused_call
from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, Program, State
from synthesis.drafts import CaseKind
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, encode_state
from synthesis.scripted.programs.tester import StateValues, draw_value, spoil_arguments

REFERENCES = 3
"""Calls of references that a tool is tried on, at most."""
ELSEWHERE = 2
"""States that are given the same call, a call made from their content, and a wrong one."""


@dataclass(frozen=True)
class KnownCall:
    """Call on an encoded state, with the caller's expectation."""

    tool: str
    arguments: dict[str, Any]
    state: State
    case: CaseKind
    expectation: str


@dataclass(frozen=True)
class TriedCall:
    """Call with its outcome on the original program."""

    call: KnownCall
    right: Outcome

    @property
    def is_refused(self) -> bool:
        return is_refused_call(self.right.ok, self.right.result, self.right.patch)


@dataclass
class KnownProgram:
    """Bundled environment. `states` are the first and the last of its tasks, `calls` those of their references."""

    record: EnvironmentRecord
    program: Program
    states: list[State] = field(default_factory=list)
    calls: list[KnownCall] = field(default_factory=list)
    _tried: dict[str, list[TriedCall]] = field(default_factory=dict)

    def list_tried_calls(self, sandbox: Sandbox, tool: str, luck: random.Random) -> list[TriedCall]:
        """Return calls of a tool with their outcomes, without those that end the program or are cut."""
        if tool not in self._tried:
            outcomes = [
                (call, execute_call(sandbox, self.program, build_call_setting(call), tool, call.arguments))
                for call in self._iter_calls(tool, luck)
            ]
            self._tried[tool] = [
                TriedCall(call, done) for call, done in outcomes if done.after is not None and not done.cut
            ]
        return self._tried[tool]

    def _iter_calls(self, tool: str, luck: random.Random) -> Iterator[KnownCall]:
        reference_calls = [call for call in self.calls if call.tool == tool]
        luck.shuffle(reference_calls)
        yield from reference_calls[:REFERENCES]
        rules = next(one.parameters for one in self.program.tools if one.name == tool)
        for number, state in enumerate(luck.sample(self.states, min(ELSEWHERE, len(self.states)))):
            state_values = StateValues(state)
            made_up = self._make_up_arguments(rules, state_values, luck)
            arguments = reference_calls[number % len(reference_calls)].arguments if reference_calls else made_up
            if reference_calls:
                yield KnownCall(tool, arguments, state, "positive", f"{tool} succeeds.")
            yield KnownCall(tool, made_up, state, "positive", f"{tool} succeeds with values of the state.")
            wrong, why = spoil_arguments(arguments, rules, luck)
            yield KnownCall(tool, wrong, state, "negative", why)

    def _make_up_arguments(self, rules: dict[str, Any], seen: StateValues, luck: random.Random) -> dict[str, Any]:
        required, properties = rules.get("required") or (), rules.get("properties") or {}
        return {
            name: draw_value(name, rule, seen, luck)
            for name, rule in properties.items()
            if name in required or luck.random() < 0.5
        }


def build_call_setting(call: KnownCall) -> CallSetting:
    return CallSetting(call.state, DEFAULT_SEED, DEFAULT_NOW)


def build_known_program(sandbox: Sandbox, folder: Path) -> KnownProgram:
    """Return a bundled environment with the calls of its references, executed for the states between them."""
    record = starter.read_environment(folder)
    program = starter.build_program(record)
    known = KnownProgram(record, program)
    for task in starter.read_tasks(folder):
        if task.reference is None:
            continue
        initial = encode_state(task.initial_state)
        with sandbox.reset(program, initial, seed=DEFAULT_SEED, now=DEFAULT_NOW) as episode:
            known.states.append(before := episode.state())
            for call in task.reference.calls:
                expectation = f"{call.tool} succeeds."
                known.calls.append(KnownCall(call.tool, call.arguments, before, "positive", expectation))
                episode.call(call.tool, call.arguments)
                before = episode.state()
            known.states.append(before)
    return known
