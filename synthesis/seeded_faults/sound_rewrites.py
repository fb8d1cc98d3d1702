"""Sound verifiers in other words: a task whose verifier means the same, and is written otherwise."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

from synthesis.contracts import Frame, Reference
from synthesis.formats.answer_form import answer_text
from synthesis.seeded_faults.check_rewrites import join, reword, split
from synthesis.seeded_faults.sound_tasks import JudgedTask

RewriteKind = Literal["reordered", "reworded", "relabelled", "split", "joined", "field_renamed"]
REWRITES: tuple[RewriteKind, ...] = get_args(RewriteKind)


def rewrite_task(task: JudgedTask, kind: RewriteKind, luck: random.Random) -> JudgedTask:
    """The task with an equal verifier."""
    return _REWRITES[kind](task, luck)


def _reorder(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """The checks, the allowances of the frame and the fields of the form in another order."""
    checks, form = list(task.checks), list(task.form)
    luck.shuffle(checks)
    luck.shuffle(form)
    allowances = list(task.frame.allowances) if task.frame is not None else []
    luck.shuffle(allowances)
    frame = Frame(allowances=tuple(allowances)) if task.frame is not None else None
    return replace(task, checks=tuple(checks), form=tuple(form), frame=frame)


def _reword(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Each check in other syntax."""
    checks = [check.model_copy(update={"source": luck.choice(list(reword(check.source)))[1]}) for check in task.checks]
    return replace(task, checks=tuple(checks))


def _relabel(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Other labels, and other names for the values within a check."""
    checks = [
        check.model_copy(update={"label": "", "source": re.sub(r"\bnow\b", "later", check.source)})
        for check in task.checks
    ]
    return replace(task, checks=tuple(checks))


def _split(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """A check for each of several conditions that one joined."""
    checks = []
    for check in task.checks:
        parts = split(check.source) or [check.source]
        checks += [check.model_copy(update={"source": part}) for part in parts]
    return replace(task, checks=tuple(checks))


def _join(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """One check instead of two that stand beside each other."""
    if len(task.checks) < 3:
        return task
    at = luck.randrange(len(task.checks) - 1)
    one, other = task.checks[at : at + 2]
    both = one.model_copy(update={"label": f"{one.label}; {other.label}", "source": join([one.source, other.source])})
    return replace(task, checks=(*task.checks[:at], both, *task.checks[at + 2 :]))


def _rename_field(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Another name for each field of the answer, wherever it stands."""
    names = {field.name: f"the_{field.name}"[:50] for field in task.form}

    def renamed(values: dict[str, Any]) -> dict[str, Any]:
        return {names[name]: value for name, value in values.items()}

    def answered(reference: Reference) -> Reference:
        return reference.model_copy(update={"answer": answer_text(renamed(json.loads(reference.answer)))})

    return replace(
        task,
        form=tuple(field.model_copy(update={"name": names[field.name]}) for field in task.form),
        expected=renamed(task.expected),
        reference=answered(task.reference),
        runs=tuple(map(answered, task.runs)),
        ways=tuple(map(answered, task.ways)),
    )


_REWRITES: dict[RewriteKind, Callable[[JudgedTask, random.Random], JudgedTask]] = {
    "reordered": _reorder,
    "reworded": _reword,
    "relabelled": _relabel,
    "split": _split,
    "joined": _join,
    "field_renamed": _rename_field,
}
