"""Writes on scenarios and tasks: revisions by content, with the results of their checks at the start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.core.files.base import File
from django.db import transaction
from django.db.models import Count, F, Q

from synthesis.contracts import Finding as FoundDefect
from synthesis.contracts import GoldenVerifier, Mark, Verifier
from synthesis.errors import InputError
from synthesis.formats.envscaler_export import drop_initial_state
from synthesis.formats.former_answers import explain_superseded
from synthesis.formats.records import TaskRecord
from synthesis.formats.values import clean_text
from synthesis.verifiers.rewards import hash_verifier, list_labels
from webapp.common.content_store import Saved, content_hash
from webapp.environments import totals
from webapp.environments.models import Environment, Version
from webapp.environments.services import build_finding_values
from webapp.jobs.models import Job
from webapp.jobs.services import enqueue_job
from webapp.jobs.uploads import drop_uploads, store_upload
from webapp.scenarios.audits.task_state import restore_audit
from webapp.scenarios.human_work import HAND_SOURCES, has_human_work, must_stay_current
from webapp.scenarios.models import Check, ReviewState, Scenario, StateBody, Task, TaskFinding, TaskRevision
from webapp.scenarios.references import find_reference, save_reference
from webapp.scenarios.states import store_state

SOURCE = "envscaler"


@dataclass(frozen=True)
class Start:
    """Results of a task's checks on the start state. `do_nothing` is None if there is no result.

    `hung`: the program ran out of time before it could start.
    """

    marks: tuple[Mark, ...] = ()
    errors: tuple[str, ...] = ()
    do_nothing: float | None = None
    findings: list[FoundDefect] = field(default_factory=list)
    hung: bool = False


@dataclass(frozen=True)
class SavedTask:
    """Result of saving a record. `revision` is the stored one, which need not be the task's current revision;
    `replaced` is the primary key of the revision that it replaced as the current one."""

    scenario: Saved
    task: Saved
    row: Task
    revision: TaskRevision
    replaced: int | None = None


def compute_task_hash(record: TaskRecord, version: Version) -> str:
    """Return the hash of a revision's content: the imported record on this version of the environment."""
    verifier = record.verifier
    rubric: list[Any] = [[criterion.record for criterion in verifier.criteria]] if verifier.criteria else []
    framed = [verifier.frame.model_dump(mode="json")] if verifier.frame is not None else []
    withheld = [record.withheld.model_dump(mode="json")] if record.withheld is not None else []
    parts = [version.content_hash, record.key, record.instruction, get_stored_rule(verifier), record.raw]
    parts += [*rubric, *framed, *withheld]
    return content_hash(parts)


def get_stored_rule(verifier: Verifier) -> str:
    """Return the rule that a revision is stored with. For a rubric it has no meaning; the first value is kept."""
    return "proportion" if verifier.kind == "rubric" else verifier.rule


def find_unchanged(record: TaskRecord, version: Version, source: str) -> Task | None:
    """Return the task whose current revision has exactly this content, or was made from it; its checks need not run
    again."""
    rows = Task.objects.filter(environment=version.environment_id, source=source, key=record.key)
    digest = compute_task_hash(record, version)
    rows = rows.filter(Q(current__content_hash=digest) | Q(current__origin_hash=digest))
    return rows.select_related("current").defer("current__record").first()


def is_stored_content(record: TaskRecord, version: Version, source: str) -> bool:
    """Return whether a revision of the task has exactly this content, or was made from it; another may be current
    now."""
    digest = compute_task_hash(record, version)
    rows = TaskRevision.objects.filter(task__environment=version.environment_id, task__source=source)
    return rows.filter(Q(content_hash=digest) | Q(origin_hash=digest), task__key=record.key).exists()


