"""Views of the training workers."""

from __future__ import annotations

import shlex

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.runs.models import TrainingJob, TrainingState
from webapp.workers import registration
from webapp.workers import worker_lines as people

PART = "workers"
PAGE = 25


@access("read")
@require_safe
@never_cache
def workers(request: HttpRequest) -> HttpResponse:
    """Those that are here, live; those that are gone by page; how to start one; training on this machine."""
    lines = people.here()
    context = {
        "lines": lines,
        "shown": people.SHOWN,
        "counts": {state: sum(line.state == state for line in lines) for state in ("working", "idle", "lost")},
        "waiting": TrainingJob.objects.filter(state=TrainingState.QUEUED).order_by()[: people.SHOWN].count(),
    }
    if wants_fragment(request, PART):
        return render(request, "workers/list_part.html", context)
    page = keyset(request, registration.gone(), size=PAGE)
    more = {"page": page, "gone": people.lines(page.rows), "command": _command(request)}
    return render(request, "workers/list.html", context | more)


def _command(request: HttpRequest) -> str:
    """What starts a worker on another machine."""
    url = shlex.quote(request.build_absolute_uri("/").rstrip("/"))
    lines = [
        "pip install '.[train]'",
        f"python -m training.worker --url {url}",
        "  --token-file token.txt --home ~/envarium-work --models ~/models",
    ]
    return f"{lines[0]}\n{lines[1]} \\\n{lines[2]}"
