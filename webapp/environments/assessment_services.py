"""Writes on assessments: saved once for each content, and the results of re-running their cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.assessment.cases import Rerun
from synthesis.drafts import AssessmentDraft
from synthesis.drafts import ToolCase as CaseDraft
from synthesis.formats.values import clean_text
from webapp.accounts.services import write_audit_entry
from webapp.common.content_store import Saved, content_hash, load_value, store_values
from webapp.environments.models import Assessment, CaseState, ToolCase, Version
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job

AT_ONCE = 100


def save_assessment(
    version: Version, draft: AssessmentDraft, *, roles: Mapping[str, str] | None = None, scripted: bool = False
) -> tuple[Saved, Assessment]:
    """Store an assessment of a version with its cases; an identical one is stored only once (`unchanged`).

    `roles` names the models of author, tester and checker. States are written before the transaction.
    """
    digest = content_hash([draft.model_dump(mode="json"), dict(sorted((roles or {}).items())), scripted])
    stored = Assessment.objects.filter(version=version, content_hash=digest).first()
    if stored is not None:
        return "unchanged", stored
    states: list[CaseState] = []
    for start in range(0, len(draft.cases), AT_ONCE):
        states += store_values(CaseState, [case.state for case in draft.cases[start : start + AT_ONCE]])
    with transaction.atomic():
        row, is_new = Assessment.objects.get_or_create(
            version=version,
            content_hash=digest,
            defaults={**_build_assessment_values(draft), "roles": dict(roles or {}), "scripted": scripted},
        )
        if is_new:
            pairs = enumerate(zip(draft.cases, states, strict=True))
            ToolCase.objects.bulk_create(
                (_build_tool_case(row, position, case, state) for position, (case, state) in pairs), batch_size=AT_ONCE
            )
    return "created" if is_new else "unchanged", row


def _build_assessment_values(draft: AssessmentDraft) -> dict[str, object]:
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
        "notes": [clean_text(note) for note in draft.notes],
        "first_score": draft.first_score,
        "repairs": [repair.model_dump(mode="json") for repair in draft.repairs],
        "passed": verdicts.count("pass"),
        "warned": verdicts.count("warning"),
        "failed": verdicts.count("fail"),
        "rates": [rate.model_dump(mode="json") for rate in draft.rates],
        "prompts": draft.prompts,
    }


def _build_tool_case(assessment: Assessment, position: int, case: CaseDraft, state: CaseState) -> ToolCase:
    return ToolCase(
        assessment=assessment,
        position=position,
        tool=clean_text(case.tool)[:200],
        case=case.case,
        expectation=clean_text(case.expectation),
        arguments=case.arguments,
        state=state,
        seed=case.seed,
        now=case.now,
        ok=case.ok,
        result=case.result,
        error=clean_text(case.error),
        patch=list(case.patch),
        digest=case.digest,
        cut=case.cut,
        verdict=case.verdict,
        reason=clean_text(case.reason),
    )


def iterate_case_drafts(assessment: Assessment) -> Iterator[tuple[ToolCase, CaseDraft]]:
    """Yield every case with the draft that a re-run needs; each state is read only when its case comes."""
    for row in assessment.cases.order_by("position").iterator(chunk_size=AT_ONCE):
        fields = {name: getattr(row, name) for name in _SAME_NAME}
        state = load_value(CaseState, row.state_id)
        yield row, CaseDraft(**fields, patch=tuple(row.patch), state=state)


_SAME_NAME = (
    *("tool", "case", "expectation", "arguments", "seed", "now"),
    *("ok", "result", "error", "digest", "cut", "verdict", "reason"),
)


def store_rerun(row: ToolCase, rerun: Rerun) -> None:
    row.rerun = "same" if rerun.same else "differs"
    row.differs = ", ".join(rerun.differs)[:100]
    row.save(update_fields=["rerun", "differs"])


def store_rerun_counts(assessment: Assessment, same: int, differs: int) -> None:
    """Store the result counts of a re-run of all cases on the assessment."""
    Assessment.objects.filter(pk=assessment.pk).update(rerun_at=timezone.now(), same_count=same, differs_count=differs)


def find_open_rerun(assessment: Assessment) -> Job | None:
    """Return the open job that re-runs these cases; None if there is none."""
    return find_open_job("rerun_cases", f"assessment:{assessment.pk}")


@transaction.atomic
def start_rerun(user: Any, assessment: Assessment) -> Job:
    """Queue the re-run of an assessment's cases. Return the open job if there is one."""
    open_job = find_open_rerun(assessment)
    if open_job is not None:
        return open_job
    title, subject = f"Re-run the tool cases of assessment {assessment.pk}", f"assessment:{assessment.pk}"
    job = enqueue_job("rerun_cases", title, {"assessment": assessment.pk}, user, subject=subject)
    write_audit_entry(user, "assessment.rerun", assessment, job=job.pk)
    return job
