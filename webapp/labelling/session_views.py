"""Views of sessions: the list, a new one with a preview of its items, its progress, its guideline and its rounds."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q, Subquery
from django.db.models.functions import Least
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.error_responses import to_http_terms
from webapp.common.leases import AssignmentState
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_list_call
from webapp.common.rest.idempotency import compute_fingerprint, run_form_once
from webapp.common.templatetags.show import counted
from webapp.endpoints.queries import list_model_choices
from webapp.environments.text_difference import BoundedMatcher, DiffBudget
from webapp.labelling import sessions
from webapp.labelling.forms import FORMS, PlaceForm, SessionForm
from webapp.labelling.frozen import describe_items
from webapp.labelling.models import Guideline, LabelItem, LabelSession, SessionKind, SessionState
from webapp.labelling.progress import compute_round_progress
from webapp.labelling.proposals import services as proposals
from webapp.labelling.reservations import find_open_round, free_asks, unskip_items
from webapp.labelling.rights import may_adjudicate, may_label
from webapp.labelling.schemas import LabelSessionQuery
from webapp.labelling.session_lists import SESSIONS, session_filters
from webapp.labelling.visibility import can_see_known_answers
from webapp.review.queues import can_edit

ITEMS_SHOWN = 50
PREVIEWED = 12
KNOWN_OFFERED = 500
VERSIONS_SHOWN = 30


def get_session_or_404(pk: int) -> LabelSession:
    whose = ("created_by", "change__by", "change__undone_by__by")
    rows = LabelSession.objects.select_related(*whose).prefetch_related("members").defer("tree", "change__delta")
    return get_object_or_404(rows, pk=pk)


@require_scope("read")
@require_safe
@never_cache
def list_sessions(request: HttpRequest) -> HttpResponse:
    """List all sessions, and mark those in which the user can label now."""
    listing_query = parse_list_query(SESSIONS, session_filters(request.user), request.GET)
    rows = LabelSession.objects.select_related("created_by").prefetch_related("members").defer("tree")
    page = paginate_by_keyset(request, listing_query.narrow(rows), listing_query.order)
    context = {
        "page": page,
        "asked": listing_query,
        "list": build_filtered_list(request, listing_query, page),
        "labels_in": {row.pk for row in page.rows if row.state == SessionState.OPEN and may_label(request.user, row)},
        "may_edit": can_edit(request.user),
        "copy_as": build_list_call(request, "api:list_label_sessions", LabelSessionQuery),
    }
    return render(request, "labelling/list.html", context)


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def create_session(request: HttpRequest, kind: str) -> HttpResponse:
    """Show the form of a new session, preview it (`look`), or open it."""
    if kind not in FORMS:
        raise Http404
    form = FORMS[kind](request.POST if request.method == "POST" else None, query=request.GET)
    preview = None
    if form.is_bound and form.is_valid():
        try:
            if "look" in request.POST:
                preview = sessions.preview_session(form.settings())
                if isinstance(form, PlaceForm):
                    form.offer_known({one.key: one.name for one in preview.items[:KNOWN_OFFERED] if one.node})
            else:
                return _open_session(request, form)
        except InputError as error:
            form.add_error(None, str(error))
    context = {
        "form": form,
        "kind": SessionKind(kind),
        "may_edit": can_edit(request.user),
        "preview": preview,
        "shown": preview.items[:PREVIEWED] if preview else (),
        "answers": preview.answers(form.settings()) if preview else 0,
    }
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "labelling/new.html", context, status=status)


def _open_session(request: HttpRequest, form: SessionForm) -> HttpResponse:
    def make_session() -> str:
        return str(sessions.open_session(request.user, form.settings()).pk)

    made, now = run_form_once(request.user, f"label-session-{compute_fingerprint(request)}", make_session)
    words = "The session is open." if now else "This form was sent before; here is its session."
    messages.success(request, words)
    return redirect("labelling:session", int(made))


@require_scope("read")
@require_safe
@never_cache
def show_session(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one session: the progress of each round and person, what is stuck, and its items."""
    row = get_session_or_404(pk)
    user: Any = request.user
    open_round = find_open_round(row)
    sees_known = can_see_known_answers(user, row)
    takes_part = open_round is not None and may_label(user, row)
    page = paginate_by_keyset(request, _list_items(row), "position", ITEMS_SHOWN)
    texts = describe_items(page.rows)
    context = {
        "session": row,
        "items": [(one, texts[one.pk]) for one in page.rows],
        "open_round": open_round,
        "rounds": [
            compute_round_progress(row, one, known_answers=sees_known) for one in row.rounds.order_by("-number")
        ],
        "guideline": sessions.newest_guideline(row),
        "takes_part": takes_part,
        "left": free_asks(user, open_round).count() if takes_part and open_round is not None else 0,
        "holds": _count_own_reservations(row, user, AssignmentState.HELD),
        "skipped": _count_own_reservations(row, user, AssignmentState.SKIPPED),
        "known_answers": sees_known,
        "may_edit": can_edit(user),
        "adjudicates": may_adjudicate(user),
        "may": may_adjudicate(user),
        "change": row.change,
        "members": sorted(row.members.all(), key=lambda one: one.username),
        "page": page,
        "models": list_model_choices() if can_edit(user) else [],
        "proposing": proposals.find_proposal_job(row),
    }
    return render(request, "labelling/session.html", context)


