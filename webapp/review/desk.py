"""The review page of one item: its object, the decisions on it, its holders, and the person's own draft."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import F, Q, QuerySet, prefetch_related_objects
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from synthesis.contracts import is_refusal
from webapp.accounts.access import ADJUDICATORS
from webapp.common.database.kept_sql import VALUE, Given, KeptNumbers, KeptQuery
from webapp.common.frequencies import rank_by_count
from webapp.environments.case_groups import GROUPS
from webapp.environments.models import Tool
from webapp.environments.version_diff import build_diff_part
from webapp.jobs.models import OPEN_STATES, Job
from webapp.review.assignments import can_work
from webapp.review.drafts import find_draft, format_draft_mark
from webapp.review.judges.votes import filter_visible_decisions
from webapp.review.models import (
    Assignment,
    QueueItem,
    Remark,
    ReviewDecision,
    ReviewKind,
    ReviewQueue,
    build_subject_filter,
)
from webapp.review.places import link_places
from webapp.review.subjects import build_entity_tag, build_score_tag, build_subject_url, get_subject_title
from webapp.review.task_gate import UNAUDITED, can_override, list_obstacles
from webapp.review.tools.tool_desk import build_tool_context
from webapp.review.verdicts import REASONS, VERDICTS, find_verdict, get_verdict_label, list_reason_labels
from webapp.scenarios.answers.answer_form import list_answer_rows, list_form_rows, read_form_and_expected
from webapp.scenarios.audits.mutant_matrix import attach_noticed_mutants
from webapp.scenarios.audits.page import describe_verdict
from webapp.scenarios.check_table import build_checks_context
from webapp.scenarios.golden.page import build_golden_context
from webapp.scenarios.models import Audit, AuditFault, Check, Task
from webapp.scenarios.queries import build_revision_diff, find_task
from webapp.scenarios.references import cache_reference
from webapp.scenarios.withheld.page import build_withheld_context
from webapp.trajectories.failure_reason import attach_reasons, load_newest_scores
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.pass_rates import compute_pass_at
from webapp.trajectories.totals import is_scored

ATTEMPTS_SHOWN = 30
FAULTS_SHOWN = 20
HISTORY_SHOWN = 30
STEPS_SHOWN = 40
REMARKS_SHOWN = 100
SCORES_LOOKED_AT = 20
THEIRS_SHOWN = 10
EMPTY_FORM: dict[str, Any] = {"verdict": "", "reasons": [], "comment": "", "places": [], "detail": {}}


@dataclass(frozen=True)
class HistoryLine:
    """A decision as shown on a page."""

    row: ReviewDecision
    words: str
    reasons: list[str]
    tone: str
    superseded: bool
    groups: list[tuple[str, str]]
    """Of a tool: what was said of single groups of its cases."""
    places: list[tuple[str, str]]
    """What it points to, each with its address."""


def list_history(user: Any, kind: str, pk: int, current_revision: int | None = None) -> tuple[list[HistoryLine], int]:
    """Return (the newest decisions of people on an object that the person may see, undone ones too; the number of
    hidden ones)."""
    every = rows = _query_decisions(kind).rows(subject=pk)
    others = [row.pk for row in rows if row.user_id != user.pk]
    if others and user.role not in ADJUDICATORS:
        visible_pks = set(filter_visible_decisions(user).filter(pk__in=others).values_list("pk", flat=True))
        rows = [row for row in rows if row.user_id == user.pk or row.pk in visible_pks]
    lines = [
        HistoryLine(
            row, get_verdict_label(kind, row.verdict), list_reason_labels(kind, row.reasons),
            _get_tone(kind, row.verdict), row.revision_id is not None and row.revision_id != current_revision,
            [(dict(GROUPS).get(code, code), get_verdict_label(kind, said)) for code, said in _list_group_verdicts(row)],
            link_places(kind, pk, row.places),
        )
        for row in rows
    ]  # fmt: skip
    return lines, sum(row.undone_at is None for row in every) - sum(row.undone_at is None for row in rows)


@cache
def _query_decisions(kind: str) -> KeptQuery[ReviewDecision]:
    """Return the query of `list_history` for objects of this kind."""
    return KeptQuery(
        lambda: (
            ReviewDecision.objects.filter(**{f"{kind}_id": Given("subject")})
            .filter(user__isnull=False, gold_right__isnull=True)
            .select_related("user", "revision", "queue", "undone_by")
            .defer("revision__record")
            .order_by("-id")[:HISTORY_SHOWN]
        )
    )


def _list_group_verdicts(row: ReviewDecision) -> list[tuple[str, str]]:
    return list(row.detail.get("groups", {}).items())


def _get_tone(kind: str, code: str) -> str:
    verdict = find_verdict(kind, code)
    return {"✓": "good", "✕": "bad", "▲": "warn", "↺": "warn"}.get(verdict.sign if verdict else "", "")


def build_attempts_context(task: Task, checks: Sequence[Check], *, whole: bool) -> dict[str, Any]:
    """Return the newest attempts at a task's current revision, their outcomes, and pass@k. Each of the `checks`
    (`whole`: all of them) gets the number of attempts in which it held."""
    attempts = _ATTEMPTS.rows(task=task.pk, revision=task.current_id)
    scores = load_newest_scores([row.pk for row in attempts]) if attempts else {}
    attach_reasons(attempts, scores, checks if whole else ())
    ended = [(row.outcome, row.reward) for row in attempts]
    if len(attempts) == ATTEMPTS_SHOWN:
        rows = Trajectory.objects.filter(task=task, revision=task.current_id, live=False)
        ended = list(rows.values_list("outcome", "reward"))
    outcomes = Counter(outcome for outcome, _ in ended)
    counted = Counter(outcome for outcome, reward in ended if is_scored(outcome, reward))
    return {
        "attempts": attempts,
        "pair": choose_pair(attempts),
        "held_known": set_held_counts(checks, scores.values()),
        "attempts_total": sum(outcomes.values()),
        "attempts_earlier": max(0, task.trajectory_count - sum(outcomes.values())),
        "outcomes": [(name or "none", count) for name, count in rank_by_count(outcomes)],
        "pass_at": compute_pass_at(counted["solved"], sum(counted.values())),
    }


def choose_pair(attempts: Sequence[Trajectory]) -> list[int]:
    """Return the two attempts to compare, of some attempts, newest first: the newest that solved and the newest that
    did not; else the newest two, none of fewer."""
    solved = [row.pk for row in attempts if row.outcome == "solved"]
    unsolved = [row.pk for row in attempts if row.outcome != "solved"]
    if solved and unsolved:
        return [solved[0], unsolved[0]]
    return [row.pk for row in attempts[:2]] if len(attempts) > 1 else []


_ATTEMPTS = KeptQuery[Trajectory](
    lambda: (
        Trajectory.objects.filter(task=Given("task"), revision=Given("revision"), live=False)
        .defer("record", "matrix", "provenance", "answer", "replay_note", "words")
        .order_by("-id")[:ATTEMPTS_SHOWN]
    )
)


def build_decision_form(user: Any, kind: str, pk: int, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of a decision form: those just sent, else the person's draft, else empty ones."""
    stored_draft = find_draft(user, kind, pk)
    draft = stored_draft if given is None else None
    filled = EMPTY_FORM | (given if given is not None else draft.body if draft is not None else {})
    return {"filled": filled, "draft": draft, "drafted": format_draft_mark(stored_draft)}


