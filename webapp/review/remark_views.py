"""Views of remarks: those of an object, a new one, and a resolved one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from synthesis.errors import InputError
from webapp.accounts.access import ADJUDICATORS, has_scope, require_scope
from webapp.common.errors import NotFound
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.query_params import MOST_TEXT, Params
from webapp.review import remarks as services
from webapp.review.decision_views import require_kind
from webapp.review.desk import list_remarks
from webapp.review.models import RemarkKind
from webapp.review.places import link_places
from webapp.review.subjects import build_subject_url, require_subject


@require_scope("read")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def show_remarks(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Show the remarks on an object, as a part of its page; POST adds one."""
    require_subject(require_kind(kind), pk)
    params, problem, status = Params(request.POST), "", 200
    if request.method == "POST":
        if not has_scope(request.user, "review"):
            return render(request, "403.html", {"scope": "review"}, status=403)
        try:
            services.add_remark(
                request.user,
                kind,
                pk,
                params.text("remark", 8),
                params.text("text", MOST_TEXT),
                params.text("place", MOST_TEXT),
            )
        except NotFound:
            raise
        except InputError as error:
            problem, status = str(error), 422
        else:
            if not wants_fragment(request):
                return redirect(f"{build_subject_url(kind, pk)}#remarks")
    context = {
        "kind": kind,
        "subject_pk": pk,
        "remarks": [(row, link_places(kind, pk, [row.place] if row.place else [])) for row in list_remarks(kind, pk)],
        "remark_kinds": RemarkKind.choices,
        "is_adjudicator": getattr(request.user, "role", "") in ADJUDICATORS,
        "problem": problem,
        "filled": {name: params.text(name, MOST_TEXT) if problem else "" for name in ("text", "place", "remark")},
    }
    if wants_fragment(request):
        return render_fragment(request, "review/remarks.html", context)
    return render(request, "review/remarks.html", context, status=status)


@require_scope("review")
@require_POST
def resolve_remark(request: HttpRequest, pk: int) -> HttpResponse:
    """Resolve a remark, or reopen it."""
    row = services.resolve_remark(request.user, pk, dealt_with=Params(request.POST).flag("dealt_with"))
    return redirect("review:remarks", row.kind, row.subject_id)