def find_kept_beside(record: TaskRecord, version: Version, source: str) -> TaskRevision | None:
    """Return the stored revision with exactly this content, if another one remains current instead of it."""
    rows = Task.objects.filter(environment=version.environment_id, source=source, key=record.key)
    task = rows.select_related("current__scenario", "environment").defer("current__record").first()
    if task is None or not must_stay_current(task, version):
        return None
    digest = compute_task_hash(record, version)
    same_content = task.revisions.filter(Q(content_hash=digest) | Q(origin_hash=digest)).exclude(
        pk=task.current_id or 0
    )
    return same_content.order_by("number").first()


@transaction.atomic
def keep_reference(task: Task, record: TaskRecord, source: str) -> None:
    """Save the reference that came with a record, if any, for the task's current revision.

    A reference that is human work is not replaced.
    """
    if task.current is None or record.reference is None:
        return
    revision = task.current
    totals.lock_environment(task.environment_id)
    task = Task.objects.select_for_update(of=("self",)).get(pk=task.pk)
    if task.current_id == revision.pk:
        _keep_reference_at(task, revision, record, source)


def _keep_reference_at(task: Task, revision: TaskRevision, record: TaskRecord, source: str) -> None:
    if record.reference is None:
        return
    current_reference = find_reference(revision)
    if current_reference is not None and (current_reference.source in HAND_SOURCES or has_human_work(task)):
        return
    if current_reference is None and revision.pk == task.current_id and task.current_by_id is not None:
        return
    save_reference(revision, record.reference, source)


SEARCHED = 4_000
"""Characters of an instruction that the list's search looks in."""


@transaction.atomic
def save_task(
    record: TaskRecord,
    version: Version,
    initial: StateBody,
    start: Start,
    source: str,
    *,
    into: Task | None = None,
    keeps_review: bool = False,
    asked: bool = False,
    chosen_by: Any = None,
) -> SavedTask:
    """Store a record as a scenario and a revision of its task, and make it current. With `keeps_review` what people
    decided holds for it as well. The task is `into`, else the one of the record's key.

    A revision that must remain current (`must_stay_current`) does, unless a person asked for this one: `chosen_by` is
    the person who made it, `asked` is for one that follows from what a person did elsewhere. The environment's row is
    locked: two imports at once number their revisions one after the other.
    """
    environment = Environment.objects.select_for_update(of=("self",)).get(pk=version.environment_id)
    scenario, new_scenario = _get_or_create_scenario(version, initial, record.scenario_name or record.key)
    task, new_task = into, False
    if task is None:
        defaults = {"scenario": scenario, "title": record.title[:300]}
        task, new_task = Task.objects.get_or_create(
            environment=environment, source=source, key=record.key, defaults=defaults
        )
    if not new_task:  # a decision locks only the task's row: wait for one in progress, so that it is kept
        task = Task.objects.select_for_update(of=("self",)).get(pk=task.pk)
    digest, revision = _find_revision_by_content(task, compute_task_hash(record, version), initial)
    saved: Saved = "created" if new_task else "updated"
    replaced = None
    if revision is not None and revision.pk == task.current_id:
        saved = "unchanged"
        if chosen_by is not None:
            Task.objects.filter(pk=task.pk).update(current_by=chosen_by)
    elif not asked and chosen_by is None and must_stay_current(task, version):
        saved = "beside" if revision is None else "kept"
        revision = revision or _create_revision(task, scenario, record, start, digest)
    else:
        revision, replaced = revision or _create_revision(task, scenario, record, start, digest), task.current_id
        _make_current(task, scenario, revision, record, keeps_review=keeps_review, chosen_by=chosen_by)
    _keep_measures(task, revision, record)
    _keep_reference_at(task, revision, record, source)
    _update_counts(environment, task, scenario, new_scenario=new_scenario, new_task=new_task)
    return SavedTask("created" if new_scenario else "unchanged", saved, task, revision, replaced)


