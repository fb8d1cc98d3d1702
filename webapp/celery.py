"""Celery: three queues. A task only wakes a job row; the row is the truth."""

from __future__ import annotations

import os

from celery import Celery
from django.conf import settings
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

QUEUES = ("llm", "sandbox", "gpu")

app = Celery("envarium")
app.conf.update(settings.CELERY)
app.conf.task_queues = [Queue(name) for name in QUEUES]
app.conf.beat_schedule = {
    "reap-jobs": {"task": "jobs.reap", "schedule": 5.0, "options": {"queue": "llm", "expires": 5}}
}
app.autodiscover_tasks(
    lambda: [name for name in settings.INSTALLED_APPS if name.startswith("webapp.")], related_name="jobs"
)
