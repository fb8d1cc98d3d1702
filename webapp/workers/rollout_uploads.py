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
from synthesis.parser import ReadLimits, read_apart
from webapp.database.connections import release_connection
from webapp.errors import Conflict, TooLarge, Unusable
from webapp.runs.models import RolloutFile, RunRollout, TrainingJob
from webapp.runs.rollouts.due_attempts import ReportedLine, require_due, scoring_of
from webapp.runs.rollouts.reported_means import StepMeans, compare
from webapp.runs.rollouts.rollout_line import COMPARED, FILE_BYTES, MOST_LINES, RolloutSummary, Scoring
from webapp.runs.rollouts.verification import verify_sample
from webapp.runs.topics import tell_job
from webapp.runs.transitions import say, tell_refusal
from webapp.scenarios.models import TaskRevision
from webapp.workers import claims
from webapp.workers.checkpoint_uploads import BLOCK, disk_error, incoming
from webapp.workers.errors import WrongHash

FOLDER = "rollouts"
MOST_TOLD = 3
SUMMARIES = "webapp.runs.rollouts.rollout_line:summaries"
READING = ReadLimits(cpu_s=300, wall_s=900, output_bytes=128 << 20, small_bytes=0)
ROW = re.compile(r"revision:([0-9]{1,18})")


def take_rollouts(public_id: str, number: int, step: int, stream: IO[bytes], sha256: str, user: Any = None) -> int:
    """Keep the attempts of a step; returns how many they are. Sent again, it is answered alike. Lines that cannot be
    read are left out, and an event of the job says where and why.

    Raises as `claims.held`; Conflict: the step has other attempts; TooLarge, Unusable: the file cannot be used, or does
    not hold the attempts that are due (`due_attempts.py`).
    """
    job, _ = claims.held(public_id, number, user)
    known = RolloutFile.objects.filter(job=job, attempt=number, step=step).first()
    if known is not None:
        return _same(known, sha256)
    with _spooled(stream, sha256) as file:
        release_connection()
        lines, unreadable = _lines(file, step, scoring_of(job))
        with _refusal_told(job, step):
            require_due(job, step, lines, len(unreadable))
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
            job, _ = claims.held(public_id, number, user, lock=True)
            kept = RolloutFile(job=job, attempt=number, step=step, stored=stored, bytes=size, sha256=sha256)
            kept.count, kept.means = len(rows), means.means()
            kept.save()
            for row in rows:
                row.file = kept
            RunRollout.objects.bulk_create(rows, batch_size=2_000)
            if unreadable:
                say(job, "warn", _left_out(unreadable, len(rows), step), code="unreadable_rollouts")
            compare(job, number, [step])
            tell_job(job.pk)
    except BaseException as error:
        default_storage.delete(stored)
        if not isinstance(error, IntegrityError):
            raise
        return _same(RolloutFile.objects.get(job=job, attempt=number, step=step), sha256)
    verify_sample(job)
    return len(rows)


def _same(known: RolloutFile, sha256: str) -> int:
    if known.sha256 != sha256:
        raise Conflict(f"Step {known.step} has other attempts already, which stay.")
    return known.count


def _spooled(stream: IO[bytes], sha256: str) -> IO[bytes]:
    """The body on this disk, if it is what its hash says."""
    digest, size = hashlib.sha256(), 0
    file = tempfile.TemporaryFile(dir=incoming())  # noqa: SIM115 - it is handed on
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
        raise disk_error(error) from error
    except TooLarge:
        file.close()
        raise
    if digest.hexdigest() != sha256:
        file.close()
        raise WrongHash("The body has another SHA-256 than X-Content-SHA256 says. Send it again.")
    file.seek(0)
    return file


def _lines(file: IO[bytes], step: int, scoring: Scoring) -> tuple[list[ReportedLine], list[str]]:
    """The lines, which another process has read, and what is wrong with each that could not be read.

    Raises Unusable: no line can be read, or the file is none.
    """
    lines, unreadable = list[ReportedLine](), list[str]()
    bounds = {
        "step": step, "most_lines": MOST_LINES, "most_bytes": FILE_BYTES, "scoring": scoring.model_dump(mode="json"),
    }  # fmt: skip
    try:
        for index, told in enumerate(read_apart(SUMMARIES, file, bounds, READING)):
            if "unreadable" in told:
                unreadable.append(told["unreadable"])
            else:
                lines.append(ReportedLine(index, RolloutSummary.model_validate(told)))
    except InputError as error:
        raise Unusable(str(error)) from error
    if not lines:
        raise Unusable(unreadable[0] if unreadable else f"rollouts of step {step}: the file holds no attempt.")
    return lines, unreadable


@contextlib.contextmanager
def _refusal_told(job: TrainingJob, step: int) -> Iterator[None]:
    """Write a refusal into the job's log too: whoever reads the curve has to know why a step has no attempts."""
    try:
        yield
    except Unusable as error:
        tell_refusal(job, f"The attempts of step {step} were not taken. {error}", step)
        raise


def _left_out(unreadable: list[str], kept: int, step: int) -> str:
    count, total = len(unreadable), len(unreadable) + kept
    words = f"{count:,} of {total:,} attempts of step {step} are not kept, since they cannot be read."
    return " ".join([words, *(f"{reason.rstrip('.')}." for reason in unreadable[:MOST_TOLD])])


def _find_tasks(job: TrainingJob, rows: list[RunRollout]) -> None:
    """A row's id leads to a task only where the rows were chosen here: an uploader writes what they like."""
    if job.dataset.source != "selection":
        return
    named = {row.row: int(match[1]) for row in rows if (match := ROW.fullmatch(row.row))}
    known = dict(TaskRevision.objects.filter(pk__in=set(named.values())).values_list("pk", "task_id"))
    for row in rows:
        pk = named.get(row.row)
        if pk in known:
            row.revision_id, row.task_id = pk, known[pk]