@transaction.atomic
def choose_revision(revision: TaskRevision, record: TaskRecord, user: Any = None) -> Task:
    """Make a stored revision of a task the current one: as a person's choice, or without `user` as the consequence of
    one.

    `record` is the revision as a record.
    """
    environment = Environment.objects.select_for_update(of=("self",)).get(pk=revision.task.environment_id)
    task = Task.objects.select_for_update(of=("self",)).get(pk=revision.task_id)
    _make_current(task, revision.scenario, revision, record, keeps_review=False, chosen_by=user)
    _update_counts(environment, task, revision.scenario, new_scenario=False, new_task=False)
    return task


def rename_task(task: Task, title: str) -> None:
    """Change the title of a task. A title is not part of a revision, so that this makes none."""
    task.title = title[:300]
    instruction = task.current.instruction[:SEARCHED] if task.current is not None else ""
    task.words = "\n".join((task.title, task.key, instruction))
    task.save(update_fields=["title", "words"])


def _keep_measures(task: Task, revision: TaskRevision, record: TaskRecord) -> None:
    """Store the variant of a revision and how solvers did, if these were unknown when it was stored."""
    measures_before = revision.variant, revision.consistency
    revision.variant = revision.variant or record.variant
    if record.consistency is not None:
        revision.consistency = record.consistency.model_dump(mode="json")
    if (revision.variant, revision.consistency) == measures_before:
        return
    revision.save(update_fields=["variant", "consistency"])
    Task.objects.filter(pk=task.pk, current=revision).update(variant=revision.variant)
    task.variant = revision.variant if task.current_id == revision.pk else task.variant


def _find_revision_by_content(task: Task, digest: str, initial: StateBody) -> tuple[str, TaskRevision | None]:
    """Return the digest of a record and a state, and its revision if it exists.

    The record of an edited revision does not hold its state, so that the same one on another state has a digest of
    both.
    """
    stored_revision = task.revisions.select_related("scenario").filter(content_hash=digest).first()
    if stored_revision is None or stored_revision.scenario.initial_id == initial.pk:
        return digest, stored_revision
    digest = content_hash([digest, initial.pk])
    return digest, task.revisions.filter(content_hash=digest).first()


@transaction.atomic
def save_scenario(version: Version, initial: StateBody, name: str) -> Scenario:
    """Store an initial state of a version on its own: tasks may come later, or never."""
    environment = Environment.objects.select_for_update(of=("self",)).get(pk=version.environment_id)
    scenario, new = _get_or_create_scenario(version, initial, name)
    if new:
        _count_scenarios(environment)
    return scenario


def _get_or_create_scenario(version: Version, initial: StateBody, name: str) -> tuple[Scenario, bool]:
    defaults = {"environment_id": version.environment_id, "name": name[:300]}
    return Scenario.objects.get_or_create(version=version, initial=initial, defaults=defaults)


def _create_revision(task: Task, scenario: Scenario, record: TaskRecord, start: Start, digest: str) -> TaskRevision:
    last = task.revisions.order_by("-number").values_list("number", flat=True).first() or 0
    verifier = record.verifier
    revision = task.revisions.create(
        scenario=scenario,
        number=last + 1,
        content_hash=digest,
        instruction=record.instruction,
        verifier_kind=verifier.kind,
        verifier=serialize_verifier_parts(verifier),
        golden=store_state(verifier.state) if isinstance(verifier, GoldenVerifier) else None,
        criteria=[criterion.record for criterion in verifier.criteria],
        score_rule=get_stored_rule(verifier),
        verifier_hash=hash_verifier(verifier, record.answer_form),
        frame=verifier.frame.model_dump(mode="json", exclude_defaults=True) if verifier.frame is not None else None,
        withheld=record.withheld.model_dump(mode="json") if record.withheld is not None else None,
        do_nothing=start.do_nothing,
        variant=record.variant,
        consistency=record.consistency.model_dump(mode="json") if record.consistency is not None else None,
        record=drop_initial_state(record.raw),
        superseded=explain_superseded(check.source for check in verifier.checks),
    )
    listed = list_labels(verifier)
    marks = start.marks or ("",) * len(listed)
    errors = start.errors or ("",) * len(listed)
    Check.objects.bulk_create(
        Check(
            revision=revision,
            position=position,
            label=check.label,
            source=check.source,
            mark=mark,
            start_error=clean_text(error),
        )
        for position, (check, mark, error) in enumerate(zip(listed, marks, errors, strict=True))
    )
    TaskFinding.objects.bulk_create(TaskFinding(revision=revision, **build_finding_values(f)) for f in start.findings)
    return revision


