"""Wake-ups of the workers of this installation's own queue."""

from __future__ import annotations

import logging
from datetime import timedelta

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.celery import app
from webapp.jobs.presence import list_workers as celery_workers
from webapp.runs.models import TrainingJob, TrainingState

logger = logging.getLogger(__name__)

AT_ONCE = 500
GPU_QUEUE = "gpu"
WAKE_AGAIN_AFTER = timedelta(seconds=60)


def ready_jobs() -> QuerySet[TrainingJob]:
    """Return queued jobs that a worker may take now: one that was lost again and again rests first."""
    rested = Q(lease_until__isnull=True) | Q(lease_until__lte=timezone.now())
    return TrainingJob.objects.filter(rested, state=TrainingState.QUEUED)


def wake_workers() -> None:
    """After the commit, notify the workers of this installation's own queue of waiting jobs; again once a minute."""
    transaction.on_commit(_wake_now)


def _wake_now() -> None:
    now = timezone.now()
    silent = Q(woken_at__isnull=True) | Q(woken_at__lt=now - WAKE_AGAIN_AFTER)
    pks = list(ready_jobs().filter(silent).order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    if not pks:
        return
    try:
        if not any(GPU_QUEUE in seen.queues for seen in celery_workers(settings.BROKER_URL)):
            return
        TrainingJob.objects.filter(pk__in=pks).update(woken_at=now)
        for _ in pks:
            app.send_task("runs.work", queue=GPU_QUEUE, retry=False, expires=WAKE_AGAIN_AFTER.total_seconds())
    except (OperationalError, redis.RedisError) as error:
        logger.warning("training jobs wait for the broker: %s", error)
