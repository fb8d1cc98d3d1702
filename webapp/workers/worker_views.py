"""Views of the training workers."""

from __future__ import annotations

import shlex

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.paging import paginate_by_keyset
from webapp.runs.models import TrainingJob, TrainingState
from webapp.workers import registration
from webapp.workers import worker_lines as people

PART = "workers"
PAGE = 25


@require_scope("read")
@require_safe
@never_cache
def list_workers(request: HttpRequest) -> HttpResponse:
    """Show current workers, live; former ones by page; how to start one; training on this machine."""
    lines = people.list_current_lines()
    context = {
        "lines": lines,
        "shown": people.SHOWN,
        "counts": {state: sum(line.state == state for line in lines) for state in ("working", "idle", "lost")},
        "waiting": TrainingJob.objects.filter(state=TrainingState.QUEUED).order_by()[: people.SHOWN].count(),
    }
    if wants_fragment(request, PART):
        return render_fragment(request, "workers/list.html", context)
    page = paginate_by_keyset(request, registration.former_workers(), size=PAGE)
    more = {"page": page, "gone": people.build_worker_lines(page.rows), "command": _build_command(request)}
    return render(request, "workers/list.html", context | more)


def _build_command(request: HttpRequest) -> str:
    """Return the shell command that starts a worker on another machine."""
    url = shlex.quote(request.build_absolute_uri("/").rstrip("/"))
    lines = [
        "pip install '.[train]'",
        f"python -m training.worker --url {url}",
        "  --token-file token.txt --home ~/envarium-work --models ~/models",
    ]
    return f"{lines[0]}\n{lines[1]} \\\n{lines[2]}"
