"""Calls to try a tool of the bundled programs on: those of references, the same elsewhere, made up ones, wrong ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis import starter
from synthesis.assessment.cases import CallSetting, Outcome, execute, turned_down
from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, Program, State
from synthesis.drafts import CaseKind
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, encode_state
from synthesis.scripted.programs.tester import StateValues, spoilt, value

REFERENCES = 3
"""Calls of references that a tool is tried on, at most."""
ELSEWHERE = 2
"""States of which one is given the same call, one made up from what stands there, and a wrong one."""


@dataclass(frozen=True)
class KnownCall:
    """A call on an encoded state, and what whoever makes it means by it."""

    tool: str
    arguments: dict[str, Any]
    state: State
    case: CaseKind
    expectation: str


@dataclass(frozen=True)
class TriedCall:
    """A call and what it does on the program as it is."""

    call: KnownCall
    right: Outcome

    @property
    def refused(self) -> bool:
        return turned_down(self.right.ok, self.right.result, self.right.patch)


@dataclass
class KnownProgram:
    """A bundled environment. `states` are the first and the last of its tasks, `calls` those of their references."""

    record: EnvironmentRecord
    program: Program
    states: list[State] = field(default_factory=list)
    calls: list[KnownCall] = field(default_factory=list)
    _tried: dict[str, list[TriedCall]] = field(default_factory=dict)

    def tried(self, sandbox: Sandbox, tool: str, luck: random.Random) -> list[TriedCall]:
        """Calls of a tool with what they do; those that end the program or do something else each time are left out."""
        if tool not in self._tried:
            outcomes = [
                (call, execute(sandbox, self.program, setting(call), tool, call.arguments))
                for call in self._calls_of(tool, luck)
            ]
            self._tried[tool] = [
                TriedCall(call, done) for call, done in outcomes if done.after is not None and not done.cut
            ]
        return self._tried[tool]

    def _calls_of(self, tool: str, luck: random.Random) -> Iterator[KnownCall]:
        known = [call for call in self.calls if call.tool == tool]
        luck.shuffle(known)
        yield from known[:REFERENCES]
        rules = next(one.parameters for one in self.program.tools if one.name == tool)
        for number, state in enumerate(luck.sample(self.states, min(ELSEWHERE, len(self.states)))):
            seen = StateValues(state)
            made_up = self._made_up(rules, seen, luck)
            given = known[number % len(known)].arguments if known else made_up
            if known:
                yield KnownCall(tool, given, state, "positive", f"{tool} succeeds.")
            yield KnownCall(tool, made_up, state, "positive", f"{tool} succeeds with values of the state.")
            wrong, why = spoilt(given, rules, luck)
            yield KnownCall(tool, wrong, state, "negative", why)

    def _made_up(self, rules: dict[str, Any], seen: StateValues, luck: random.Random) -> dict[str, Any]:
        wanted, properties = rules.get("required") or (), rules.get("properties") or {}
        return {
            name: value(name, rule, seen, luck)
            for name, rule in properties.items()
            if name in wanted or luck.random() < 0.5
        }


def setting(call: KnownCall) -> CallSetting:
    return CallSetting(call.state, DEFAULT_SEED, DEFAULT_NOW)


def known_program(sandbox: Sandbox, folder: Path) -> KnownProgram:
    """A bundled environment with the calls of its references, executed for the states between them."""
    record = starter.environment(folder)
    program = starter.program_of(record)
    found = KnownProgram(record, program)
    for task in starter.tasks(folder):
        if task.reference is None:
            continue
        initial = encode_state(task.initial_state)
        with sandbox.reset(program, initial, seed=DEFAULT_SEED, now=DEFAULT_NOW) as episode:
            found.states.append(before := episode.state())
            for call in task.reference.calls:
                expectation = f"{call.tool} succeeds."
                found.calls.append(KnownCall(call.tool, call.arguments, before, "positive", expectation))
                episode.call(call.tool, call.arguments)
                before = episode.state()
            found.states.append(before)
    return found
