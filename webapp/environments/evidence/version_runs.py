"""Cases of an earlier version's assessment, run on a later version: evidence for a version without an assessment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.assessment.cases import CallSetting, count_json_chars, execute_call
from synthesis.drafts import ToolCase as CaseDraft
from synthesis.errors import InputError, ProgramError, StateError
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox
from webapp.accounts.services import write_audit_entry
from webapp.environments.assessment_services import iterate_case_drafts
from webapp.environments.case_groups import COMPARISONS, Comparison, compare_outcome
from webapp.environments.models import Assessment, ToolCase, Version, VersionRun, VersionRunCase
from webapp.environments.services import build_program
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job

KIND = "run_cases_on_version"
SHOWN = 200
RESULT_CHARS = 4_000
AT_ONCE = 100


@dataclass(frozen=True)
class OutcomeLine:
    """A case on the later version, as a row of its table."""

    row: VersionRunCase
    found: Comparison


@dataclass(frozen=True)
class CountLine:
    """The number of cases with one comparison; `verdict` is the former verdict of those that are as before."""

    count: int
    found: Comparison
    verdict: str = ""


def find_earlier_assessment(version: Version) -> Assessment | None:
    """Find the newest assessment of the nearest earlier version that has one."""
    rows = Assessment.objects.filter(version__environment=version.environment_id, version__number__lt=version.number)
    heavy = ("rates", "roles", "prompts", "notes", "repairs")
    return rows.select_related("version").defer(*heavy).order_by("-version__number", "-id").first()


def find_version_run_job(version: Version) -> Job | None:
    """Return the open job that runs an earlier version's cases on this version; None if there is none."""
    return find_open_job(KIND, f"version:{version.pk}")


@transaction.atomic
def start_version_run(user: Any, version: Version, assessment: Assessment) -> Job:
    """Queue a run of an assessment's cases on a later version of its environment. Return the open job if there is one.

    Raises InputError: the assessment is not of an earlier version of the same environment.
    """
    source = assessment.version
    if source.environment_id != version.environment_id or source.number >= version.number:
        raise InputError("The cases of an earlier version can be run on a later one of the same environment only.")
    Version.objects.select_for_update().only("pk").get(pk=version.pk)
    if (existing_job := find_version_run_job(version)) is not None:
        return existing_job
    run = VersionRun.objects.create(version=version, assessment=assessment)
    title = f"Run the cases of version {source.number} on version {version.number}"
    job = enqueue_job(KIND, title, {"run": run.pk}, user, subject=f"version:{version.pk}")
    write_audit_entry(user, "version.run_cases", version, job=job.pk)
    return job


def run_version_cases(sandbox: Sandbox, context: JobContext, run: VersionRun) -> dict[str, Any]:
    """Make every call of the run's assessment on its version and store the outcomes. A second run replaces the first.

    Raises SandboxUnavailable and SandboxLost.
    """
    program = build_program(run.version)
    counts: Counter[str] = Counter()
    rows: list[VersionRunCase] = []
    for case, draft in iterate_case_drafts(run.assessment):
        rows.append(_build_outcome_row(sandbox, program, run, case, draft))
        name = rows[-1].comparison
        counts[f"{name}:{case.verdict}" if name == "same" else name] += 1
        context.progress(len(rows), run.assessment.made)
    with transaction.atomic():
        run.outcomes.all().delete()
        VersionRunCase.objects.bulk_create(rows, batch_size=AT_ONCE)
        VersionRun.objects.filter(pk=run.pk).update(counts=dict(counts), done_at=timezone.now())
    return {"version": run.version_id, "cases": len(rows), **counts}


def _build_outcome_row(
    sandbox: Sandbox, program: Any, run: VersionRun, case: ToolCase, draft: CaseDraft
) -> VersionRunCase:
    setting = CallSetting(draft.state, draft.seed, draft.now)
    try:
        outcome = execute_call(sandbox, program, setting, draft.tool, draft.arguments)
    except (ProgramError, StateError) as error:
        return VersionRunCase(run=run, case=case, comparison="unbuilt", ok=False, error=clean_text(str(error))[:1_000])
    cut = outcome.cut or count_json_chars(outcome.result) > RESULT_CHARS
    return VersionRunCase(
        run=run,
        case=case,
        comparison=compare_outcome(case, outcome),
        ok=outcome.ok,
        result=None if cut else outcome.result,
        error=clean_text(outcome.error),
        cut=cut,
    )


def build_count_lines(run: VersionRun) -> list[CountLine]:
    """Return the counts of a run: the worst comparison first, then the unchanged cases by their verdict."""
    order = ("broken", "unbuilt", "unmet", "another", "mended")
    lines = [CountLine(run.counts[name], COMPARISONS[name]) for name in order if run.counts.get(name)]
    same = COMPARISONS["same"]
    verdicts = ("fail", "warning", "pass")
    return lines + [
        CountLine(run.counts[f"same:{word}"], same, word) for word in verdicts if f"same:{word}" in run.counts
    ]


def build_outcome_lines(run: VersionRun) -> list[OutcomeLine]:
    """Return the cases that changed or did not pass before; those that changed come first."""
    rows = run.outcomes.select_related("case").defer("case__state", "case__patch", "case__result")
    rows = rows.exclude(comparison="same", case__verdict="pass").order_by("case__position")
    lines = [OutcomeLine(row, COMPARISONS[row.comparison]) for row in rows[:SHOWN]]
    order = list(COMPARISONS)
    return sorted(lines, key=lambda line: (line.row.comparison == "same", order.index(line.row.comparison)))


def build_run_context(version: Version) -> dict[str, Any]:
    """Return the context of such runs on a version's page: the newest finished run, and what can be started."""
    run = VersionRun.objects.filter(version=version, done_at__isnull=False).select_related("assessment__version")
    newest = run.order_by("-id").first()
    return {
        "version": version,
        "version_run": newest,
        "run_counts": build_count_lines(newest) if newest is not None else [],
        "run_lines": build_outcome_lines(newest) if newest is not None else [],
        "run_job": find_version_run_job(version),
        "earlier": find_earlier_assessment(version),
    }
