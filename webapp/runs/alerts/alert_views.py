"""Views of alerts: all of them with the rules, and muting one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import require_scope
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.runs.alerts import page, services
from webapp.runs.alerts.rules import RULES


@require_scope("read")
@require_safe
@never_cache
def list_alerts(request: HttpRequest) -> HttpResponse:
    """Show alerts of all jobs, newest first, and every rule with its thresholds."""
    which = Params(request.GET).choice("which", ("open", "all"), "open")
    rows = paginate_by_keyset(request, page.filter_alerts(which == "open"))
    lines = [page.to_alert_line(alert) for alert in rows.rows]
    return render(request, "runs/alerts.html", {"page": rows, "lines": lines, "rules": RULES, "which": which})


@require_scope("train")
@require_POST
def mute_alert(request: HttpRequest, pk: int) -> HttpResponse:
    """Mute an alert, or (`on`) unmute it."""
    alert = services.set_alert_muted(request.user, pk, "on" not in request.POST)
    back = request.POST.get("back", "")
    if url_has_allowed_host_and_scheme(back, {request.get_host()}):
        return redirect(back)
    return redirect("runs:job", alert.job.public_id)
