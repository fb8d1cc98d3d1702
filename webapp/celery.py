"""Celery: three queues. A task only wakes a job row; the row is the truth."""

from __future__ import annotations

import os

from celery import Celery
from django.conf import settings
from kombu import Exchange, Queue

if not settings.configured:  # started by `celery -A webapp.celery`, not by the site
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
# `migrate` checks the installation before any worker starts. A check loads every page and route, which none serves.
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")

QUEUES = ("llm", "sandbox", "gpu")
REQUIRED_QUEUES = ("llm", "sandbox")
"""An installation without a worker on one of these is not well; `gpu` workers come and go."""

app = Celery("envarium")
app.conf.update(settings.CELERY)
# The nameless exchange delivers by queue name alone; with a shared one each queue would get every message.
app.conf.task_queues = [Queue(name, Exchange(""), routing_key=name) for name in QUEUES]
app.conf.beat_scheduler = "webapp.jobs.scheduler:LocalScheduler"
app.conf.beat_max_loop_interval = 5
app.conf.beat_schedule = {
    "reap-jobs": {"task": "jobs.reap", "schedule": 5.0},
    "reap-training": {"task": "workers.reap", "schedule": 5.0},
    "look-for-endpoints": {
        "task": "batches.look_for_endpoints",
        "schedule": 15.0,
        "options": {"queue": "llm", "expires": 15},
    },
    "watch-training": {"task": "runs.watch_stalls", "schedule": 30.0, "options": {"expires": 30}},
    "send-webhooks": {"task": "webhooks.send_due", "schedule": 5.0, "options": {"expires": 5}},
    "prune-webhooks": {"task": "webhooks.prune", "schedule": 86_400.0, "options": {"expires": 3600}},
    "prune-training": {"task": "workers.prune", "schedule": 3600.0, "options": {"expires": 3600}},
    "probe-sandbox": {
        "task": "jobs.probe_sandbox",
        "schedule": 60.0,
        "options": {"queue": "sandbox", "expires": 60},
    },
}
app.autodiscover_tasks(
    lambda: [name for name in settings.INSTALLED_APPS if name.startswith("webapp.")], related_name="jobs"
)