def _list_items(row: LabelSession) -> Any:
    """Return its items with how many people answered each in its newest round; of known answers no more than of
    others."""
    newest = row.rounds.order_by("-number").values("pk")[:1]
    standing = Q(labels__undone_at__isnull=True, labels__user__isnull=False, labels__round=Subquery(newest))
    items = LabelItem.objects.filter(session=row).defer("content").select_related("settlement__by")
    return items.annotate(answers=Least(Count("labels", filter=standing), row.overlap)).order_by("position")


def _count_own_reservations(row: LabelSession, user: Any, state: str) -> int:
    rounds = row.rounds.filter(is_open=True)
    return rounds.filter(asks__reservations__user=user, asks__reservations__state=state).count()


@require_scope("review")
@require_POST
def close_round(request: HttpRequest, pk: int) -> HttpResponse:
    """Close the open round, complete or not."""
    try:
        closed_round = sessions.close_round(request.user, pk)
    except InputError as error:
        messages.error(request, str(error))
        return redirect("labelling:session", pk)
    early = f" with {counted(closed_round.missing, 'answer')} fewer than asked for" if closed_round.missing else ""
    messages.success(request, f"Round {closed_round.number} is closed{early}. Its labels can be seen now.")
    return redirect("labelling:session", pk)


@require_scope("review")
@require_POST
def ask_items_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the chosen items once more, in a further round."""
    try:
        new_round = sessions.ask_again(request.user, pk, Params(request.POST).picks("item", sessions.MOST_ASKED))
    except InputError as error:
        messages.error(request, str(error))
        return redirect("labelling:adjudication", pk)
    messages.success(request, f"Round {new_round.number} is open; what was said before is kept.")
    return redirect("labelling:session", pk)


@require_scope("review")
@require_POST
def unskip_session_items(request: HttpRequest, pk: int) -> HttpResponse:
    """Offer the person again what they skipped."""
    try:
        number = unskip_items(request.user, get_session_or_404(pk))
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{number} skipped items are offered to you again.")
    return redirect("labelling:session", pk)


@require_scope("review")
@require_POST
def ask_model(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask a model about the newest round, as an annotator whose labels are hidden and do not count."""
    try:
        job = proposals.start_proposals(request.user, get_session_or_404(pk), Params(request.POST).text("model", 400))
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Job {job.pk} asks the model. Its labels are hidden until the round is closed.")
    return redirect("labelling:session", pk)


@require_scope("read")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def edit_guideline(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the guideline's versions, the changes between them, and the form of the next."""
    row = get_session_or_404(pk)
    refused, text = "", None
    if request.method == "POST":
        params = Params(request.POST)
        text = params.text("text", sessions.GUIDELINE_CHARS + 1)
        try:
            new_version = sessions.change_guideline(request.user, pk, text, seen=params.number("seen") or 0)
        except InputError as error:
            refused = str(error)
            status = to_http_terms(error).status
        else:
            messages.success(request, f"Version {new_version.number} of the guideline holds from now on.")
            return redirect("labelling:guideline", pk)
    versions = list(row.guidelines.select_related("by").order_by("-number")[: VERSIONS_SHOWN + 1])
    budget, shown_versions = DiffBudget(), versions[:VERSIONS_SHOWN]
    pairs = [(one, diff_guidelines(before, one, budget)) for one, before in zip_longest(shown_versions, versions[1:])]
    context = {
        "session": row, "versions": pairs, "newest": versions[0], "refused": refused,
        "older": len(versions) > len(shown_versions), "may_edit": can_edit(request.user),
        "text": versions[0].text if text is None else text,
    }  # fmt: skip
    return render(request, "labelling/guideline.html", context, status=status if refused else 200)


def diff_guidelines(before: Guideline | None, after: Guideline, budget: DiffBudget) -> list[tuple[str, str]]:
    """Return lines that a version added ("added"), removed ("removed") or kept ("same"), as many as a page shows."""
    if before is None:
        return []
    old, new = before.text.splitlines(), after.text.splitlines()
    diff_lines: list[tuple[str, str]] = []
    for tag, left, left_end, right, right_end in BoundedMatcher(old, new, budget, autojunk=False).get_opcodes():
        if tag == "equal":
            diff_lines += [("same", line) for line in old[left:left_end]]
            continue
        diff_lines += [("removed", line) for line in old[left:left_end]]
        diff_lines += [("added", line) for line in new[right:right_end]]
    shown_lines = diff_lines[: budget.rows]
    budget.rows -= len(shown_lines)
    left = len(diff_lines) - len(shown_lines)
    return shown_lines + ([("same", f"… (lines that are not shown: {left:,})")] if left else [])
