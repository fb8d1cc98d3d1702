"""Trials of a verification script: ends that it must pass, and ends that it must not.

It must pass the solution's end with the answer a*, in every spelling that the answer form allows. It must not pass no
answer, an empty one, each field left out, off by one, in another order or from another record, answers of sibling
states, the right answer on the initial state, and doing nothing. Its author decides whether it passes the end that the
same calls leave in another order, since the query may state the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import Reference, ScriptVerifier, State
from synthesis.drafts import TaskDraft
from synthesis.runtime import Sandbox, hash_state
from synthesis.verifiers.answer_variants import alter_answer, respell_answer

MOST_WRONG = 80
MOST_SPELLINGS = 12


@dataclass(frozen=True)
class Trial:
    """An end, with a description and whether a verification script must pass it."""

    words: str
    state: State
    answer: str
    passes: bool


def make_order_trial(task: TaskDraft, end: State) -> Trial:
    """Return the trial of the end that the reference's calls leave in another order, encoded, with the right answer."""
    answer = task.reference.answer if task.reference else ""
    return Trial("the right end, if the same calls are made in another order", end, answer, True)


def list_trials(task: TaskDraft, start: State, end: State, siblings: Sequence[str]) -> list[Trial]:
    """Return the trials of a task that has its reference. `start` and `end` are encoded, `siblings` are answers."""
    reference = task.reference or Reference()
    trials = [Trial(_format_trial("the right end and the right answer", reference.answer), end, reference.answer, True)]
    for mutant in respell_answer(task.answer_form, reference)[:MOST_SPELLINGS]:
        trials.append(
            Trial(_format_trial("the right answer, spelled otherwise", mutant.after), end, mutant.after, True)
        )
    if hash_state(start) != hash_state(end):
        trials.append(Trial("the right answer, but nothing was done", start, reference.answer, False))
    trials.append(Trial("nothing done and nothing answered", start, "", False))
    return [*trials, *_list_wrong_answers(task, reference, start, end, siblings)]


def _list_wrong_answers(
    task: TaskDraft, reference: Reference, start: State, end: State, siblings: Sequence[str]
) -> Iterator[Trial]:
    if not task.answer_form:
        return
    for answer in siblings:
        yield Trial(_format_trial("an answer that is right elsewhere", answer), end, answer, False)
    for mutant in alter_answer(task.answer_form, reference, start)[:MOST_WRONG]:
        answer = str(mutant.after)
        yield Trial(_format_trial("a wrong answer", answer) if answer else "no answer", end, answer, False)


def find_blocked(sandbox: Sandbox, script: ScriptVerifier, start: State, trials: Sequence[Trial]) -> str:
    """Return why a script blocks an end that it must pass: the trial, the assertions that do not hold, and errors.
    Empty if it blocks none. Raises InfrastructureError.
    """
    sources = [check.source for check in script.checks]
    passing_trials = [trial for trial in trials if trial.passes]
    table = sandbox.evaluate_ends(start, [(sources, trial.state, trial.answer) for trial in passing_trials])
    for trial, verdicts in zip(passing_trials, table, strict=True):
        broken = [
            f"{name!r}{f' ({verdict.error[:300]})' if verdict.error else ''}"
            for name, verdict in zip(script.assertions, verdicts, strict=True)
            if not verdict.passed
        ]
        if broken:
            return f"{trial.words}: {'; '.join(broken[:3])}"
    return ""


def find_passed(sandbox: Sandbox, script: ScriptVerifier, start: State, trials: Sequence[Trial]) -> list[str]:
    """Return descriptions of the wrong ends that a script passes. Raises InfrastructureError."""
    wrong = [trial for trial in trials if not trial.passes]
    table = sandbox.evaluate_ends(start, [([script.joint_check], trial.state, trial.answer) for trial in wrong])
    return [trial.words for trial, (verdict,) in zip(wrong, table, strict=True) if verdict.passed]


def _format_trial(words: str, answer: object) -> str:
    return f"{words}: {str(answer)[:300]}" if answer else words
