"""Pages on themes that users type, on near-duplicates, and on the results of each source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from synthesis.stages import StageSettings
from synthesis.themes.dedupe import FLOOR
from synthesis.themes.judged_groups import MOST_PAIRS
from webapp.accounts.access import CAPPED_ROLES, require_scope
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.endpoints.queries import list_model_choices
from webapp.taxonomy.forms import GroupingForm, ThemeForm
from webapp.taxonomy.models import Decision, Theme, ThemeSource
from webapp.taxonomy.near_duplicates import queries, services
from webapp.taxonomy.near_duplicates.schemas import EXAMPLE
from webapp.taxonomy.near_duplicates.services import MOST_ASKED, start_grouping
from webapp.taxonomy.near_duplicates.theme_judge import VECTORS_ALONE, get_role_judge
from webapp.taxonomy.queries import first_level_names
from webapp.taxonomy.theme_services import save_typed_theme

GROUPS = 20
USUAL = StageSettings().duplicate_at
MOST_WRONG = f"A judge is asked about 1 to {MOST_PAIRS:,} pairs."


@require_scope("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
def create_theme(request: HttpRequest) -> HttpResponse:
    form = ThemeForm(request.POST) if request.method == "POST" else ThemeForm()
    if request.method == "POST" and form.is_valid():
        typed = form.cleaned_data
        try:
            saved, row = save_typed_theme(request.user, typed["name"], typed["description"], typed["category"])
        except InputError as error:
            form.add_error(None, str(error))
        else:
            words = f"{row.name} is kept." if saved == "created" else "This theme is here already, word for word."
            messages.success(request, words)
            return redirect("taxonomy:theme", row.pk)
    body = EXAMPLE
    if request.method == "POST":
        body = {name: str(request.POST.get(name, ""))[:2_000] for name in EXAMPLE}
    call = build_api_call(request, "POST", "api:create_theme", body=body)
    context = {"form": form, "labels": first_level_names(), "copy_as": call}
    return render(request, "taxonomy/new_theme.html", context, status=422 if form.errors else 200)


@require_scope("read")
@require_safe
def list_duplicates(request: HttpRequest) -> HttpResponse:
    """List groups of near-duplicates, the largest first; what other thresholds would fold; decisions with their
    undo."""
    grouping = queries.list_groupings().order_by("-pk").first()
    text = Params(request.GET).search_text("q")
    page = paginate_by_keyset(request, queries.kept_themes(text), "-duplicates", GROUPS)
    threshold = grouping.threshold if grouping is not None else USUAL
    context = {
        "grouping": grouping,
        "threshold": threshold,
        "floor": FLOOR,
        "models": list_model_choices(),
        "judge": VECTORS_ALONE if getattr(request.user, "role", "") in CAPPED_ROLES else get_role_judge(),
        "most": MOST_ASKED,
        "any_themes": Theme.objects.exists(),
        "page": page,
        "text": text,
        "groups": queries.load_groups(page.rows),
        "decisions": list(queries.list_decisions().order_by("-pk")[: queries.DECISIONS]),
        "job": queries.find_grouping_job(),
        "copy_as": build_api_call(request, "POST", "api:group_themes", body={"threshold": threshold}),
    }
    return render(request, "taxonomy/duplicates.html", context)


@require_scope("read")
@require_safe
def show_grouping_progress(request: HttpRequest) -> HttpResponse:
    """Show the progress of the running grouping; once it has ended, a link to its result."""
    return render(request, "taxonomy/duplicates/job.html", {"job": queries.find_grouping_job(), "ended": True})


@require_scope("synthesise")
@require_POST
def group_themes(request: HttpRequest) -> HttpResponse:
    """Start a grouping of all themes."""
    form = GroupingForm(request.POST)
    try:
        if not form.is_valid():
            fault = f"A threshold is a number between {FLOOR:g} and 1." if "threshold" in form.errors else MOST_WRONG
            raise InputError(f"{fault} Nothing was grouped.")
        settings = form.cleaned_data
        job = start_grouping(
            request.user, settings["threshold"], settings["model"], settings["judge"], settings["most"] or MOST_ASKED
        )
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Job {job.pk} groups the themes. This page shows its result in a moment.")
    return redirect("taxonomy:duplicates")


@require_scope("review")
@require_POST
def keep_theme_apart(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Theme, pk=pk)
    return _answer_decision(request, lambda: services.separate_theme(pk, request.user))


@require_scope("review")
@require_POST
def choose_theme(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Theme, pk=pk)
    return _answer_decision(request, lambda: services.choose_theme(pk, request.user), pk)


@require_scope("review")
@require_POST
def undo_decision(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Decision, pk=pk)
    return _answer_decision(request, lambda: services.undo_decision(pk, request.user))


def _answer_decision(request: HttpRequest, act: Callable[[], Decision], kept: int = 0) -> HttpResponse:
    """Decide, and return to the page and the group that the decision came from; if that group is gone, to the next.

    `kept` is the theme that the group is named after from now on.
    """
    try:
        decision = act()
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{decision.words}. It can be undone under Near-duplicates, Decisions.")
    params = Params(request.POST)
    back = params.text("back", 2_000)
    if not url_has_allowed_host_and_scheme(back, None):
        back = reverse("taxonomy:duplicates")
    groups = [kept, params.id("group"), params.id("next")]
    existing_groups = set(
        Theme.objects.filter(pk__in=[pk for pk in groups if pk], duplicates__gt=0).values_list("pk", flat=True)
    )
    group = next((pk for pk in groups if pk in existing_groups), None)
    return redirect(f"{back}#group-{group}" if group else back)


@require_scope("read")
@require_safe
def list_sources(request: HttpRequest) -> HttpResponse:
    """List the results of each source: judged, kept, rejected by reason, folded as duplicates."""
    page = paginate_by_keyset(request, queries.list_sources(), "-id")
    context: dict[str, Any] = {"page": page, "rows": queries.compute_retention(page.rows)}
    context["copy_as"] = build_api_call(request, "GET", "api:list_theme_sources")
    return render(request, "taxonomy/sources.html", context)


@require_scope("read")
@require_safe
def show_source(request: HttpRequest, pk: int) -> HttpResponse:
    """List the judged texts of one source, `?reason=` those with this reason (`kept`: those that became themes)."""
    row = get_object_or_404(ThemeSource, pk=pk)
    retention = queries.compute_retention([row])[0]
    reason = Params(request.GET).text("reason", 64)
    wanted = None if not reason else "" if reason == "kept" else reason
    page = paginate_by_keyset(request, queries.judged_texts(row, wanted), "-id")
    return render(request, "taxonomy/source.html", {"row": row, "found": retention, "reason": reason, "page": page})
