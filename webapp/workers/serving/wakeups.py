"""Wake-ups of the serving worker of this installation's own queue."""

from __future__ import annotations

import logging

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.celery import app
from webapp.jobs.presence import list_workers as celery_workers
from webapp.runs.local import installation
from webapp.runs.wakeups import GPU_QUEUE, WAKE_AGAIN_AFTER
from webapp.workers.models import Deployment, DeploymentState

logger = logging.getLogger(__name__)


def waiting_deployments() -> QuerySet[Deployment]:
    """Return deployments that no worker holds."""
    return Deployment.objects.filter(state=DeploymentState.STARTING, lease_until=None)


def can_start_worker() -> bool:
    """Return whether this installation starts a serving worker of its own when a deployment waits."""
    try:
        return installation.can_import_training() and any(
            GPU_QUEUE in seen.queues for seen in celery_workers(settings.BROKER_URL)
        )
    except redis.RedisError:
        return False


def wake_servers() -> None:
    """After the commit, wake the serving worker beside this site if a deployment waits; again once a minute."""
    transaction.on_commit(_wake_now)


def _wake_now() -> None:
    now = timezone.now()
    silent = Q(woken_at__isnull=True) | Q(woken_at__lt=now - WAKE_AGAIN_AFTER)
    pks = list(waiting_deployments().filter(silent).values_list("pk", flat=True)[:100])
    if not pks:
        return
    try:
        if not any(GPU_QUEUE in seen.queues for seen in celery_workers(settings.BROKER_URL)):
            return
        Deployment.objects.filter(pk__in=pks).update(woken_at=now)
        app.send_task("workers.serve", queue=GPU_QUEUE, retry=False, expires=WAKE_AGAIN_AFTER.total_seconds())
    except (OperationalError, redis.RedisError) as error:
        logger.warning("deployments wait for the broker: %s", error)
