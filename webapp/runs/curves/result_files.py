"""Result files of training jobs: the numbers of their steps as CSV, as OpenAI's clients fetch them."""

from __future__ import annotations

from django.db.models.functions import Coalesce

from webapp.datasets.queries import FilePlace, FileSource, MadeFile, filter_after_place
from webapp.runs.curves.metric_csv import write_result_file
from webapp.runs.curves.series import list_keys
from webapp.runs.models import OPEN_STATES, TrainingJob

PREFIX = "file-results-"
PURPOSE = "fine-tune-results"
_JOB = "ftjob-"


def list_result_file_ids(job: TrainingJob) -> list[str]:
    """Return the ids of a job's result files: one once it has ended, if it has made a step."""
    ended = job.state not in OPEN_STATES and job.step > 0
    return [PREFIX + job.public_id.removeprefix(_JOB)] if ended else []


def find_result_file(public_id: str) -> MadeFile | None:
    """Return the result file of this id, made of the numbers that the job has now; None if it has none."""
    job = TrainingJob.objects.filter(public_id=_JOB + public_id.removeprefix(PREFIX)).first()
    return _make_file(job) if job is not None and public_id in list_result_file_ids(job) else None


def list_result_files(place: FilePlace | None, limit: int, newest: bool) -> list[MadeFile]:
    """Return the result files behind a place, of all jobs that ended."""
    jobs = TrainingJob.objects.exclude(state__in=OPEN_STATES).filter(step__gt=0)
    if place is not None:
        place = FilePlace(place.created_at, _JOB + place.id.removeprefix(PREFIX) if _is_own(place.id) else place.id)
    listed = filter_after_place(
        jobs.annotate(made_at=Coalesce("finished_at", "created_at")), place, "made_at", newest=newest
    )
    return [_make_file(job) for job in listed[:limit]]


def _is_own(public_id: str) -> bool:
    return public_id.startswith(PREFIX)


def _make_file(job: TrainingJob) -> MadeFile:
    return MadeFile(
        id=PREFIX + job.public_id.removeprefix(_JOB),
        filename="step_metrics.csv",
        purpose=PURPOSE,
        created_at=job.finished_at or job.created_at,
        media_type="text/csv",
        content=write_result_file(job, list_keys(job)).encode(),
    )


SOURCE = FileSource(
    purpose=PURPOSE,
    find=find_result_file,
    list_files=list_result_files,
    why_kept="it is made of the numbers of its training job each time it is asked for.",
)
