"""Views of sessions: the list, a new one with what it would ask, its progress, its guideline and its rounds."""

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
from webapp.accounts.access import access
from webapp.endpoints.queries import choices
from webapp.environments.text_difference import BoundedMatcher, DiffBudget
from webapp.error_responses import http_terms
from webapp.labelling import sessions
from webapp.labelling.forms import FORMS, PlaceForm, SessionForm
from webapp.labelling.frozen import item_texts
from webapp.labelling.models import Guideline, LabelItem, LabelSession, SessionKind, SessionState
from webapp.labelling.progress import round_progress
from webapp.labelling.proposals import services as proposals
from webapp.labelling.reservations import free_asks, open_round_of, unskip
from webapp.labelling.rights import may_adjudicate, may_label
from webapp.labelling.schemas import LabelSessionQuery
from webapp.labelling.session_lists import SESSIONS, session_filters
from webapp.labelling.visibility import sees_known_answers
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import list_call
from webapp.rest.idempotency import fingerprint, once
from webapp.review.models import AssignmentState
from webapp.review.queues import may_edit
from webapp.templatetags.show import counted

ITEMS_SHOWN = 50
PREVIEWED = 12
KNOWN_OFFERED = 500
VERSIONS_SHOWN = 30


def find_session(pk: int) -> LabelSession:
    whose = ("created_by", "change__by", "change__undone_by__by")
    rows = LabelSession.objects.select_related(*whose).prefetch_related("members").defer("tree", "change__delta")
    return get_object_or_404(rows, pk=pk)


@access("read")
@require_safe
@never_cache
def listing(request: HttpRequest) -> HttpResponse:
    """Every session, and which of them the person can label in now."""
    asked = list_query(SESSIONS, session_filters(request.user), request.GET)
    rows = LabelSession.objects.select_related("created_by").prefetch_related("members").defer("tree")
    page = keyset(request, asked.narrow(rows), asked.order)
    context = {
        "page": page,
        "asked": asked,
        "list": asked_list(request, asked, page),
        "labels_in": {row.pk for row in page.rows if row.state == SessionState.OPEN and may_label(request.user, row)},
        "may_edit": may_edit(request.user),
        "copy_as": list_call(request, "api:list_label_sessions", LabelSessionQuery),
    }
    return render(request, "labelling/list.html", context)


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def new(request: HttpRequest, kind: str) -> HttpResponse:
    """The form of a new session, what it would ask (`look`), and its opening."""
    if kind not in FORMS:
        raise Http404
    form = FORMS[kind](request.POST if request.method == "POST" else None, query=request.GET)
    preview = None
    if form.is_bound and form.is_valid():
        try:
            if "look" in request.POST:
                preview = sessions.looked(form.settings())
                if isinstance(form, PlaceForm):
                    form.offer_known({one.key: one.name for one in preview.items[:KNOWN_OFFERED] if one.node})
            else:
                return _opened(request, form)
        except InputError as error:
            form.add_error(None, str(error))
    context = {
        "form": form,
        "kind": SessionKind(kind),
        "may_edit": may_edit(request.user),
        "preview": preview,
        "shown": preview.items[:PREVIEWED] if preview else (),
        "answers": preview.answers(form.settings()) if preview else 0,
    }
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "labelling/new.html", context, status=status)


def _opened(request: HttpRequest, form: SessionForm) -> HttpResponse:
    def make() -> str:
        return str(sessions.open_session(request.user, form.settings()).pk)

    made, now = once(request.user, f"label-session-{fingerprint(request)}", make)
    words = "The session is open." if now else "This form was sent before; here is its session."
    messages.success(request, words)
    return redirect("labelling:session", int(made))


@access("read")
@require_safe
@never_cache
def session(request: HttpRequest, pk: int) -> HttpResponse:
    """One session: how far each round is, who does how much, what is stuck, and its items."""
    row = find_session(pk)
    user: Any = request.user
    found = open_round_of(row)
    known = sees_known_answers(user, row)
    takes_part = found is not None and may_label(user, row)
    page = keyset(request, _items(row), "position", ITEMS_SHOWN)
    texts = item_texts(page.rows)
    context = {
        "session": row,
        "items": [(one, texts[one.pk]) for one in page.rows],
        "open_round": found,
        "rounds": [round_progress(row, one, known_answers=known) for one in row.rounds.order_by("-number")],
        "guideline": sessions.newest_guideline(row),
        "takes_part": takes_part,
        "left": free_asks(user, found).count() if takes_part and found is not None else 0,
        "holds": _own(row, user, AssignmentState.HELD),
        "skipped": _own(row, user, AssignmentState.SKIPPED),
        "known_answers": known,
        "may_edit": may_edit(user),
        "adjudicates": may_adjudicate(user),
        "may": may_adjudicate(user),
        "change": row.change,
        "members": sorted(row.members.all(), key=lambda one: one.username),
        "page": page,
        "models": choices() if may_edit(user) else [],
        "proposing": proposals.proposing(row),
    }
    return render(request, "labelling/session.html", context)


