"""Labelling over the API: sessions, reservations, labels, disputes and what settles them."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.labelling import adjudication, answers, discussions, reservations, sessions
from webapp.labelling.models import (
    Discussion,
    LabelItem,
    LabelRound,
    LabelSession,
    Post,
    Reservation,
    SessionKind,
)
from webapp.labelling.outcome.effects import apply_outcome
from webapp.labelling.outcome.outcomes import Outcome, compute_outcome
from webapp.labelling.proposals import services as proposals
from webapp.labelling.schemas import (
    AskAgainIn,
    CarryOutIn,
    DisputeOut,
    GuidelineIn,
    GuidelineOut,
    LabelIn,
    LabelOut,
    LabelQuery,
    LabelRoundOut,
    LabelSessionIn,
    LabelSessionLine,
    LabelSessionOut,
    LabelSessionQuery,
    NextReservationOut,
    OutcomeOut,
    PostIn,
    PostOut,
    ProposalIn,
    ProposalOut,
    ReservationOut,
    ReservationTimeIn,
    SettlementIn,
    SettlementOut,
)
from webapp.labelling.visibility import shown_labels
from webapp.taxonomy.changes.queries import list_changes
from webapp.taxonomy.changes.schemas import TreeChangeOut

router = Router(tags=["labelling"])


def _get_session_or_404(pk: int) -> LabelSession:
    return get_object_or_404(LabelSession.objects.prefetch_related("members", "rounds"), pk=pk)


def _serialize_session(row: LabelSession) -> dict[str, Any]:
    newest = sessions.newest_guideline(row)
    return {
        **vars(row), "members": sorted(one.username for one in row.members.all()), "guideline": newest.text,
        "guideline_version": newest.number, "rounds": list(row.rounds.order_by("number")),
    }  # fmt: skip


@router.get("/label-sessions", auth=require_scope("read"), response=PageOf[LabelSessionLine])
def list_label_sessions(request: HttpRequest, query: Query[LabelSessionQuery]) -> Any:
    """Labelling sessions, newest first."""
    rows = LabelSession.objects.defer("tree")
    for name in ("kind", "state"):
        if wanted := getattr(query, name):
            rows = rows.filter(**{name: wanted})
    return cursor_page(rows, query)


@router.get("/label-sessions/{pk}", auth=require_scope("read"), response=LabelSessionOut)
def get_label_session(request: HttpRequest, pk: Id) -> Any:
    """One session with its frozen tree, its guideline and its rounds."""
    return _serialize_session(_get_session_or_404(pk))


@router.post("/label-sessions", auth=require_scope("review"), response={201: LabelSessionOut})
@idempotent
def create_label_session(request: HttpRequest, wish: LabelSessionIn) -> Any:
    """Freeze what is asked and open the first round. Annotators may not."""
    values = wish.model_dump()
    values |= {name: tuple(values[name]) for name in ("nodes", "labels", "known", "members")}
    return Status(
        201, _serialize_session(sessions.open_session(get_acting_user(request), sessions.SessionSettings(**values)))
    )


@router.post("/label-sessions/{pk}/close", auth=require_scope("review"), response=LabelRoundOut)
def close_label_round(request: HttpRequest, pk: Id) -> LabelRound:
    """Close the open round, complete or not. Annotators may not."""
    return sessions.close_round(get_acting_user(request), pk)


@router.post("/label-sessions/{pk}/rounds", auth=require_scope("review"), response={201: LabelRoundOut})
@idempotent
def ask_items_again(request: HttpRequest, pk: Id, wish: AskAgainIn) -> Any:
    """Ask items once more after people discussed them; earlier labels are kept. Annotators may not."""
    return Status(201, sessions.ask_again(get_acting_user(request), pk, wish.items))


@router.post("/label-sessions/{pk}/guidelines", auth=require_scope("review"), response={201: GuidelineOut})
@idempotent
def create_guideline(request: HttpRequest, pk: Id, wish: GuidelineIn) -> Any:
    """Write the next version of the guideline; 409 if another one was written since `seen`. Annotators may not."""
    return Status(201, sessions.change_guideline(get_acting_user(request), pk, wish.text, seen=wish.seen))


@router.post("/label-sessions/{pk}/next", auth=require_scope("review"), response=NextReservationOut)
def reserve_next_item(request: HttpRequest, pk: Id) -> Any:
    """Reserve the caller's next item; one that they hold already comes first."""
    return {"reservation": reservations.pull_next(get_acting_user(request), _get_session_or_404(pk))}


