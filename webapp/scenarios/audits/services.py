"""Audits as rows: computed once for what they depend on, and stored with everything that a page shows of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from synthesis.contracts import Program, RubricVerifier
from synthesis.errors import InputError, ProgramError
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox, restrict_program
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import (
    AUDIT_VERSION,
    GAPS,
    MutantProbe,
    ProbedState,
    TaskAudit,
    build_untried_audit,
)
from synthesis.verifiers.call_sequences import AT_ONCE, Subject
from synthesis.verifiers.mutants import cut_around_difference
from synthesis.verifiers.rubric_audit import RUBRIC_AUDIT_VERSION, Judge, RubricSubject, audit_rubric
from webapp.accounts.services import write_audit_entry as write_audit_log
from webapp.common.content_store import content_hash
from webapp.common.errors import Conflict
from webapp.common.templatetags.show import counted
from webapp.environments.models import Environment
from webapp.environments.totals import lock_environment
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.audits.task_state import set_task_audit
from webapp.scenarios.models import Audit, AuditFault, Task, TaskReference, TaskRevision
from webapp.scenarios.references import find_reference, read_withheld, to_reference
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import needs_judge, read_verifier

VALUE_CHARS = 2_000
TEXT_CHARS = 2_000
SUPERSEDED_REMEDY = "Edit the task and give it an answer form, or import it again."
HEAVY = ("record", "scenario__version__record", "scenario__version__introduction", "scenario__version__source")


@dataclass(frozen=True)
class NamedJudge:
    """A registered judge. `name` is part of what an audit depends on."""

    name: str
    open: Judge


@dataclass(frozen=True)
class Case:
    """A current revision that may need an audit, and the key that its audit has."""

    revision: TaskRevision
    reference: TaskReference | None
    key: str
    judge: NamedJudge | None = None

    @property
    def task(self) -> Task:
        return self.revision.task


def list_audit_cases(task_ids: Sequence[int], judge: NamedJudge | None = None) -> list[Case]:
    """Return the current revisions of these tasks with their newest references, by task; two queries."""
    rows = TaskRevision.objects.filter(task__in=task_ids, task__current=F("pk")).defer(*HEAVY)
    revisions = list(rows.select_related("task", "scenario__version").order_by("task_id"))
    newest = {row.revision_id: row for row in TaskReference.objects.filter(revision__in=revisions).order_by("id")}
    return [build_audit_case(revision, newest.get(revision.pk), judge) for revision in revisions]


def build_audit_case(revision: TaskRevision, reference: TaskReference | None, judge: NamedJudge | None = None) -> Case:
    """Return the audit case of one revision; only rubrics use the judge."""
    used = judge if judge is not None and needs_judge(revision) else None
    return Case(revision, reference, compute_audit_key(revision, reference, used.name if used else ""), used)


def compute_audit_key(revision: TaskRevision, reference: TaskReference | None, judge: str = "") -> str:
    """Return the hash of everything that an audit's result depends on."""
    scenario = revision.scenario
    rubric_parts = [RUBRIC_AUDIT_VERSION, revision.instruction, judge] if revision.verifier_kind == "rubric" else []
    framed = [revision.frame] if revision.frame is not None else []
    withheld = [["withheld", revision.withheld]] if revision.withheld is not None else []
    return content_hash(
        [
            AUDIT_VERSION,
            revision.verifier_kind,
            revision.verifier_hash,
            scenario.version.content_hash,
            scenario.initial_id,
            reference.content_hash if reference else "",
            *rubric_parts,
            *framed,
            *withheld,
        ]
    )


def is_stale(audit: Audit, revision: TaskRevision) -> bool:
    """Return whether the revision must be audited anew: the revision, reference or version of the audit itself
    changed."""
    return audit.revision_id != revision.pk or audit.key != compute_audit_key(
        revision, find_reference(revision), audit.judge
    )


def build_audit_subject(case: Case, program: Program) -> Subject:
    """Return what the sandbox and the verifier need of a case, whose version has this program.

    Raises InputError if a state is damaged.
    """
    program = restrict_program(program, read_withheld(case.revision))
    initial = load_state(case.revision.scenario.initial_id)
    reference = to_reference(case.reference) if case.reference else None
    verifier = read_verifier(case.revision)
    kind = RubricSubject if isinstance(verifier, RubricVerifier) else Subject
    return kind(
        program=program,
        initial=initial,
        instruction=case.revision.instruction,
        answer_form=read_answer_form(case.revision),
        verifier=verifier,
        withheld=read_withheld(case.revision),
        reference=reference,
    )