def _items(row: LabelSession) -> Any:
    """Its items with how many people answered each in its newest round; of known answers no more than of others."""
    newest = row.rounds.order_by("-number").values("pk")[:1]
    standing = Q(labels__undone_at__isnull=True, labels__user__isnull=False, labels__round=Subquery(newest))
    items = LabelItem.objects.filter(session=row).defer("content").select_related("settlement__by")
    return items.annotate(answers=Least(Count("labels", filter=standing), row.overlap)).order_by("position")


def _own(row: LabelSession, user: Any, state: str) -> int:
    rounds = row.rounds.filter(is_open=True)
    return rounds.filter(asks__reservations__user=user, asks__reservations__state=state).count()


@access("review")
@require_POST
def close(request: HttpRequest, pk: int) -> HttpResponse:
    """Close the open round, complete or not."""
    try:
        found = sessions.close_round(request.user, pk)
    except InputError as error:
        messages.error(request, str(error))
        return redirect("labelling:session", pk)
    early = f" with {counted(found.missing, 'answer')} fewer than asked for" if found.missing else ""
    messages.success(request, f"Round {found.number} is closed{early}. Its labels can be seen now.")
    return redirect("labelling:session", pk)


@access("review")
@require_POST
def again(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the chosen items once more, in a further round."""
    try:
        found = sessions.ask_again(request.user, pk, Params(request.POST).picks("item", sessions.MOST_ASKED))
    except InputError as error:
        messages.error(request, str(error))
        return redirect("labelling:adjudication", pk)
    messages.success(request, f"Round {found.number} is open; what was said before is kept.")
    return redirect("labelling:session", pk)


@access("review")
@require_POST
def take_up_skipped(request: HttpRequest, pk: int) -> HttpResponse:
    """Offer the person again what they skipped."""
    try:
        number = unskip(request.user, find_session(pk))
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{number} skipped items are offered to you again.")
    return redirect("labelling:session", pk)


@access("review")
@require_POST
def ask_model(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask a model about the newest round, as an annotator whose labels are hidden and do not count."""
    try:
        job = proposals.start(request.user, find_session(pk), Params(request.POST).text("model", 400))
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Job {job.pk} asks the model. Nobody sees its labels before the round is closed.")
    return redirect("labelling:session", pk)


@access("read")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def guideline(request: HttpRequest, pk: int) -> HttpResponse:
    """The guideline's versions, what changed between them, and the form of the next."""
    row = find_session(pk)
    refused, text = "", None
    if request.method == "POST":
        params = Params(request.POST)
        text = params.text("text", sessions.GUIDELINE_CHARS + 1)
        try:
            made = sessions.change_guideline(request.user, pk, text, seen=params.number("seen") or 0)
        except InputError as error:
            refused = str(error)
            status = http_terms(error).status
        else:
            messages.success(request, f"Version {made.number} of the guideline holds from now on.")
            return redirect("labelling:guideline", pk)
    versions = list(row.guidelines.select_related("by").order_by("-number")[: VERSIONS_SHOWN + 1])
    budget, shown = DiffBudget(), versions[:VERSIONS_SHOWN]
    pairs = [(one, changes(before, one, budget)) for one, before in zip_longest(shown, versions[1:])]
    context = {
        "session": row, "versions": pairs, "newest": versions[0], "refused": refused,
        "older": len(versions) > len(shown), "may_edit": may_edit(request.user),
        "text": versions[0].text if text is None else text,
    }  # fmt: skip
    return render(request, "labelling/guideline.html", context, status=status if refused else 200)


def changes(before: Guideline | None, after: Guideline, budget: DiffBudget) -> list[tuple[str, str]]:
    """Lines that a version added ("added"), took away ("removed") or left ("same"), as many as a page shows."""
    if before is None:
        return []
    old, new = before.text.splitlines(), after.text.splitlines()
    found: list[tuple[str, str]] = []
    for tag, left, left_end, right, right_end in BoundedMatcher(old, new, budget, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [("same", line) for line in old[left:left_end]]
            continue
        found += [("removed", line) for line in old[left:left_end]]
        found += [("added", line) for line in new[right:right_end]]
    shown = found[: budget.rows]
    budget.rows -= len(shown)
    left = len(found) - len(shown)
    return shown + ([("same", f"… (lines that are not shown: {left:,})")] if left else [])
