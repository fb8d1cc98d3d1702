"""Uploads of a step's rollouts: bounded, every line checked, a row for each before any is shown."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
import uuid
from collections.abc import Iterator
from typing import IO, Any

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction

from synthesis.errors import InputError
from synthesis.parser import ReadLimits, read_in_process
from webapp.common.database.connections import release_connection
from webapp.common.errors import Conflict, TooLarge, Unusable
from webapp.runs.models import RolloutFile, RunRollout, TrainingJob
from webapp.runs.rollouts.due_attempts import ReportedLine, get_scoring, require_due_attempts
from webapp.runs.rollouts.reported_means import StepMeans, compare_means
from webapp.runs.rollouts.rollout_line import COMPARED, FILE_BYTES, MOST_LINES, RolloutSummary, Scoring
from webapp.runs.rollouts.verification import verify_sample
from webapp.runs.topics import publish_job
from webapp.runs.transitions import log_event, log_refusal
from webapp.scenarios.models import TaskRevision
from webapp.workers import claims
from webapp.workers.checkpoint_uploads import BLOCK, build_disk_error, open_incoming_folder
from webapp.workers.errors import WrongHash

FOLDER = "rollouts"
MOST_TOLD = 3
SUMMARIES = "webapp.runs.rollouts.rollout_line:summaries"
READING = ReadLimits(cpu_s=300, wall_s=900, output_bytes=128 << 20, small_bytes=0)
ROW = re.compile(r"revision:([0-9]{1,18})")


def take_rollouts(public_id: str, number: int, step: int, stream: IO[bytes], sha256: str, user: Any = None) -> int:
    """Store the attempts of a step; return how many they are. Idempotent. Lines that cannot be read are left out, and
    an event of the job says where and why.

    Raises as `claims.held`; Conflict: the step has other attempts; TooLarge, Unusable: the file cannot be used, or does
    not hold the attempts that are due (`due_attempts.py`).
    """
    job, _ = claims.require_attempt(public_id, number, user)
    stored_file = RolloutFile.objects.filter(job=job, attempt=number, step=step).first()
    if stored_file is not None:
        return _require_same_file(stored_file, sha256)
    with _spool_body(stream, sha256) as file:
        release_connection()
        lines, unreadable = _read_lines(file, step, get_scoring(job))
        with _log_refusal(job, step):
            require_due_attempts(job, step, lines, unreadable)
        means = StepMeans()
        for line in lines:
            means.count(line.told)
        rows = [RunRollout(index=line.index, **line.told.model_dump(exclude=COMPARED)) for line in lines]
        _find_tasks(job, rows)
        size = file.seek(0, 2)
        file.seek(0)
        name = f"{FOLDER}/{job.public_id}/{number}-{step:06d}-{uuid.uuid4().hex}.jsonl.gz"
        stored = default_storage.save(name, File(file))
    try:
        with transaction.atomic():
            job, _ = claims.require_attempt(public_id, number, user, lock=True)
            kept = RolloutFile(job=job, attempt=number, step=step, stored=stored, bytes=size, sha256=sha256)
            kept.count, kept.means = len(rows), means.means()
            kept.save()
            for row in rows:
                row.file = kept
            RunRollout.objects.bulk_create(rows, batch_size=2_000)
            if unreadable:
                log_event(job, "warn", _describe_unreadable(unreadable, len(rows), step), code="unreadable_rollouts")
            compare_means(job, number, [step])
            publish_job(job.pk)
    except BaseException as error:
        default_storage.delete(stored)
        if not isinstance(error, IntegrityError):
            raise
        return _require_same_file(RolloutFile.objects.get(job=job, attempt=number, step=step), sha256)
    verify_sample(job)
    return len(rows)


def _require_same_file(known: RolloutFile, sha256: str) -> int:
    if known.sha256 != sha256:
        raise Conflict(f"Step {known.step} has other attempts already, which stay.")
    return known.count


def _spool_body(stream: IO[bytes], sha256: str) -> IO[bytes]:
    """Copy the body to this machine's disk and check its hash."""
    digest, size = hashlib.sha256(), 0
    file = tempfile.TemporaryFile(dir=open_incoming_folder())  # noqa: SIM115 - it is handed on
    try:
        while block := stream.read(BLOCK):
            size += len(block)
            if size > settings.UPLOAD_LIMIT_MIB << 20:
                limit = f"{settings.UPLOAD_LIMIT_MIB} MiB (ENVARIUM_UPLOAD_LIMIT_MIB)"
                raise TooLarge(f"A step's attempts may have {limit}.")
            digest.update(block)
            file.write(block)
    except OSError as error:
        file.close()
        raise build_disk_error(error) from error
    except TooLarge:
        file.close()
        raise
    if digest.hexdigest() != sha256:
        file.close()
        raise WrongHash("The body has another SHA-256 than X-Content-SHA256 says. Send it again.")
    file.seek(0)
    return file


def _read_lines(file: IO[bytes], step: int, scoring: Scoring) -> tuple[list[ReportedLine], list[str]]:
    """Return the lines, read by another process, and the error of each that could not be read.

    Raises Unusable: no line can be read, or the file is not a file of rollouts.
    """
    lines, unreadable = list[ReportedLine](), list[str]()
    bounds = {
        "step": step, "most_lines": MOST_LINES, "most_bytes": FILE_BYTES, "scoring": scoring.model_dump(mode="json"),
    }  # fmt: skip
    try:
        for index, summary in enumerate(read_in_process(SUMMARIES, file, bounds, READING)):
            if "unreadable" in summary:
                unreadable.append(summary["unreadable"])
            else:
                lines.append(ReportedLine(index, RolloutSummary.model_validate(summary)))
    except InputError as error:
        raise Unusable(str(error)) from error
    if not lines:
        raise Unusable(unreadable[0] if unreadable else f"rollouts of step {step}: the file holds no attempt.")
    return lines, unreadable


@contextlib.contextmanager
def _log_refusal(job: TrainingJob, step: int) -> Iterator[None]:
    """Write a refusal into the job's log too: readers of the curve have to know why a step has no attempts."""
    try:
        yield
    except Unusable as error:
        log_refusal(job, f"The attempts of step {step} were not taken. {error}", step)
        raise


def _describe_unreadable(unreadable: list[str], kept: int, step: int) -> str:
    count, total = len(unreadable), len(unreadable) + kept
    words = f"{count:,} of {total:,} attempts of step {step} are not kept, since they cannot be read."
    return " ".join([words, *(f"{reason.rstrip('.')}." for reason in unreadable[:MOST_TOLD])])


def _find_tasks(job: TrainingJob, rows: list[RunRollout]) -> None:
    """Link rows to tasks only if the dataset's rows were chosen here: the ids in an uploaded dataset are arbitrary."""
    if job.dataset.source != "selection":
        return
    named = {row.row: int(match[1]) for row in rows if (match := ROW.fullmatch(row.row))}
    task_ids = dict(TaskRevision.objects.filter(pk__in=set(named.values())).values_list("pk", "task_id"))
    for row in rows:
        pk = named.get(row.row)
        if pk in task_ids:
            row.revision_id, row.task_id = pk, task_ids[pk]
