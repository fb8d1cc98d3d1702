"""Background jobs of review."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from webapp.common.templatetags.show import counted
from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import register_subject_page
from webapp.review.judges.votes import JUDGE_JOB, judge_queue
from webapp.review.models import ReviewQueue
from webapp.review.queue_fill import update_queue_items
from webapp.review.queues import FILL_JOB
from webapp.scenarios.jobs import find_job_user


@register_subject_page("queue")
def link_queue_page(pk: int) -> tuple[str, str]:
    return f"Queue {pk}", reverse("review:queue", args=[pk])


@register_job_handler(FILL_JOB, queue="llm")
def fill_queue(context: JobContext) -> dict[str, Any]:
    """Bring a queue's items in line with its filters. Idempotent."""
    queue = ReviewQueue.objects.filter(pk=context.payload["queue"]).first()
    if queue is None:
        raise InputError("The queue no longer exists.")
    context.progress(0, 1, queue.name)
    done = update_queue_items(queue)
    context.progress(1, 1, counted(done.total, "item"))
    return {"added": done.added, "withdrawn": done.withdrawn, "reopened": done.reopened, "total": done.total}


@register_job_handler(JUDGE_JOB, queue="llm")
def judge_queue_job(context: JobContext) -> dict[str, Any]:
    """Ask a judge about a queue's open items. Votes that were written before a crash are not asked for again."""
    queue = ReviewQueue.objects.filter(pk=context.payload["queue"]).first()
    if queue is None:
        raise InputError("The queue no longer exists.")
    return judge_queue(find_job_user(context), queue, context.payload["model"], context.progress).report()
