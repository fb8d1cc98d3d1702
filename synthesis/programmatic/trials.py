"""Trials of a verification script: ends that it must let pass, and ends that it must not.

It must let pass the solution's end with the answer a*, in every spelling that the answer form allows. It must not let
pass no answer, an empty one, each field left out, off by one, in another order or from another record, answers of
sibling states, the right answer on the state at the start, and doing nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import Reference, ScriptVerifier, State
from synthesis.drafts import TaskDraft
from synthesis.runtime import Sandbox, state_hash
from synthesis.verifiers.answer_variants import alter_answer, respell_answer

MOST_WRONG = 80
MOST_SPELLINGS = 12


@dataclass(frozen=True)
class Trial:
    """An end, in words, with whether a verification script must let it pass."""

    words: str
    state: State
    answer: str
    passes: bool


def list_trials(task: TaskDraft, start: State, end: State, siblings: Sequence[str]) -> list[Trial]:
    """The trials of a task that has its reference. `start` and `end` are encoded, `siblings` are answers."""
    reference = task.reference or Reference()
    trials = [Trial(_say("the right end and the right answer", reference.answer), end, reference.answer, True)]
    for mutant in respell_answer(task.answer_form, reference)[:MOST_SPELLINGS]:
        trials.append(Trial(_say("the right answer, spelled otherwise", mutant.after), end, mutant.after, True))
    if state_hash(start) != state_hash(end):
        trials.append(Trial("the right answer, but nothing was done", start, reference.answer, False))
    trials.append(Trial("nothing done and nothing answered", start, "", False))
    return [*trials, *_list_wrong_answers(task, reference, start, end, siblings)]


def _list_wrong_answers(
    task: TaskDraft, reference: Reference, start: State, end: State, siblings: Sequence[str]
) -> Iterator[Trial]:
    if not task.answer_form:
        return
    for answer in siblings:
        yield Trial(_say("an answer that is right elsewhere", answer), end, answer, False)
    for mutant in alter_answer(task.answer_form, reference, start)[:MOST_WRONG]:
        answer = str(mutant.after)
        yield Trial(_say("a wrong answer", answer) if answer else "no answer", end, answer, False)


def find_blocked(sandbox: Sandbox, script: ScriptVerifier, start: State, trials: Sequence[Trial]) -> str:
    """Why a script blocks what it must let pass: the trial, the assertions that do not hold, and errors. Empty if it
    blocks none. Raises InfrastructureError."""
    sources = [check.source for check in script.checks]
    wanted = [trial for trial in trials if trial.passes]
    table = sandbox.evaluate_ends(start, [(sources, trial.state, trial.answer) for trial in wanted])
    for trial, verdicts in zip(wanted, table, strict=True):
        broken = [
            f"{name!r}{f' ({verdict.error[:300]})' if verdict.error else ''}"
            for name, verdict in zip(script.assertions, verdicts, strict=True)
            if not verdict.passed
        ]
        if broken:
            return f"{trial.words}: {'; '.join(broken[:3])}"
    return ""


def find_passed(sandbox: Sandbox, script: ScriptVerifier, start: State, trials: Sequence[Trial]) -> list[str]:
    """What a script lets pass that it must not, in words. Raises InfrastructureError."""
    wrong = [trial for trial in trials if not trial.passes]
    table = sandbox.evaluate_ends(start, [([script.joint_check], trial.state, trial.answer) for trial in wrong])
    return [trial.words for trial, (verdict,) in zip(wrong, table, strict=True) if verdict.passed]


def _say(words: str, answer: object) -> str:
    return f"{words}: {str(answer)[:300]}" if answer else words
