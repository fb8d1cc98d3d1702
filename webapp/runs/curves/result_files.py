"""Result files of training jobs: the numbers of their steps as CSV, as OpenAI's clients fetch them."""

from __future__ import annotations

from webapp.datasets.queries import MadeFile
from webapp.runs.curves.metric_csv import write_result_file
from webapp.runs.curves.series import keys_of
from webapp.runs.models import OPEN_STATES, TrainingJob

PREFIX = "file-results-"
PURPOSE = "fine-tune-results"
_JOB = "ftjob-"


def result_file_ids(job: TrainingJob) -> list[str]:
    """The ids of a job's result files: one once it has ended, if it has made a step."""
    ended = job.state not in OPEN_STATES and job.step > 0
    return [PREFIX + job.public_id.removeprefix(_JOB)] if ended else []


def find_result_file(public_id: str) -> MadeFile | None:
    """The result file of this id, made of the numbers that the job has now; None if it has none."""
    job = TrainingJob.objects.filter(public_id=_JOB + public_id.removeprefix(PREFIX)).first()
    if job is None or public_id not in result_file_ids(job):
        return None
    return MadeFile(
        id=public_id,
        filename="step_metrics.csv",
        purpose=PURPOSE,
        created_at=job.finished_at or job.created_at,
        media_type="text/csv",
        content=write_result_file(job, keys_of(job)).encode(),
    )