def build_panel_context(
    user: Any, kind: str, subject: Any, *, given: dict[str, Any] | None = None, told: bool = True
) -> dict[str, Any]:
    """Return the context of an object's decision panel, in a queue or on the object's own page, optionally with the
    decisions of others."""
    pk = subject.pk
    if isinstance(subject, Task) and subject.current is not None:
        cache_reference(subject.current)
    context: dict[str, Any] = {
        "kind": kind,
        "subject": subject,
        "subject_title": get_subject_title(subject),
        "subject_url": build_subject_url(kind, pk),
        "seen": build_entity_tag(kind, subject),
        "verdicts": VERDICTS[kind],
        "reasons": list(enumerate(REASONS[kind], 1)),
        "is_adjudicator": user.role in ADJUDICATORS,
        **build_decision_form(user, kind, pk, given),
    }
    current = subject.current_id if isinstance(subject, Task) else None
    context["revision"] = subject.current if isinstance(subject, Task) else None
    context["history"], context["hidden_votes"] = list_history(user, kind, pk, current) if told else ([], 0)
    if isinstance(subject, Task):
        task_obstacles = context["obstacles"] = list_obstacles(subject)
        if any(obstacle.code in UNAUDITED for obstacle in task_obstacles):
            context["audits"] = Job.objects.filter(kind="audit", state__in=OPEN_STATES).order_by("id").first()
        context["may_override"] = can_override(user) and all(obstacle.overridable for obstacle in task_obstacles)
    return context


