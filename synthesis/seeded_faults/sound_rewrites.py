"""Rewrites of sound verifiers: a task whose verifier has the same meaning in another form."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

from synthesis.contracts import Frame, Reference
from synthesis.formats.answer_form import serialize_answer
from synthesis.seeded_faults.check_rewrites import join_checks, reword_check, split_check
from synthesis.seeded_faults.sound_tasks import JudgedTask

RewriteKind = Literal["reordered", "reworded", "relabelled", "split", "joined", "field_renamed"]
REWRITES: tuple[RewriteKind, ...] = get_args(RewriteKind)


def rewrite_task(task: JudgedTask, kind: RewriteKind, luck: random.Random) -> JudgedTask:
    """Return the task with an equal verifier."""
    return _REWRITES[kind](task, luck)


def _reorder_parts(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Put the checks, the allowances of the frame and the fields of the form in another order."""
    checks, form = list(task.checks), list(task.form)
    luck.shuffle(checks)
    luck.shuffle(form)
    allowances = list(task.frame.allowances) if task.frame is not None else []
    luck.shuffle(allowances)
    frame = Frame(allowances=tuple(allowances)) if task.frame is not None else None
    return replace(task, checks=tuple(checks), form=tuple(form), frame=frame)


def _reword_checks(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Write each check in other syntax."""
    checks = [
        check.model_copy(update={"source": luck.choice(list(reword_check(check.source)))[1]}) for check in task.checks
    ]
    return replace(task, checks=tuple(checks))


def _relabel_checks(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Give the checks no labels, and the values within a check other names."""
    checks = [
        check.model_copy(update={"label": "", "source": re.sub(r"\bnow\b", "later", check.source)})
        for check in task.checks
    ]
    return replace(task, checks=tuple(checks))


def _split_checks(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Make a check for each of several conditions that one joined."""
    checks = []
    for check in task.checks:
        parts = split_check(check.source) or [check.source]
        checks += [check.model_copy(update={"source": part}) for part in parts]
    return replace(task, checks=tuple(checks))


def _join_two_checks(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Make one check of two adjacent ones."""
    if len(task.checks) < 3:
        return task
    at = luck.randrange(len(task.checks) - 1)
    first, second = task.checks[at : at + 2]
    both = first.model_copy(
        update={"label": f"{first.label}; {second.label}", "source": join_checks([first.source, second.source])}
    )
    return replace(task, checks=(*task.checks[:at], both, *task.checks[at + 2 :]))


def _rename_fields(task: JudgedTask, luck: random.Random) -> JudgedTask:
    """Give each field of the answer another name, everywhere."""
    names = {field.name: f"the_{field.name}"[:50] for field in task.form}

    def rename_values(values: dict[str, Any]) -> dict[str, Any]:
        return {names[name]: value for name, value in values.items()}

    def rename_answer(reference: Reference) -> Reference:
        return reference.model_copy(update={"answer": serialize_answer(rename_values(json.loads(reference.answer)))})

    return replace(
        task,
        form=tuple(field.model_copy(update={"name": names[field.name]}) for field in task.form),
        expected=rename_values(task.expected),
        reference=rename_answer(task.reference),
        runs=tuple(map(rename_answer, task.runs)),
        ways=tuple(map(rename_answer, task.ways)),
    )


_REWRITES: dict[RewriteKind, Callable[[JudgedTask, random.Random], JudgedTask]] = {
    "reordered": _reorder_parts,
    "reworded": _reword_checks,
    "relabelled": _relabel_checks,
    "split": _split_checks,
    "joined": _join_two_checks,
    "field_renamed": _rename_fields,
}
