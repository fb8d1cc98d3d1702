"""Responses with a job's curves as a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.http import HttpResponse

from webapp.runs.models import TrainingJob


def build_csv_response(job: TrainingJob, text: str, charts: Sequence[str]) -> HttpResponse:
    return _build_file_response(text.encode(), "text/csv; charset=utf-8", f"{_build_file_name(job, charts)}.csv")


def build_png_response(job: TrainingJob, image: bytes, charts: Sequence[str]) -> HttpResponse:
    return _build_file_response(image, "image/png", f"{_build_file_name(job, charts)}.png")


def _build_file_name(job: TrainingJob, charts: Sequence[str]) -> str:
    """Return a name for the file, of the server's own characters: names of charts may come from workers."""
    part = re.sub(r"[^a-z0-9-]+", "-", charts[0].lower()).strip("-")[:40] if len(charts) == 1 else ""
    return f"{job.public_id}-{part or 'metrics'}"


def _build_file_response(content: bytes, media_type: str, name: str) -> HttpResponse:
    answer = HttpResponse(content, content_type=media_type)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