@router.get("/label-sessions/{pk}/labels", auth=require_scope("read"), response=PageOf[LabelOut])
def list_labels(request: HttpRequest, pk: Id, query: Query[LabelQuery]) -> Any:
    """Labels of closed rounds, newest first; of the open round the caller's own."""
    rows = shown_labels(get_acting_user(request), _get_session_or_404(pk))
    return cursor_page(rows.filter(item=query.item) if query.item else rows, query)


@router.get("/label-sessions/{pk}/disputes", auth=require_scope("read"), response=list[DisputeOut])
def list_disputes(request: HttpRequest, pk: Id) -> Any:
    """Disputed items of closed rounds, the most disagreement first; at most 2,000."""
    return [
        {
            "item_id": one.item.pk, "name": one.item.name, "disagreement": one.distance,
            "labels": [*one.labels, *one.judges], "settlement": one.settlement,
        }
        for one in adjudication.list_disputes(_get_session_or_404(pk))
    ]  # fmt: skip


@router.post("/label-sessions/{pk}/proposals", auth=require_scope("review"), response={202: ProposalOut})
@idempotent
def propose_labels(request: HttpRequest, pk: Id, wish: ProposalIn) -> Any:
    """Ask a model about the newest round; its labels are hidden until that is closed, and never count."""
    return Status(202, proposals.start_proposals(get_acting_user(request), _get_session_or_404(pk), wish.model))


@router.get("/label-sessions/{pk}/result", auth=require_scope("read"), response=OutcomeOut)
def get_label_session_result(request: HttpRequest, pk: Id) -> Outcome:
    """The changes that the settled items make to the tree."""
    return compute_outcome(_get_session_or_404(pk))


@router.post("/label-sessions/{pk}/carry-out", auth=require_scope("review"), response={201: TreeChangeOut})
@idempotent
def carry_out_label_session(request: HttpRequest, pk: Id, wish: CarryOutIn) -> Any:
    """Make the tree what the session settled, in one change, which can be undone at /tree-changes; 412 if the tree
    was changed since `serial`. Adjudicators alone may."""
    made = apply_outcome(get_acting_user(request), pk, seen=wish.serial, why=wish.why)
    return Status(201, list_changes().get(pk=made.pk))


@router.post("/label-sessions/{pk}/settle-agreed", auth=require_scope("review"), response=LabelSessionLine)
def settle_agreed_items(request: HttpRequest, pk: Id) -> LabelSession:
    """Settle the items on which all people agree. Adjudicators alone may."""
    adjudication.settle_agreed_items(get_acting_user(request), pk)
    return _get_session_or_404(pk)


def _get_reservation_or_404(request: HttpRequest, pk: int) -> Reservation:
    rows = Reservation.objects.select_related("ask__item", "round")
    return get_object_or_404(rows, pk=pk, user=get_acting_user(request))


@router.get("/label-reservations/{pk}", auth=require_scope("review"), response=ReservationOut)
def get_reservation(request: HttpRequest, pk: Id) -> Reservation:
    """One of the caller's own reservations."""
    return _get_reservation_or_404(request, pk)


@router.post("/label-reservations/{pk}/heartbeat", auth=require_scope("review"), response=ReservationOut)
def keep_reservation(request: HttpRequest, pk: Id, wish: ReservationTimeIn) -> Reservation:
    """Keep an item for another lease; 409 if it is held no more."""
    return reservations.extend_reservation(get_acting_user(request), pk, wish.seconds)


