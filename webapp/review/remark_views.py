"""Views of remarks: those of an object, a new one, and one that is dealt with."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from synthesis.errors import InputError
from webapp.accounts.access import ADJUDICATORS, access, may
from webapp.errors import NotFound
from webapp.htmx import wants_fragment
from webapp.query_params import MOST_TEXT, Params
from webapp.review import remarks as services
from webapp.review.decision_views import require_kind
from webapp.review.desk import remarks_of
from webapp.review.models import RemarkKind
from webapp.review.places import linked_places
from webapp.review.subjects import require_subject, subject_page


@access("read")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def remarks(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """The remarks on an object, as a part of its page; POST adds one."""
    require_subject(require_kind(kind), pk)
    params, problem, status = Params(request.POST), "", 200
    if request.method == "POST":
        if not may(request.user, "review"):
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
                return redirect(f"{subject_page(kind, pk)}#remarks")
    context = {
        "kind": kind,
        "subject_pk": pk,
        "remarks": [(row, linked_places(kind, pk, [row.place] if row.place else [])) for row in remarks_of(kind, pk)],
        "remark_kinds": RemarkKind.choices,
        "is_adjudicator": getattr(request.user, "role", "") in ADJUDICATORS,
        "problem": problem,
        "filled": {name: params.text(name, MOST_TEXT) if problem else "" for name in ("text", "place", "remark")},
    }
    template = "review/remarks_part.html" if wants_fragment(request) else "review/remarks.html"
    return render(request, template, context, status=200 if wants_fragment(request) else status)


@access("review")
@require_POST
def resolve(request: HttpRequest, pk: int) -> HttpResponse:
    """Say that a remark is dealt with, or open it again."""
    row = services.resolve_remark(request.user, pk, dealt_with=Params(request.POST).flag("dealt_with"))
    return redirect("review:remarks", row.kind, row.subject_id)
