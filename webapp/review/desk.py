"""The review page of one item: its object, what was decided on it, who holds it, and the person's own draft."""

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
from webapp.database.kept_sql import VALUE, Given, KeptNumbers, KeptQuery
from webapp.environments.case_groups import GROUPS
from webapp.environments.models import Tool
from webapp.environments.version_diff import part
from webapp.frequencies import rank_by_count
from webapp.jobs.models import OPEN_STATES, Job
from webapp.review.assignments import may_work
from webapp.review.drafts import draft_of, mark_of
from webapp.review.judges.votes import shown_decisions
from webapp.review.models import (
    Assignment,
    QueueItem,
    Remark,
    ReviewDecision,
    ReviewKind,
    ReviewQueue,
    subject_filter,
)
from webapp.review.places import linked_places
from webapp.review.subjects import score_tag, subject_page, subject_title, tag_of
from webapp.review.task_gate import UNAUDITED, may_override, obstacles
from webapp.review.tools.tool_desk import tool_context
from webapp.review.verdicts import REASONS, VERDICTS, reason_labels, verdict_label, verdict_of
from webapp.scenarios.answers.answer_form import list_answer_rows, list_form_rows, read_form_and_expected
from webapp.scenarios.audits.mutant_matrix import tell_mutants
from webapp.scenarios.audits.page import words
from webapp.scenarios.check_table import checks_context
from webapp.scenarios.golden.page import golden_context
from webapp.scenarios.models import Audit, AuditFault, Check, Task
from webapp.scenarios.queries import find_task, revision_diff
from webapp.scenarios.references import hold_reference
from webapp.scenarios.withheld.page import withheld_context
from webapp.trajectories.failure_reason import newest_scores, tell_reasons
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.pass_rates import pass_at
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
    """A decision as a page tells of it."""

    row: ReviewDecision
    words: str
    reasons: list[str]
    tone: str
    superseded: bool
    groups: list[tuple[str, str]]
    """Of a tool: what was said of single groups of its cases."""
    places: list[tuple[str, str]]
    """What it points to, each with its address."""


def history(user: Any, kind: str, pk: int, current_revision: int | None = None) -> tuple[list[HistoryLine], int]:
    """(the newest decisions of people on an object that the person may see, undone ones too, how many they may not)."""
    every = rows = _decisions(kind).rows(subject=pk)
    others = [row.pk for row in rows if row.user_id != user.pk]
    if others and user.role not in ADJUDICATORS:
        shown = set(shown_decisions(user).filter(pk__in=others).values_list("pk", flat=True))
        rows = [row for row in rows if row.user_id == user.pk or row.pk in shown]
    lines = [
        HistoryLine(
            row, verdict_label(kind, row.verdict), reason_labels(kind, row.reasons), _tone(kind, row.verdict),
            row.revision_id is not None and row.revision_id != current_revision,
            [(dict(GROUPS).get(code, code), verdict_label(kind, said)) for code, said in _groups(row)],
            linked_places(kind, pk, row.places),
        )
        for row in rows
    ]  # fmt: skip
    return lines, sum(row.undone_at is None for row in every) - sum(row.undone_at is None for row in rows)


@cache
def _decisions(kind: str) -> KeptQuery[ReviewDecision]:
    """What `history` tells of an object of this kind."""
    return KeptQuery(
        lambda: (
            ReviewDecision.objects.filter(**{f"{kind}_id": Given("subject")})
            .filter(user__isnull=False, gold_right__isnull=True)
            .select_related("user", "revision", "queue", "undone_by")
            .defer("revision__record")
            .order_by("-id")[:HISTORY_SHOWN]
        )
    )


def _groups(row: ReviewDecision) -> list[tuple[str, str]]:
    return list(row.detail.get("groups", {}).items())


def _tone(kind: str, code: str) -> str:
    found = verdict_of(kind, code)
    return {"✓": "good", "✕": "bad", "▲": "warn", "↺": "warn"}.get(found.sign if found else "", "")


def attempts_context(task: Task, checks: Sequence[Check], *, whole: bool) -> dict[str, Any]:
    """The newest attempts at a task's current revision, what they came to, and pass@k; each of the `checks` (all of
    them: `whole`) is given in how many of the attempts it held."""
    attempts = _ATTEMPTS.rows(task=task.pk, revision=task.current_id)
    scores = newest_scores([row.pk for row in attempts]) if attempts else {}
    tell_reasons(attempts, scores, checks if whole else ())
    ended = [(row.outcome, row.reward) for row in attempts]
    if len(attempts) == ATTEMPTS_SHOWN:
        rows = Trajectory.objects.filter(task=task, revision=task.current_id, live=False)
        ended = list(rows.values_list("outcome", "reward"))
    outcomes = Counter(outcome for outcome, _ in ended)
    counted = Counter(outcome for outcome, reward in ended if is_scored(outcome, reward))
    return {
        "attempts": attempts,
        "pair": pair_of(attempts),
        "held_known": tell_held(checks, scores.values()),
        "attempts_total": sum(outcomes.values()),
        "attempts_earlier": max(0, task.trajectory_count - sum(outcomes.values())),
        "outcomes": [(name or "none", count) for name, count in rank_by_count(outcomes)],
        "pass_at": pass_at(counted["solved"], sum(counted.values())),
    }


