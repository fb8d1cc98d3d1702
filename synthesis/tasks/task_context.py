"""Context of every stage of a task: the program, its start state, and their text in prompts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from synthesis.assessment.environments import build_view
from synthesis.contracts import Program, Reference, RubricVerifier, State
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, encode_state, to_canonical_json
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import construct_state
from synthesis.stages import Kit
from synthesis.tasks.leak import Names, find_leaks, require_no_leak
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.rubric_audit import RubricSubject

LEAKS = "names_a_tool"
TAGS = (
    "In the state below an object with a key that begins with “$” stands for a Python value that JSON has no word for, "
    'such as `{"$set": ["a"]}` for `{"a"}`; checks get the Python value itself.'
)


class Unfit(InputError):
    """Error of a reply that could be read, but whose content is not acceptable. `reason` is the slug of a rejection."""

    def __init__(self, reason: str, message: str, observed: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.observed = observed


@dataclass(frozen=True)
class World:
    """Scenario of a task. `initial` is its state, encoded; `start` the state that the program makes of it, which checks
    read.
    """

    record: EnvironmentRecord
    program: Program
    initial: State
    start: State

    @functools.cached_property
    def start_text(self) -> str:
        """The state at the start, for a prompt."""
        return self.format_part(self.start)

    def format_part(self, part: State) -> str:
        """Return a part of the state at the start, for a prompt."""
        text = prompt_text.format_state(part)
        return f"{TAGS}\n\n{text}" if '"$' in to_canonical_json(part) else text

    def subject(self, task: TaskDraft, reference: Reference | None) -> Subject:
        """Return a task in the form that verifiers take."""
        kind = RubricSubject if isinstance(task.verifier, RubricVerifier) else Subject
        return kind(
            program=self.program,
            initial=self.initial,
            instruction=task.instruction,
            answer_form=task.answer_form,
            verifier=task.verifier,
            reference=reference,
        )


async def build_world(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft) -> World:
    """Construct a scenario. Raise Rejected("state_invalid") and InfrastructureError."""
    kit.check_stop()
    return await kit.run(_construct_world, kit.sandbox, record, scenario)


def _construct_world(sandbox: Sandbox, record: EnvironmentRecord, scenario: ScenarioDraft) -> World:
    program = build_view(record).program
    try:
        start = construct_state(sandbox, program, scenario.state)
    except InputError as error:
        raise Rejected("state_invalid", f"The scenario no longer starts: {error}") from error
    return World(record, program, encode_state(scenario.state), start)


@contextmanager
def reject_unfit_replies() -> Iterator[None]:
    """Raise Rejected instead of MalformedReply if the replies could be read but not accepted: a fact about the item."""
    try:
        yield
    except MalformedReply as error:
        cause = error.__cause__
        if not isinstance(cause, Unfit):
            raise
        reason = f"Asked again, the reply stayed unfit: {cause}"
        raise Rejected(cause.reason, reason, {"call_key": error.call_key}) from error


def refuse_leaks(words: str, names: Names, leaked: dict[str, None] | None = None) -> None:
    """Raise Unfit (`names_a_tool`) if a text names internals of the system, which are added to `leaked`."""
    if leaked is not None:
        leaked.update(dict.fromkeys(leak.word for leak in find_leaks(words, names)))
    try:
        require_no_leak(words, names)
    except InputError as error:
        raise Unfit(LEAKS, str(error)) from error