def build_changed_context(user: Any, kind: str, subject: Any, seen: str, number: int) -> dict[str, Any]:
    """Return the changes of an object since a person saw it (`seen`, of a task revision `number`): theirs and the base.

    The person's own decisions are among theirs, since one may have been taken in another tab; hidden decisions stay
    hidden.
    """
    their_decisions = filter_visible_decisions(user).filter(user__isnull=False, undone_at__isnull=True)
    about = Q(**build_subject_filter(kind, subject.pk))
    base, parts, now = "", [], ""
    if isinstance(subject, Task):
        seen_revision = subject.revisions.filter(number=number).defer("record").first()
        base = seen_revision.instruction if seen_revision is not None else ""
        now = f"revision {subject.current.number}" if subject.current is not None else ""
        if seen_revision is not None and subject.current is not None and seen_revision.pk != subject.current_id:
            parts = build_revision_diff(seen_revision, subject.current)
    elif isinstance(subject, Tool):
        environment, base = subject.version.environment, subject.source
        about = Q(tool__name=subject.name, tool__version__environment=environment)
        newest = Tool.objects.filter(version=environment.current_id, name=subject.name).first()
        current = environment.current
        now = f"version {current.number} of its environment" if current and current.pk != subject.version_id else ""
        source_diff = build_diff_part("Source", base, newest.source if newest is not None else "")
        parts = (
            [(source_diff.title, [(row.kind, row.text) for row in source_diff.rows])]
            if source_diff.rows and now
            else []
        )
    else:
        scores = list(Score.objects.filter(trajectory=subject.pk).order_by("-id")[:SCORES_LOOKED_AT])
        was = next((one for one in scores if build_score_tag(subject.pk, one.pk) == seen), None)
        base = f"Reward {was.reward:g}, {was.passed} of {was.total} checks held." if was is not None else ""
        now = f"reward {scores[0].reward:g}, scored again" if scores else ""
    rows = their_decisions.filter(about).select_related("user", "revision").defer("revision__record").order_by("-id")
    return {
        "kind": kind,
        "subject": subject,
        "subject_title": get_subject_title(subject),
        "subject_url": build_subject_url(kind, subject.pk),
        "base": base,
        "number": number,
        "now": now,
        "parts": parts,
        "theirs": [(row, get_verdict_label(kind, row.verdict)) for row in rows[:THEIRS_SHOWN]],
    }


def list_remarks(kind: str, pk: int) -> list[Remark]:
    """Return the newest remarks on an object, open ones first."""
    rows = Remark.objects.filter(**build_subject_filter(kind, pk)).select_related("user", "resolved_by")
    return list(rows.order_by("resolved_at", "-id")[:REMARKS_SHOWN])


def build_queue_context(
    user: Any, item: QueueItem, assignment: Assignment | None, others: Sequence[Assignment]
) -> dict[str, Any]:
    """Return the context of the bar above an item: its position in the queue, its lease, its other holders."""
    queue = item.queue
    left = None
    if assignment is not None and assignment.state == "held":
        left = assignment.lease_left
    previous, following = find_neighbours(user, queue, assignment)
    # An item whose answer is known looks like every other one.
    places = item.overlap if item.gold is None else queue.overlap
    return {
        "item": item,
        "queue": queue,
        "assignment": assignment,
        "lease_left": left,
        "worked_seconds": assignment.worked_seconds if assignment is not None else 0,
        "others": others,
        "works_it": can_work(user, queue) and queue.is_open,
        "previous": previous,
        "following": following,
        "votes": _count_standing_votes(item) if item.gold is None and places > 1 else 0,
        "places": places,
    }


def _count_standing_votes(item: QueueItem) -> int:
    """Count the people who have decided on an item's object in its current state, in any queue."""
    rows = ReviewDecision.objects.filter(**build_subject_filter(item.kind, item.subject_id))
    rows = rows.filter(undone_at__isnull=True, user__isnull=False, gold_right__isnull=True)
    return (rows.filter(revision=F("task__current")) if item.kind == ReviewKind.TASK else rows).count()


def find_neighbours(user: Any, queue: ReviewQueue, assignment: Assignment | None) -> tuple[int | None, int | None]:
    """Return the items that the person had in this queue before and after the one of this assignment, with one
    query."""
    if assignment is None:
        own_assignments = Assignment.objects.filter(user=user, queue=queue).exclude(state="released")
        return own_assignments.order_by("-id").values_list("item_id", flat=True).first(), None
    neighbour_items = _NEIGHBOURS.values(user=user.pk, queue=queue.pk, own=assignment.pk)
    return neighbour_items["before"], neighbour_items["after"]


