"""What every stage of a task works with: the program, the state it starts in, and what prompts show of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from synthesis.assessment.environments import view_of
from synthesis.contracts import Program, Reference, State
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, canonical_json, encode_state
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import construct
from synthesis.stages import Kit
from synthesis.verifiers.call_sequences import Subject

TAGS = (
    "In the state below an object with a key that begins with “$” stands for a Python value that JSON has no word for, "
    'such as `{"$set": ["a"]}` for `{"a"}`; checks get the Python value itself.'
)


class Unfit(InputError):
    """A reply that was read well, but cannot be accepted for what it says. `reason` is the slug of a rejection."""

    def __init__(self, reason: str, message: str, observed: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.observed = observed


@dataclass(frozen=True)
class World:
    """`initial` is the scenario's state, encoded; `start` what the program makes of it, which checks look at."""

    record: EnvironmentRecord
    program: Program
    initial: State
    start: State

    @functools.cached_property
    def shown(self) -> str:
        """The state at the start, for a prompt."""
        return self.shown_part(self.start)

    def shown_part(self, part: State) -> str:
        """A part of the state at the start, for a prompt."""
        text = prompt_text.state(part)
        return f"{TAGS}\n\n{text}" if '"$' in canonical_json(part) else text

    def subject(self, task: TaskDraft, reference: Reference | None) -> Subject:
        """A task as verifiers take it."""
        return Subject(
            program=self.program,
            initial=self.initial,
            instruction=task.instruction,
            answer_form=task.answer_form,
            verifier=task.verifier,
            reference=reference,
        )


async def world_of(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft) -> World:
    """Construct a scenario. Raises Rejected("state_invalid") and InfrastructureError."""
    kit.check_stop()
    return await kit.run(_made, kit.sandbox, record, scenario)


def _made(sandbox: Sandbox, record: EnvironmentRecord, scenario: ScenarioDraft) -> World:
    program = view_of(record).program
    try:
        start = construct(sandbox, program, scenario.state)
    except InputError as error:
        raise Rejected("state_invalid", f"The scenario no longer starts: {error}") from error
    return World(record, program, encode_state(scenario.state), start)


def rejected(error: MalformedReply) -> Rejected | MalformedReply:
    """What ends an item whose replies could not be used: a fact about it where they were read, else a failure."""
    cause = error.__cause__
    if isinstance(cause, Unfit):
        return Rejected(cause.reason, f"Asked again, the reply stayed unfit: {cause}", {"call_key": error.call_key})
    return error
