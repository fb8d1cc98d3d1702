"""Pages on themes that people type, on near-duplicates, and on what became of each source."""

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
from webapp.accounts.access import CAPPED_ROLES, access
from webapp.endpoints.queries import choices
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.taxonomy.forms import GroupingForm, ThemeForm
from webapp.taxonomy.models import Decision, Theme, ThemeSource
from webapp.taxonomy.near_duplicates import queries, services
from webapp.taxonomy.near_duplicates.schemas import EXAMPLE
from webapp.taxonomy.near_duplicates.services import MOST_ASKED, start_grouping
from webapp.taxonomy.near_duplicates.theme_judge import VECTORS_ALONE, judge_of_role
from webapp.taxonomy.queries import first_level_names
from webapp.taxonomy.theme_services import save_typed

GROUPS = 20
USUAL = StageSettings().duplicate_at
MOST_WRONG = f"A judge is asked about 1 to {MOST_PAIRS:,} pairs."


@access("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
def new_theme(request: HttpRequest) -> HttpResponse:
    form = ThemeForm(request.POST) if request.method == "POST" else ThemeForm()
    if request.method == "POST" and form.is_valid():
        typed = form.cleaned_data
        try:
            saved, row = save_typed(request.user, typed["name"], typed["description"], typed["category"])
        except InputError as error:
            form.add_error(None, str(error))
        else:
            words = f"{row.name} is kept." if saved == "created" else "This theme is here already, word for word."
            messages.success(request, words)
            return redirect("taxonomy:theme", row.pk)
    body = EXAMPLE
    if request.method == "POST":
        body = {name: str(request.POST.get(name, ""))[:2_000] for name in EXAMPLE}
    call = api_call(request, "POST", "api:create_theme", body=body)
    context = {"form": form, "labels": first_level_names(), "copy_as": call}
    return render(request, "taxonomy/new_theme.html", context, status=422 if form.errors else 200)


@access("read")
@require_safe
def duplicates(request: HttpRequest) -> HttpResponse:
    """Groups of near-duplicates, the largest first; what other thresholds would fold; decisions with their undo."""
    grouping = queries.groupings().order_by("-pk").first()
    text = Params(request.GET).search_text("q")
    page = keyset(request, queries.kept_themes(text), "-duplicates", GROUPS)
    threshold = grouping.threshold if grouping is not None else USUAL
    context = {
        "grouping": grouping,
        "threshold": threshold,
        "floor": FLOOR,
        "models": choices(),
        "judge": VECTORS_ALONE if getattr(request.user, "role", "") in CAPPED_ROLES else judge_of_role(),
        "most": MOST_ASKED,
        "any_themes": Theme.objects.exists(),
        "page": page,
        "text": text,
        "groups": queries.with_members(page.rows),
        "decisions": list(queries.decisions().order_by("-pk")[: queries.DECISIONS]),
        "job": queries.open_job(),
        "copy_as": api_call(request, "POST", "api:group_themes", body={"threshold": threshold}),
    }
    return render(request, "taxonomy/duplicates.html", context)


@access("read")
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """How far the grouping is that runs; once it has ended, where its result is."""
    return render(request, "taxonomy/duplicates/job.html", {"job": queries.open_job(), "ended": True})


@access("synthesise")
@require_POST
def group(request: HttpRequest) -> HttpResponse:
    """Start a grouping of all themes."""
    form = GroupingForm(request.POST)
    try:
        if not form.is_valid():
            fault = f"A threshold is a number between {FLOOR:g} and 1." if "threshold" in form.errors else MOST_WRONG
            raise InputError(f"{fault} Nothing was grouped.")
        given = form.cleaned_data
        job = start_grouping(
            request.user, given["threshold"], given["model"], given["judge"], given["most"] or MOST_ASKED
        )
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Job {job.pk} groups the themes. This page shows its result in a moment.")
    return redirect("taxonomy:duplicates")


@access("review")
@require_POST
def keep_apart(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Theme, pk=pk)
    return _answer_decision(request, lambda: services.keep_apart(pk, request.user))


@access("review")
@require_POST
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Theme, pk=pk)
    return _answer_decision(request, lambda: services.choose(pk, request.user), pk)


@access("review")
@require_POST
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Decision, pk=pk)
    return _answer_decision(request, lambda: services.undo(pk, request.user))


def _answer_decision(request: HttpRequest, act: Callable[[], Decision], kept: int = 0) -> HttpResponse:
    """Decide, and return to the page and the group that the decision came from; if that group is gone, to the next.

    `kept` is the theme that the group is named after from now on.
    """
    try:
        made = act()
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{made.words}. It can be undone under Near-duplicates, Decisions.")
    params = Params(request.POST)
    back = params.text("back", 2_000)
    if not url_has_allowed_host_and_scheme(back, None):
        back = reverse("taxonomy:duplicates")
    groups = [kept, params.id("group"), params.id("next")]
    there = set(Theme.objects.filter(pk__in=[pk for pk in groups if pk], duplicates__gt=0).values_list("pk", flat=True))
    group = next((pk for pk in groups if pk in there), None)
    return redirect(f"{back}#group-{group}" if group else back)


@access("read")
@require_safe
def sources(request: HttpRequest) -> HttpResponse:
    """What became of each source: judged, kept, rejected by reason, folded as duplicates."""
    page = keyset(request, queries.sources(), "-id")
    context: dict[str, Any] = {"page": page, "rows": queries.retention(page.rows)}
    context["copy_as"] = api_call(request, "GET", "api:list_theme_sources")
    return render(request, "taxonomy/sources.html", context)


@access("read")
@require_safe
def source(request: HttpRequest, pk: int) -> HttpResponse:
    """The judged texts of one source, `?reason=` those with this reason (`kept`: those that became themes)."""
    row = get_object_or_404(ThemeSource, pk=pk)
    retention = queries.retention([row])[0]
    reason = Params(request.GET).text("reason", 64)
    wanted = None if not reason else "" if reason == "kept" else reason
    page = keyset(request, queries.judged_texts(row, wanted), "-id")
    return render(request, "taxonomy/source.html", {"row": row, "found": retention, "reason": reason, "page": page})