@router.post("/label-reservations/{pk}/skip", auth=require_scope("review"), response=ReservationOut)
def skip_reservation(request: HttpRequest, pk: Id) -> Reservation:
    """Leave the item to others, and do not offer it to the caller again."""
    return reservations.skip_item(get_acting_user(request), pk)


@router.post("/label-reservations/{pk}/give-back", auth=require_scope("review"), response=ReservationOut)
def give_back_reservation(request: HttpRequest, pk: Id) -> Reservation:
    """Leave the item to others; it may come back."""
    return reservations.give_back_item(get_acting_user(request), pk)


def _build_choice(item: LabelItem, wish: LabelIn | SettlementIn, **more: Any) -> answers.LabelChoice:
    merges = item.session.kind == SessionKind.MERGE
    groups = [group.model_dump() for group in wish.groups] if wish.groups is not None else None
    placing = None if merges else answers.Placing(wish.node, getattr(wish, "second", None))
    return answers.LabelChoice(placing=placing, groups=groups, **more)


@router.post("/label-reservations/{pk}/label", auth=require_scope("review"), response={201: LabelOut})
@idempotent
def submit_label(request: HttpRequest, pk: Id, wish: LabelIn) -> Any:
    """Submit a label for the item that is held."""
    item = LabelItem.objects.select_related("session").get(pk=_get_reservation_or_404(request, pk).ask.item_id)
    given = _build_choice(
        item, wish, confidence=wish.confidence, comment=wish.comment, guideline=wish.guideline, seconds=wish.seconds
    )
    return Status(201, answers.submit_label(get_acting_user(request), pk, given))


@router.post("/labels/{pk}/undo", auth=require_scope("review"), response=ReservationOut)
def undo_label(request: HttpRequest, pk: Id) -> Reservation:
    """Take one's own label back while its round is open; the item is held again."""
    return answers.undo_label(get_acting_user(request), pk)


def _get_item_or_404(pk: int) -> LabelItem:
    return get_object_or_404(LabelItem.objects.select_related("session"), pk=pk)


@router.put("/label-items/{pk}/settlement", auth=require_scope("review"), response=SettlementOut)
def settle_item(request: HttpRequest, pk: Id, wish: SettlementIn) -> Any:
    """Say what becomes of an item, once its round is closed. Adjudicators alone may."""
    item = _get_item_or_404(pk)
    if wish.label is not None:
        return adjudication.settle_with_label(get_acting_user(request), pk, wish.label, wish.words)
    return adjudication.settle_item(get_acting_user(request), pk, _build_choice(item, wish, comment=wish.words))


@router.delete("/label-items/{pk}/settlement", auth=require_scope("review"), response={204: None})
def unsettle_item(request: HttpRequest, pk: Id) -> Any:
    """Open an item again. Adjudicators alone may."""
    adjudication.unsettle_item(get_acting_user(request), pk)
    return Status(204, None)


@router.get("/label-items/{pk}/posts", auth=require_scope("read"), response=list[PostOut])
def list_posts(request: HttpRequest, pk: Id) -> Any:
    """The posts of an item's discussions, oldest first."""
    rows = Post.objects.filter(discussion__item=_get_item_or_404(pk)).select_related("discussion", "user")
    return rows.order_by("id")[: discussions.MOST_POSTS]


@router.post("/label-items/{pk}/posts", auth=require_scope("review"), response={201: PostOut})
@idempotent
def create_post(request: HttpRequest, pk: Id, wish: PostIn) -> Any:
    """Write in an item's discussion; who may open and close sessions opens it so."""
    with transaction.atomic():
        thread = Discussion.objects.filter(item=_get_item_or_404(pk), topic=wish.topic).first()
        if thread is None:
            thread = discussions.open_discussion(get_acting_user(request), pk, wish.topic)
        return Status(201, discussions.add_post(get_acting_user(request), thread.pk, wish.text))
