"""Audits as rows: computed once for what they depend on, and stored with everything a page shows of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from synthesis.contracts import Program, RubricVerifier
from synthesis.errors import InputError, ProgramError
from synthesis.formats.values import clean
from synthesis.runtime import Sandbox, offered
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import AUDIT_VERSION, GAPS, MutantProbe, ProbedState, TaskAudit, untried
from synthesis.verifiers.call_sequences import AT_ONCE, Subject
from synthesis.verifiers.mutants import around_difference
from synthesis.verifiers.rubric_audit import Judge, RubricSubject, audit_rubric
from webapp.accounts.services import audit as write_audit_log
from webapp.content_store import content_hash
from webapp.environments.models import Environment
from webapp.environments.totals import lock_environment
from webapp.errors import Conflict
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.jobs.services import create
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.audits.task_state import stand
from webapp.scenarios.models import Audit, AuditFault, Task, TaskReference, TaskRevision
from webapp.scenarios.references import as_reference, reference_of, withheld_of
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import needs_judge, read_verifier
from webapp.templatetags.show import counted

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


def cases(task_ids: Sequence[int], judge: NamedJudge | None = None) -> list[Case]:
    """The current revisions of these tasks with their newest references, by task; two queries."""
    rows = TaskRevision.objects.filter(task__in=task_ids, task__current=F("pk")).defer(*HEAVY)
    revisions = list(rows.select_related("task", "scenario__version").order_by("task_id"))
    newest = {row.revision_id: row for row in TaskReference.objects.filter(revision__in=revisions).order_by("id")}
    return [case_of(revision, newest.get(revision.pk), judge) for revision in revisions]


def case_of(revision: TaskRevision, reference: TaskReference | None, judge: NamedJudge | None = None) -> Case:
    """The case of one revision; of a judge only rubrics know."""
    used = judge if judge is not None and needs_judge(revision) else None
    return Case(revision, reference, audit_key(revision, reference, used.name if used else ""), used)


def audit_key(revision: TaskRevision, reference: TaskReference | None, judge: str = "") -> str:
    """The hash of everything an audit's result depends on."""
    scenario = revision.scenario
    judged = [revision.instruction, judge] if revision.verifier_kind == "rubric" else []
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
            *judged,
            *framed,
            *withheld,
        ]
    )


def is_stale(audit: Audit, revision: TaskRevision) -> bool:
    """Whether the revision would be audited anew: another revision, reference, or version of the audit itself."""
    return audit.revision_id != revision.pk or audit.key != audit_key(revision, reference_of(revision), audit.judge)


def subject_of(case: Case, program: Program) -> Subject:
    """What the sandbox and the verifier need of a case, whose version has this program. Raises InputError (a damaged
    state)."""
    program = offered(program, withheld_of(case.revision))
    initial = load_state(case.revision.scenario.initial_id)
    reference = as_reference(case.reference) if case.reference else None
    verifier = read_verifier(case.revision)
    kind = RubricSubject if isinstance(verifier, RubricVerifier) else Subject
    return kind(
        program=program,
        initial=initial,
        instruction=case.revision.instruction,
        answer_form=read_answer_form(case.revision),
        verifier=verifier,
        withheld=withheld_of(case.revision),
        reference=reference,
    )


def compute(
    sandbox: Sandbox, case: Case, subject: Subject, check_stop: Any = lambda: None, at_once: int = AT_ONCE
) -> TaskAudit:
    """The audit of a case, without the database. Raises InfrastructureError: then nothing is known of the task."""
    try:
        opened = case.judge.open if case.judge else None
        if isinstance(subject, RubricSubject):
            return audit_rubric(sandbox, subject, opened, check_stop, at_once)
        return audit_task(sandbox, subject, check_stop, at_once)
    except ProgramError as error:
        return untried("start_fails", f"The program does not start: {error}")
    except InputError as error:
        return untried("no_checks", str(error))


def known(case: Case) -> Audit | None:
    """An audit with the case's key: its own, else one of another revision, copied. No sandbox is needed."""
    rows = Audit.objects.filter(key=case.key)
    own = rows.filter(revision=case.revision).defer("probes").first()
    if own is None:
        other = rows.order_by("id").first()
        if other is None:
            return None
        return _copy(case, other)
    if case.task.audit_id != own.pk or case.task.audit_state != own.state:
        _stand(case, own)
    return own


@transaction.atomic
def _copy(case: Case, other: Audit) -> Audit:
    lock_environment(case.task.environment_id)
    faults = list(other.faults.all())
    other.pk, other.revision, other.reference = None, case.revision, case.reference
    other._state.adding = True
    Audit.objects.bulk_create([other], ignore_conflicts=True)
    row = Audit.objects.defer("probes").get(revision=case.revision, key=case.key)
    for fault in faults:
        fault.pk, fault.audit = None, row
    AuditFault.objects.bulk_create(faults, ignore_conflicts=True)
    _stand(case, row)
    return row