def _build_neighbour_queries() -> dict[str, tuple[str, QuerySet[Assignment, Any]]]:
    own_assignments = Assignment.objects.filter(user=Given("user"), queue=Given("queue")).exclude(state="released")
    return {
        "before": (VALUE, own_assignments.filter(pk__lt=Given("own")).order_by("-id").values("item_id")[:1]),
        "after": (VALUE, own_assignments.filter(pk__gt=Given("own")).order_by("id").values("item_id")[:1]),
    }


_NEIGHBOURS = KeptNumbers(_build_neighbour_queries)


def build_task_context(request: HttpRequest, task: Task) -> dict[str, Any]:
    """Return the context of a task's review page: instruction, start, checks, reference, attempts and audit."""
    revision = task.current
    if revision is None:
        return {"task": task, "revision": None}
    audit = _AUDIT.first(revision=revision.pk)
    if audit is not None:
        audit.revision = revision
    faults: list[AuditFault] = []
    if audit is not None and audit.state != "green":
        prefetch_related_objects([audit], "faults")
        faults = list(audit.faults.all()[:FAULTS_SHOWN])
    if audit is not None and audit.pk == task.audit_id:
        task.audit = audit  # the panel goes by it too
    checks = build_checks_context(request, task, revision)
    reference = cache_reference(revision)
    return {
        "task": task,
        "revision": revision,
        "is_current": True,
        "audit": audit,
        "audit_words": describe_verdict(audit, faults) if audit is not None and audit.state != "green" else "",
        "reference": reference,
        "form_rows": list_form_rows(*read_form_and_expected(revision)),
        **checks,
        "mutant_places": attach_noticed_mutants(checks["checks"], audit),
        "mutants_before": audit is not None and audit.reference_hash != (reference.content_hash if reference else ""),
        **(build_withheld_context(task, revision) if task.withheld else {}),
        **(build_golden_context(task, revision) if revision.verifier_kind == "golden" else {}),
        **build_attempts_context(task, checks["checks"], whole=checks["checks_whole"]),
    }


_AUDIT = KeptQuery[Audit](lambda: Audit.objects.filter(revision=Given("revision")).order_by("-id")[:1])


def set_held_counts(checks: Sequence[Check], scores: Iterable[Score]) -> int:
    """Set on each check by how many of the scores it held (`held`); return the number of scores with verdicts."""
    known_verdicts = [score.verdicts for score in scores if score.verdicts]
    for check in checks:
        held = (verdicts[check.position : check.position + 1] for verdicts in known_verdicts)
        check.held = sum(bool(found and found[0].get("passed")) for found in held)  # type: ignore[attr-defined]
    return len(known_verdicts)


def build_subject_context(request: HttpRequest, kind: str, pk: int, *, told: bool = True) -> dict[str, Any]:
    """Return the object of an item and the context of its page, optionally with statements of people.

    Raises NotFound through Http404.
    """
    if kind == ReviewKind.TASK:
        task = find_task(pk)
        return {"subject": task, **build_task_context(request, task)}
    if kind == ReviewKind.TOOL:
        return build_tool_context(pk, told=told)
    return build_trajectory_context(pk)


def build_trajectory_context(pk: int) -> dict[str, Any]:
    """Return the context of an attempt: its task, its end, each check's verdict, and its last steps."""
    heavy = ("record", "matrix", "task__words", "revision__record")
    rows = Trajectory.objects.select_related("task", "environment", "revision").defer(*heavy)
    row = get_object_or_404(rows, pk=pk)
    attach_reasons([row])
    score = Score.objects.filter(trajectory=row).exclude(source="recorded").order_by("-id").first()
    labels = list(row.revision.checks.order_by("position").values_list("label", "mark")) if row.revision else []
    verdicts = score.verdicts if score is not None else []
    checks = [(number, *pair, verdict) for number, (pair, verdict) in enumerate(zip(labels, verdicts, strict=False), 1)]
    columns = ("index", "kind", "by", "tool", "arguments", "content", "ok", "result", "change_count")
    steps = row.steps.only(*columns).order_by("-index")[:STEPS_SHOWN]
    for step in steps:
        step.refused = step.ok is not None and is_refusal(step.ok, step.result)  # type: ignore[attr-defined]
    return {
        "subject": row,
        "trajectory": row,
        "task": row.task,
        "score": score,
        "checks": sorted(checks, key=lambda check: bool(check[3].get("passed"))),
        "steps": list(reversed(steps)),
        "form_rows": list_answer_rows(row.revision, row.answer) if row.revision is not None else [],
    }


def find_queue_item(queue: ReviewQueue, kind: str, pk: int) -> QueueItem | None:
    return QueueItem.objects.filter(queue=queue, **build_subject_filter(kind, pk)).first()
