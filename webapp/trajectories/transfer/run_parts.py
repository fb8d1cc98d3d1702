"""Parts of a run that its format has no field for: seed and clock, the ending of an attempt, its revision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from synthesis.contracts import Actor, CallError
from synthesis.formats.envscaler_runs import read_run
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import add_parts
from synthesis.formats.records import RefusedStep, RunParts, RunRecord
from synthesis.formats.submissions import read_submitted_run
from synthesis.formats.values import read_or_fail
from webapp.common.content_store import content_hash
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import ReplayState, Score, Step, Trajectory
from webapp.trajectories.services import SOURCE, compute_run_hash
from webapp.trajectories.stored_runs import read_score

REFUSED = ("malformed", "not_offered", "bad_arguments")
"""Kinds of errors of calls that the record leaves out."""
ENDED = ("agent_error", "program_error", "infra_error", "truncated", "cancelled")
"""Outcomes that executing a run again cannot determine; it does determine whether the run is solved."""


def find_run_parts(row: Trajectory, revision: TaskRevision, record: dict[str, Any]) -> RunParts:
    """Return the parts that an import of the record alone would lose."""
    ending = _read_ending(row, record)
    read = read_or_fail(read_run, Entry("record", add_parts(record, RunParts(outcome=ending["outcome"]))))
    if not isinstance(read, RunRecord):
        return RunParts()
    task = revision.task
    read = read_submitted_run(read, read_answer_form(revision))
    is_found = (read.environment_key, read.task_key, revision.pk) == (
        task.environment.key, task.key, task.current_id,
    )  # fmt: skip
    steps = list(row.steps.order_by("index"))
    refused = _list_refused_steps(steps) if len(read.steps) < len(steps) else ()
    whole = len(read.steps) + len(refused) == len(steps)
    turns = tuple(step.turn for step in steps) if whole else ()
    return RunParts(
        refused=refused if whole else (),
        turns=() if turns == tuple(step.turn for step in read.steps) else turns,
        identity=_find_identity(row, read),
        source=_omit_default_source(row.source),
        environment_source=_omit_default_source(task.environment.source),
        task_source=_omit_default_source(task.source),
        revision="" if is_found else revision.content_hash,
        seed=row.seed,
        now=row.now,
        validation="schema" if row.validation == "schema" else "source",
        conversational=None if read.conversational == row.conversational else row.conversational,
        answer=None if read.answer == row.answer else row.answer,
        judged=row.reward is not None or not (row.replay == ReplayState.MADE_HERE or ending["outcome"]),
        score=_find_judged_score(row, revision),
        **ending,
    )


def _list_refused_steps(steps: Sequence[Step]) -> tuple[RefusedStep, ...]:
    """Return the calls that never reached the environment: the record leaves them out, as other tools would execute
    them."""
    return tuple(
        RefusedStep(
            index=step.index,
            turn=step.turn,
            content=step.content,
            reasoning=step.reasoning,
            tool=step.tool,
            arguments=step.arguments or {},
            observation=step.recorded,
            error=_read_error(step),
            by=cast(Actor, step.by),
        )
        for step in steps
        if step.error_kind in REFUSED
    )


def _read_error(step: Step) -> CallError:
    error_values = (
        step.result if isinstance(step.result, dict) else {"kind": step.error_kind, "message": str(step.result)}
    )
    return CallError.model_validate(error_values)


def _read_ending(row: Trajectory, record: dict[str, Any]) -> dict[str, Any]:
    """Return how the run ended; without an outcome if it could not be executed again."""
    is_told = row.outcome in ENDED and row.replay != ReplayState.FAILED
    is_in_record = row.outcome == "truncated" and record.get("truncated") is True
    return {
        "outcome": row.outcome if is_told and not is_in_record else "",
        "note": row.note,
        "user_error": row.user_error,
        "user_fault": row.user_fault,
        "rejected": row.rejected,
        "solver": row.solver,
        "provenance": row.provenance,
    }


def _omit_default_source(source: str) -> str:
    return "" if source == SOURCE else source


def _find_identity(row: Trajectory, read: RunRecord) -> str:
    """Return the identity of a run; empty if its record identifies it. Two attempts made here may have equal records:
    each has an identity of its own, which other sites keep."""
    if row.content_hash == compute_run_hash(read, row.source):
        return ""
    if row.replay == ReplayState.MADE_HERE:
        return content_hash([row.content_hash, json.dumps(read.raw, sort_keys=True)])
    return row.content_hash


def _find_judged_score(row: Trajectory, revision: TaskRevision) -> Any:
    """Return the verdicts of a judge, since an import asks no judge."""
    if revision.verifier_kind != "rubric" or row.reward is None:
        return None
    score = Score.objects.filter(trajectory=row, revision=revision).exclude(source="recorded").order_by("-id").first()
    return read_score(score, revision) if score is not None else None
