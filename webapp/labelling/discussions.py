"""Discussions: a thread about one dispute, opened by an adjudicator once a round is closed."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.access import has_scope
from webapp.common.errors import Conflict, NotFound
from webapp.labelling.models import Discussion, LabelItem, LabelSession, Post, SessionKind
from webapp.labelling.reservations import find_open_round
from webapp.labelling.rights import may_label, require_editor
from webapp.labelling.sessions import lock_session
from webapp.review.queues import can_edit

POST_CHARS = 4_000
MOST_POSTS = 500


def require_no_open_round(session: LabelSession) -> None:
    """Raise Conflict while a round is open: a post would reveal labels to people who still label."""
    if find_open_round(session) is not None:
        raise Conflict("People label now, blindly. Discussions go on once the round is closed.", code="round_open")


def may_post(user: Any, session: LabelSession) -> bool:
    """Return whether a user may post: those who label, and those who may open and close sessions."""
    return may_label(user, session) or (has_scope(user, "review") and can_edit(user))


@transaction.atomic
def open_discussion(user: Any, pk: int, topic: str = "") -> Discussion:
    """Open the thread about an item, or of a list about two of its labels ("12-15"); return an existing one.

    Raises NotFound; InputError: no such labels; Conflict: a round is open, or the user may not.
    """
    require_editor(user)
    item = LabelItem.objects.filter(pk=pk).first()
    if item is None:
        raise NotFound("There is no such item.")
    session = lock_session(item.session_id)
    require_no_open_round(session)
    about = _clean_topic(session, item, topic)
    row, _ = Discussion.objects.get_or_create(item=item, topic=about, defaults={"by": user})
    return row


def _clean_topic(session: LabelSession, item: LabelItem, topic: str) -> str:
    if not topic:
        return ""
    parts = topic.split("-")
    known = {str(label["id"]) for label in item.content.get("labels", [])}
    if session.kind != SessionKind.MERGE or not 1 <= len(parts) <= 2 or not set(parts) <= known:
        raise InputError("Name one or two labels of the list, by their ids with - between them.")
    return "-".join(sorted(set(parts), key=int))


def describe_topic(item: LabelItem, topic: str) -> str:
    """Return the topic of a thread in words."""
    named = {str(label["id"]): label["name"] for label in item.content.get("labels", [])}
    return " and ".join(named.get(one, one) for one in topic.split("-")) if topic else item.name


@transaction.atomic
def add_post(user: Any, pk: int, text: str) -> Post:
    """Add a post. Raises NotFound; InputError: empty, or too long; Conflict: a round is open, or the user may not."""
    words = clean_text(text).strip()
    if not words or len(words) > POST_CHARS:
        raise InputError(f"Write 1 to {POST_CHARS:,} characters.")
    row = Discussion.objects.select_for_update(of=("self",)).select_related("item__session").filter(pk=pk).first()
    if row is None:
        raise NotFound("There is no such discussion.")
    session = row.item.session
    if not may_post(user, session):
        raise Conflict("Those who label in this session discuss it, with those who may open and close sessions.")
    require_no_open_round(session)
    if row.post_count >= MOST_POSTS:
        raise Conflict(f"A discussion has {MOST_POSTS} posts at most. An adjudicator settles it.")
    Discussion.objects.filter(pk=pk).update(post_count=F("post_count") + 1)
    return Post.objects.create(discussion=row, user=user, text=words)