def compute_audit(
    sandbox: Sandbox, case: Case, subject: Subject, check_stop: Any = lambda: None, at_once: int = AT_ONCE
) -> TaskAudit:
    """Compute the audit of a case without the database.

    Raises InfrastructureError; nothing is known of the task then.
    """
    try:
        opened = case.judge.open if case.judge else None
        if isinstance(subject, RubricSubject):
            return audit_rubric(sandbox, subject, opened, check_stop, at_once)
        return audit_task(sandbox, subject, check_stop, at_once)
    except ProgramError as error:
        return build_untried_audit("start_fails", f"The program does not start: {error}")
    except InputError as error:
        return build_untried_audit("no_checks", str(error))


def find_stored_audit(case: Case) -> Audit | None:
    """Return an audit with the case's key: its own, else a copy of one of another revision. No sandbox is needed."""
    rows = Audit.objects.filter(key=case.key)
    own_audit = rows.filter(revision=case.revision).defer("probes").first()
    if own_audit is None:
        other = rows.order_by("id").first()
        if other is None:
            return None
        return _copy_audit(case, other)
    if case.task.audit_id != own_audit.pk or case.task.audit_state != own_audit.state:
        _set_current_audit(case, own_audit)
    return own_audit


@transaction.atomic
def _copy_audit(case: Case, other: Audit) -> Audit:
    lock_environment(case.task.environment_id)
    faults = list(other.faults.all())
    other.pk, other.revision, other.reference = None, case.revision, case.reference
    other._state.adding = True
    # Another process may have stored the same audit meanwhile: then its row is used.
    Audit.objects.bulk_create([other], ignore_conflicts=True)
    row = Audit.objects.defer("probes").get(revision=case.revision, key=case.key)
    for fault in faults:
        fault.pk, fault.audit = None, row
    AuditFault.objects.bulk_create(faults, ignore_conflicts=True)
    _set_current_audit(case, row)
    return row


@transaction.atomic
def store_audit(case: Case, audit: TaskAudit) -> Audit:
    """Store an audit and the copies of it that lists show; replace an older one with the same key."""
    lock_environment(case.task.environment_id)
    Audit.objects.filter(revision=case.revision, key=case.key).delete()
    tried = audit.reference is not None
    gaps = [fault.message for fault in audit.faults if fault.kind in GAPS]
    row = Audit.objects.create(
        revision=case.revision,
        reference=case.reference,
        key=case.key,
        verifier_hash=case.revision.verifier_hash,
        reference_hash=case.reference.content_hash if case.reference else "",
        audit_version=audit.version,
        judge=(case.judge.name if case.judge else audit.judge)[:200],
        state=audit.state,
        why=clean_text(" ".join(gaps))[:TEXT_CHARS] if audit.state in ("incomplete", "unproven") else "",
        do_nothing=audit.nothing.reward,
        reference_reward=audit.reference.reward if audit.reference else None,
        mutants=len(audit.counted) if tried else None,
        below=audit.below if tried else None,
        equivalent=sum(probe.equivalent for probe in audit.mutants) if tried else None,
        nondeterministic=None if audit.deterministic is None else not audit.deterministic,
        unseen=audit.unseen.share if audit.unseen is not None else None,
        probes=serialize_probes(audit),
    )
    AuditFault.objects.bulk_create(
        AuditFault(
            audit=row,
            position=position,
            kind=fault.kind,
            check_index=fault.check,
            message=clean_text(fault.message)[:TEXT_CHARS],
        )
        for position, fault in enumerate(audit.faults)
    )
    _set_current_audit(case, row)
    return row


@transaction.atomic
def _set_current_audit(case: Case, row: Audit) -> None:
    """Copy the audit onto the task, unless the revision or reference changed: then the new one must be audited."""
    lock_environment(case.task.environment_id)
    current = Task.objects.filter(pk=case.task.pk).values_list("current_id", flat=True).first()
    newest = find_reference(case.revision)
    if current == case.revision.pk and (newest.pk if newest else None) == (
        case.reference.pk if case.reference else None
    ):
        set_task_audit(case.task.pk, row, row.state)