def serialize_verifier_parts(verifier: Verifier) -> dict[str, Any] | None:
    """Return the parts of a verifier that have no column of their own."""
    parts = _PARTS.get(verifier.kind)
    return verifier.model_dump(mode="json", include=parts) if parts is not None else None


_PARTS = {"golden": {"equality", "volatile"}, "script": {"source", "assertions"}}


def _make_current(
    task: Task, scenario: Scenario, revision: TaskRevision, record: TaskRecord, *, keeps_review: bool, chosen_by: Any
) -> None:
    """Make a revision current. What people decided on the one before does not hold for it and it returns to review,
    unless `keeps_review`."""
    before = task.scenario_id
    if revision.review_state == ReviewState.DRAFT and task.review_state != ReviewState.DRAFT:
        revision.review_state = task.review_state if keeps_review else ReviewState.IN_REVIEW
        revision.save(update_fields=["review_state"])
    task.current = revision
    if chosen_by is not None:
        task.current_by = chosen_by
    task.review_state, task.superseded = revision.review_state, bool(revision.superseded)
    task.verifier_kind, task.variant = revision.verifier_kind, revision.variant
    task.scenario = scenario
    task.title = (record.title or record.key)[:300]
    task.words = "\n".join((task.title, task.key, revision.instruction[:SEARCHED]))
    task.do_nothing = revision.do_nothing
    task.withheld = record.withheld.name if record.withheld is not None else ""
    task.check_count = revision.checks.count()
    task.finding_count = revision.findings.count()
    task.save()
    reference = find_reference(revision)
    restore_audit(task, revision, reference.content_hash if reference else "")
    if before != scenario.pk:
        Scenario.objects.filter(pk=before).update(task_count=Task.objects.filter(scenario=before).count())


def _update_counts(
    environment: Environment, task: Task, scenario: Scenario, *, new_scenario: bool, new_task: bool
) -> None:
    """Update the counts: scenarios are those of the current version, tasks all there are."""
    scenario.task_count = scenario.tasks.count()
    scenario.save(update_fields=["task_count"])
    if new_scenario or new_task:
        _count_scenarios(environment)
        totals.add_counts(environment.pk, tasks=int(new_task))


def _count_scenarios(environment: Environment) -> None:
    environment.scenario_count = Scenario.objects.filter(version=environment.current_id).count()
    environment.save(update_fields=["scenario_count", "updated_at"])


def count_task_findings(tasks: Iterable[int]) -> dict[str, int]:
    """Count the findings of the current revisions of these tasks by kind."""
    rows = TaskFinding.objects.filter(revision__task__in=list(tasks), revision__task__current=F("revision"))
    return dict(rows.values_list("kind").annotate(Count("id")).order_by("kind"))


def start_envscaler_import(
    user: Any,
    envs_file: File[bytes],
    scenarios_file: File[bytes] | None = None,
    source: str = SOURCE,
    *,
    frames: bool = False,
) -> Job:
    """Store the uploads and queue their import, with frames if requested. Raises `InputError` (empty, too large)."""
    environments = store_upload(user, envs_file)
    try:
        scenarios = store_upload(user, scenarios_file) if scenarios_file else None
    except InputError:
        drop_uploads(environments)
        raise
    names = " and ".join(item["original"] for item in (environments, scenarios) if item)
    payload = {"environments": environments, "scenarios": scenarios, "source": source, "frames": frames}
    return enqueue_job("import_envscaler", f"Import {names}", payload, user)