def pair_of(attempts: Sequence[Trajectory]) -> list[int]:
    """Which two of some attempts, newest first, to set beside each other: one that solved and one that did not, the
    newest of both; else the newest two, none of fewer."""
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


def decision_form(user: Any, kind: str, pk: int, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """The form of a decision: what was just sent, else the person's draft, else nothing."""
    known = draft_of(user, kind, pk)
    draft = known if given is None else None
    filled = EMPTY_FORM | (given if given is not None else draft.body if draft is not None else {})
    return {"filled": filled, "draft": draft, "drafted": mark_of(known)}


def panel_context(
    user: Any, kind: str, subject: Any, *, given: dict[str, Any] | None = None, told: bool = True
) -> dict[str, Any]:
    """What the decision panel of an object shows, in a queue or on the object's own page; what others decided only
    where that is `told`."""
    pk = subject.pk
    if isinstance(subject, Task) and subject.current is not None:
        hold_reference(subject.current)
    context: dict[str, Any] = {
        "kind": kind,
        "subject": subject,
        "subject_title": subject_title(subject),
        "subject_url": subject_page(kind, pk),
        "seen": tag_of(kind, subject),
        "verdicts": VERDICTS[kind],
        "reasons": list(enumerate(REASONS[kind], 1)),
        "is_adjudicator": user.role in ADJUDICATORS,
        **decision_form(user, kind, pk, given),
    }
    current = subject.current_id if isinstance(subject, Task) else None
    context["revision"] = subject.current if isinstance(subject, Task) else None
    context["history"], context["hidden_votes"] = history(user, kind, pk, current) if told else ([], 0)
    if isinstance(subject, Task):
        found = context["obstacles"] = obstacles(subject)
        if any(obstacle.code in UNAUDITED for obstacle in found):
            context["audits"] = Job.objects.filter(kind="audit", state__in=OPEN_STATES).order_by("id").first()
        context["may_override"] = may_override(user) and all(obstacle.overridable for obstacle in found)
    return context


def changed_context(user: Any, kind: str, subject: Any, seen: str, number: int) -> dict[str, Any]:
    """What became of an object since somebody saw it (`seen`, of a task revision `number`): theirs and the base.

    A person's own decisions stand among theirs, since one may have been taken in another tab; what the desk hides stays
    hidden.
    """
    theirs = shown_decisions(user).filter(user__isnull=False, undone_at__isnull=True)
    about = Q(**subject_filter(kind, subject.pk))
    base, parts, now = "", [], ""
    if isinstance(subject, Task):
        seen_revision = subject.revisions.filter(number=number).defer("record").first()
        base = seen_revision.instruction if seen_revision is not None else ""
        now = f"revision {subject.current.number}" if subject.current is not None else ""
        if seen_revision is not None and subject.current is not None and seen_revision.pk != subject.current_id:
            parts = revision_diff(seen_revision, subject.current)
    elif isinstance(subject, Tool):
        environment, base = subject.version.environment, subject.source
        about = Q(tool__name=subject.name, tool__version__environment=environment)
        newest = Tool.objects.filter(version=environment.current_id, name=subject.name).first()
        current = environment.current
        now = f"version {current.number} of its environment" if current and current.pk != subject.version_id else ""
        made = part("Source", base, newest.source if newest is not None else "")
        parts = [(made.title, [(row.kind, row.text) for row in made.rows])] if made.rows and now else []
    else:
        scores = list(Score.objects.filter(trajectory=subject.pk).order_by("-id")[:SCORES_LOOKED_AT])
        was = next((one for one in scores if score_tag(subject.pk, one.pk) == seen), None)
        base = f"Reward {was.reward:g}, {was.passed} of {was.total} checks held." if was is not None else ""
        now = f"reward {scores[0].reward:g}, scored again" if scores else ""
    rows = theirs.filter(about).select_related("user", "revision").defer("revision__record").order_by("-id")
    return {
        "kind": kind,
        "subject": subject,
        "subject_title": subject_title(subject),
        "subject_url": subject_page(kind, subject.pk),
        "base": base,
        "number": number,
        "now": now,
        "parts": parts,
        "theirs": [(row, verdict_label(kind, row.verdict)) for row in rows[:THEIRS_SHOWN]],
    }


def remarks_of(kind: str, pk: int) -> list[Remark]:
    """The newest remarks on an object, open ones first."""
    rows = Remark.objects.filter(**subject_filter(kind, pk)).select_related("user", "resolved_by")
    return list(rows.order_by("resolved_at", "-id")[:REMARKS_SHOWN])


def queue_context(
    user: Any, item: QueueItem, assignment: Assignment | None, others: Sequence[Assignment]
) -> dict[str, Any]:
    """The bar above an item: where it stands in its queue, its lease, which others have it."""
    queue = item.queue
    left = None
    if assignment is not None and assignment.state == "held":
        left = assignment.lease_left
    previous, following = neighbours(user, queue, assignment)
    # An item whose answer is known looks like every other one.
    places = item.overlap if item.gold is None else queue.overlap
    return {
        "item": item,
        "queue": queue,
        "assignment": assignment,
        "lease_left": left,
        "worked_seconds": assignment.worked_seconds if assignment is not None else 0,
        "others": others,
        "works_it": may_work(user, queue) and queue.is_open,
        "previous": previous,
        "following": following,
        "votes": _standing_votes(item) if item.gold is None and places > 1 else 0,
        "places": places,
    }


def _standing_votes(item: QueueItem) -> int:
    """How many people have decided on an item's object as it is, in whichever queue."""
    rows = ReviewDecision.objects.filter(**subject_filter(item.kind, item.subject_id))
    rows = rows.filter(undone_at__isnull=True, user__isnull=False, gold_right__isnull=True)
    return (rows.filter(revision=F("task__current")) if item.kind == ReviewKind.TASK else rows).count()


def neighbours(user: Any, queue: ReviewQueue, assignment: Assignment | None) -> tuple[int | None, int | None]:
    """The items that the person had in this queue before and after the one of this assignment; one query."""
    if assignment is None:
        mine = Assignment.objects.filter(user=user, queue=queue).exclude(state="released")
        return mine.order_by("-id").values_list("item_id", flat=True).first(), None
    found = _NEIGHBOURS.values(user=user.pk, queue=queue.pk, own=assignment.pk)
    return found["before"], found["after"]


def _around() -> dict[str, tuple[str, QuerySet[Assignment, Any]]]:
    mine = Assignment.objects.filter(user=Given("user"), queue=Given("queue")).exclude(state="released")
    return {
        "before": (VALUE, mine.filter(pk__lt=Given("own")).order_by("-id").values("item_id")[:1]),
        "after": (VALUE, mine.filter(pk__gt=Given("own")).order_by("id").values("item_id")[:1]),
    }


_NEIGHBOURS = KeptNumbers(_around)


def task_context(request: HttpRequest, task: Task) -> dict[str, Any]:
    """What a task's review page shows of it: instruction, start, checks, reference, attempts and audit."""
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
    checks = checks_context(request, task, revision)
    reference = hold_reference(revision)
    return {
        "task": task,
        "revision": revision,
        "is_current": True,
        "audit": audit,
        "audit_words": words(audit, faults) if audit is not None and audit.state != "green" else "",
        "reference": reference,
        "form_rows": list_form_rows(*read_form_and_expected(revision)),
        **checks,
        "mutant_places": tell_mutants(checks["checks"], audit),
        "mutants_before": audit is not None and audit.reference_hash != (reference.content_hash if reference else ""),
        **(withheld_context(task, revision) if task.withheld else {}),
        **(golden_context(task, revision) if revision.verifier_kind == "golden" else {}),
        **attempts_context(task, checks["checks"], whole=checks["checks_whole"]),
    }


_AUDIT = KeptQuery[Audit](lambda: Audit.objects.filter(revision=Given("revision")).order_by("-id")[:1])


def tell_held(checks: Sequence[Check], scores: Iterable[Score]) -> int:
    """Give each check by how many of the scores it held (`held`); how many of them know what their checks said."""
    known = [score.verdicts for score in scores if score.verdicts]
    for check in checks:
        held = (verdicts[check.position : check.position + 1] for verdicts in known)
        check.held = sum(bool(found and found[0].get("passed")) for found in held)  # type: ignore[attr-defined]
    return len(known)


def subject_context(request: HttpRequest, kind: str, pk: int, *, told: bool = True) -> dict[str, Any]:
    """The object of an item and what its page shows of it, of what people said only where that is `told`.

    Raises NotFound through Http404.
    """
    if kind == ReviewKind.TASK:
        task = find_task(pk)
        return {"subject": task, **task_context(request, task)}
    if kind == ReviewKind.TOOL:
        return tool_context(pk, told=told)
    return trajectory_context(pk)


def trajectory_context(pk: int) -> dict[str, Any]:
    """An attempt: what was asked, how it ended, what each check says, and its last steps."""
    heavy = ("record", "matrix", "task__words", "revision__record")
    rows = Trajectory.objects.select_related("task", "environment", "revision").defer(*heavy)
    row = get_object_or_404(rows, pk=pk)
    tell_reasons([row])
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


def item_of(queue: ReviewQueue, kind: str, pk: int) -> QueueItem | None:
    return QueueItem.objects.filter(queue=queue, **subject_filter(kind, pk)).first()
