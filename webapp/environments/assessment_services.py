"""Writes on assessments: saved once for one content, and what re-running their cases showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.assessment.cases import Rerun
from synthesis.drafts import AssessmentDraft
from synthesis.drafts import ToolCase as CaseDraft
from synthesis.formats.values import clean
from webapp.accounts.services import audit
from webapp.content_store import Saved, content_hash, load, store
from webapp.environments.models import Assessment, CaseState, ToolCase, Version
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.jobs.services import create

AT_ONCE = 100


def save_assessment(
    version: Version, draft: AssessmentDraft, *, roles: Mapping[str, str] | None = None, scripted: bool = False
) -> tuple[Saved, Assessment]:
    """Store an assessment of a version with its cases; the same one a second time is `unchanged`.

    `roles` names the models of author, tester and checker. States are written before the transaction.
    """
    digest = content_hash([draft.model_dump(mode="json"), dict(sorted((roles or {}).items())), scripted])
    known = Assessment.objects.filter(version=version, content_hash=digest).first()
    if known is not None:
        return "unchanged", known
    states: list[CaseState] = []
    for start in range(0, len(draft.cases), AT_ONCE):
        states += store(CaseState, [case.state for case in draft.cases[start : start + AT_ONCE]])
    with transaction.atomic():
        row, made = Assessment.objects.get_or_create(
            version=version,
            content_hash=digest,
            defaults={**_numbers(draft), "roles": dict(roles or {}), "scripted": scripted},
        )
        if made:
            pairs = enumerate(zip(draft.cases, states, strict=True))
            ToolCase.objects.bulk_create(
                (_case(row, position, case, state) for position, (case, state) in pairs), batch_size=AT_ONCE
            )
    return "created" if made else "unchanged", row


def _numbers(draft: AssessmentDraft) -> dict[str, object]:
    verdicts = [case.verdict for case in draft.cases]
    return {
        "score": draft.score,
        "strict": draft.strict,
        "threshold": draft.threshold,
        "confidence": draft.confidence,
        "kept": draft.kept,
        "planned": draft.planned,
        "made": len(verdicts),
        "saved": draft.saved,
        "lost": draft.lost,
        "notes": [clean(note) for note in draft.notes],
        "first_score": draft.first_score,
        "repairs": [repair.model_dump(mode="json") for repair in draft.repairs],
        "passed": verdicts.count("pass"),
        "warned": verdicts.count("warning"),
        "failed": verdicts.count("fail"),
        "rates": [rate.model_dump(mode="json") for rate in draft.rates],
        "prompts": draft.prompts,
    }


def _case(assessment: Assessment, position: int, case: CaseDraft, state: CaseState) -> ToolCase:
    return ToolCase(
        assessment=assessment,
        position=position,
        tool=clean(case.tool)[:200],
        case=case.case,
        expectation=clean(case.expectation),
        arguments=case.arguments,
        state=state,
        seed=case.seed,
        now=case.now,
        ok=case.ok,
        result=case.result,
        error=clean(case.error),
        patch=list(case.patch),
        digest=case.digest,
        cut=case.cut,
        verdict=case.verdict,
        reason=clean(case.reason),
    )


def drafts_of(assessment: Assessment) -> Iterator[tuple[ToolCase, CaseDraft]]:
    """Every case with what a re-run needs of it, one after the other: states are read when their turn comes."""
    for row in assessment.cases.order_by("position").iterator(chunk_size=AT_ONCE):
        fields = {name: getattr(row, name) for name in _SAME_NAME}
        state = load(CaseState, row.state_id)
        yield row, CaseDraft(**fields, patch=tuple(row.patch), state=state)


_SAME_NAME = (
    *("tool", "case", "expectation", "arguments", "seed", "now"),
    *("ok", "result", "error", "digest", "cut", "verdict", "reason"),
)


def keep_rerun(row: ToolCase, rerun: Rerun) -> None:
    row.rerun = "same" if rerun.same else "differs"
    row.differs = ", ".join(rerun.differs)[:100]
    row.save(update_fields=["rerun", "differs"])


def keep_reruns(assessment: Assessment, same: int, differs: int) -> None:
    """What re-running all cases came to, beside the assessment."""
    Assessment.objects.filter(pk=assessment.pk).update(rerun_at=timezone.now(), same_count=same, differs_count=differs)


def open_rerun(assessment: Assessment) -> Job | None:
    """The job that re-runs these cases and has not ended."""
    return open_of("rerun_cases", f"assessment:{assessment.pk}")


@transaction.atomic
def start_rerun(user: Any, assessment: Assessment) -> Job:
    """Queue the re-run of an assessment's cases; the job that is on its way already is handed back."""
    known = open_rerun(assessment)
    if known is not None:
        return known
    title, subject = f"Re-run the tool cases of assessment {assessment.pk}", f"assessment:{assessment.pk}"
    job = create("rerun_cases", title, {"assessment": assessment.pk}, user, subject=subject)
    audit(user, "assessment.rerun", assessment, job=job.pk)
    return job
