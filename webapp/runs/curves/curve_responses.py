"""Responses with a job's curves as a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.http import HttpResponse

from webapp.runs.models import TrainingJob


def csv_response(job: TrainingJob, text: str, charts: Sequence[str]) -> HttpResponse:
    return _file(text.encode(), "text/csv; charset=utf-8", f"{_name(job, charts)}.csv")


def png_response(job: TrainingJob, image: bytes, charts: Sequence[str]) -> HttpResponse:
    return _file(image, "image/png", f"{_name(job, charts)}.png")


def _name(job: TrainingJob, charts: Sequence[str]) -> str:
    """A name for the file, of the server's own characters: names of charts may come from workers."""
    part = re.sub(r"[^a-z0-9-]+", "-", charts[0].lower()).strip("-")[:40] if len(charts) == 1 else ""
    return f"{job.public_id}-{part or 'metrics'}"


def _file(content: bytes, media_type: str, name: str) -> HttpResponse:
    answer = HttpResponse(content, content_type=media_type)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