@transaction.atomic
def store(case: Case, audit: TaskAudit) -> Audit:
    """Write an audit and what lists copy of it; an older one with the same key is replaced."""
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
        why=clean(" ".join(gaps))[:TEXT_CHARS] if audit.state in ("incomplete", "unproven") else "",
        do_nothing=audit.nothing.reward,
        reference_reward=audit.reference.reward if audit.reference else None,
        mutants=len(audit.counted) if tried else None,
        below=audit.below if tried else None,
        equivalent=sum(probe.equivalent for probe in audit.mutants) if tried else None,
        nondeterministic=None if audit.deterministic is None else not audit.deterministic,
        unseen=audit.unseen.share if audit.unseen is not None else None,
        probes=probes_of(audit),
    )
    AuditFault.objects.bulk_create(
        AuditFault(
            audit=row,
            position=position,
            kind=fault.kind,
            check_index=fault.check,
            message=clean(fault.message)[:TEXT_CHARS],
        )
        for position, fault in enumerate(audit.faults)
    )
    _stand(case, row)
    return row


@transaction.atomic
def _stand(case: Case, row: Audit) -> None:
    """Copy onto the task, unless another revision or reference counts by now: then that one is to be audited."""
    lock_environment(case.task.environment_id)
    current = Task.objects.filter(pk=case.task.pk).values_list("current_id", flat=True).first()
    newest = reference_of(case.revision)
    if current == case.revision.pk and (newest.pk if newest else None) == (
        case.reference.pk if case.reference else None
    ):
        stand(case.task.pk, row, row.state)


def probes_of(audit: TaskAudit) -> dict[str, Any]:
    """What pages show of the probes, with values cut to a size that can be shown."""
    own = {name: getattr(audit, name) for name in ("nothing", "reference", "other_clock", "other_seed", "claim")}
    return {
        **{name: _probe(probe) for name, probe in own.items() if probe is not None},
        "mutants": [_mutant(mutant) for mutant in audit.mutants],
        "marks": list(audit.marks),
        **({"judge_usage": audit.judge_usage.model_dump()} if audit.judge_usage.requests else {}),
        **({"unseen": audit.unseen.model_dump()} if audit.unseen is not None else {}),
    }


def _probe(probe: ProbedState) -> dict[str, Any]:
    more = {"outside": [change.model_dump() for change in probe.outside]} if probe.outside else {}
    return {"reward": probe.reward, "passed": list(probe.passed), "note": probe.note[:TEXT_CHARS], **more}


def _mutant(mutant_probe: MutantProbe) -> dict[str, Any]:
    mutant = mutant_probe.mutant
    before, after = _sides(mutant.before, mutant.after)
    return {
        "kind": mutant.kind,
        "expects": mutant.expects,
        "step": mutant.step,
        "tool": mutant.tool,
        "place": mutant.place,
        "before": before,
        "after": after,
        **_probe(mutant_probe.probe),
        "equivalent": mutant_probe.equivalent,
        "noticed_by": list(mutant_probe.noticed_by),
    }


def _sides(before: Any, after: Any) -> tuple[Any, Any]:
    """Both values; where one is too long, both as texts cut around where they differ."""
    was, became = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (before, after)
    )
    if max(len(was), len(became)) <= VALUE_CHARS:
        return before, after
    return around_difference(was, became, VALUE_CHARS)


def refuse_superseded(revision: TaskRevision | None) -> None:
    """Raise Conflict if the revision's checks cannot be run any more."""
    if revision is not None and revision.superseded:
        raise Conflict(f"This task is superseded. {revision.superseded} {SUPERSEDED_REMEDY}")


def open_audit(task: Task) -> Job | None:
    """The job that audits this very task and has not ended."""
    return open_of("audit", f"task:{task.pk}")


def start_task_audit(user: Any, task: Task) -> Job:
    """Queue the audit of one task; the job that is on its way already is handed back. Raises Conflict: superseded."""
    refuse_superseded(task.current)
    return open_audit(task) or _start(user, f"Audit task {task.pk}", {"tasks": [task.pk]}, f"task:{task.pk}")


def start_tasks_audit(user: Any, tasks: Sequence[int]) -> Job:
    """Queue the audit of some tasks as one job."""
    return _start(user, f"Audit {counted(len(tasks), 'task')}", {"tasks": list(tasks)})


def start_environment_audit(user: Any, environment: Environment) -> Job:
    """Queue the audit of every task of an environment."""
    subject = f"environment:{environment.pk}"
    return _start(user, f"Audit the tasks of {environment.name}", {"environment": environment.pk}, subject)


def start_filter_audit(user: Any, wanted: dict[str, Any]) -> Job:
    """Queue the audit of every task that a `TaskFilters`' values leave, as they are when the job runs."""
    words = wanted | ({"selected": len(wanted["ids"])} if "ids" in wanted else {})
    named = ", ".join(f"{name} {value}" for name, value in words.items() if name not in ("sort", "ids"))
    return _start(user, f"Audit tasks with {named}" if named else "Audit all tasks", {"filter": wanted})


@transaction.atomic
def _start(user: Any, title: str, payload: dict[str, Any], subject: str = "") -> Job:
    job = create("audit", title, payload, user, subject=subject)
    write_audit_log(user, "audit.start", job, **payload)
    return job