def serialize_probes(audit: TaskAudit) -> dict[str, Any]:
    """Serialize the probes for pages, with values cut to a size that can be shown."""
    own_probes = {name: getattr(audit, name) for name in ("nothing", "reference", "other_clock", "other_seed", "claim")}
    return {
        **{name: _serialize_probe(probe) for name, probe in own_probes.items() if probe is not None},
        "mutants": [_serialize_mutant(mutant) for mutant in audit.mutants],
        "marks": list(audit.marks),
        **({"judge_usage": audit.judge_usage.model_dump()} if audit.judge_usage.requests else {}),
        **({"unseen": audit.unseen.model_dump()} if audit.unseen is not None else {}),
    }


def _serialize_probe(probe: ProbedState) -> dict[str, Any]:
    more = {"outside": [change.model_dump() for change in probe.outside]} if probe.outside else {}
    return {"reward": probe.reward, "passed": list(probe.passed), "note": probe.note[:TEXT_CHARS], **more}


def _serialize_mutant(mutant_probe: MutantProbe) -> dict[str, Any]:
    mutant = mutant_probe.mutant
    before, after = _cut_long_values(mutant.before, mutant.after)
    return {
        "kind": mutant.kind,
        "expects": mutant.expects,
        "step": mutant.step,
        "tool": mutant.tool,
        "place": mutant.place,
        "before": before,
        "after": after,
        **_serialize_probe(mutant_probe.probe),
        "equivalent": mutant_probe.equivalent,
        "noticed_by": list(mutant_probe.noticed_by),
    }


def _cut_long_values(before: Any, after: Any) -> tuple[Any, Any]:
    """Return both values; if one is too long, both as texts cut around their difference."""
    was, became = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (before, after)
    )
    if max(len(was), len(became)) <= VALUE_CHARS:
        return before, after
    return cut_around_difference(was, became, VALUE_CHARS)


def refuse_superseded(revision: TaskRevision | None) -> None:
    """Raise Conflict if the revision's checks cannot be run any more."""
    if revision is not None and revision.superseded:
        raise Conflict(f"This task is superseded. {revision.superseded} {SUPERSEDED_REMEDY}")


def find_open_audit(task: Task) -> Job | None:
    """Return the open job that audits exactly this task, if any."""
    return find_open_job("audit", f"task:{task.pk}")


def start_task_audit(user: Any, task: Task) -> Job:
    """Queue the audit of one task, or return the open job for it. Raises Conflict if the task is superseded."""
    refuse_superseded(task.current)
    return find_open_audit(task) or _queue_audit_job(
        user, f"Audit task {task.pk}", {"tasks": [task.pk]}, f"task:{task.pk}"
    )


def start_tasks_audit(user: Any, tasks: Sequence[int]) -> Job:
    """Queue the audit of some tasks as one job."""
    return _queue_audit_job(user, f"Audit {counted(len(tasks), 'task')}", {"tasks": list(tasks)})


def start_environment_audit(user: Any, environment: Environment) -> Job:
    """Queue the audit of every task of an environment."""
    subject = f"environment:{environment.pk}"
    return _queue_audit_job(user, f"Audit the tasks of {environment.name}", {"environment": environment.pk}, subject)


def start_filter_audit(user: Any, wanted: dict[str, Any]) -> Job:
    """Queue the audit of every task that a `TaskFilters`' values select when the job runs."""
    words = wanted | ({"selected": len(wanted["ids"])} if "ids" in wanted else {})
    filter_words = ", ".join(f"{name} {value}" for name, value in words.items() if name not in ("sort", "ids"))
    return _queue_audit_job(
        user, f"Audit tasks with {filter_words}" if filter_words else "Audit all tasks", {"filter": wanted}
    )


@transaction.atomic
def _queue_audit_job(user: Any, title: str, payload: dict[str, Any], subject: str = "") -> Job:
    job = enqueue_job("audit", title, payload, user, subject=subject)
    write_audit_log(user, "audit.start", job, **payload)
    return job
