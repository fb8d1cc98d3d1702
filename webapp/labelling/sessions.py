"""Sessions: opened with what they ask, given further guidelines and rounds, and closed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet, Sum
from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.access import has_scope
from webapp.accounts.models import User
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound
from webapp.labelling.frozen import FrozenItem, freeze_items, freeze_labels, freeze_tree
from webapp.labelling.models import (
    MOST_ROUNDS,
    Ask,
    Guideline,
    LabelItem,
    LabelRound,
    LabelSession,
    PlacedKind,
    SessionKind,
    SessionState,
)
from webapp.labelling.reservations import give_up_all
from webapp.labelling.results import services as measuring
from webapp.labelling.rights import require_editor
from webapp.review.assignments import GOLD_OVERLAP
from webapp.review.models import MOST_OVERLAP
from webapp.review.queues import GUIDELINE_CHARS, LEASE_MINUTES, NAME_CHARS, find_named_people

MOST_ASKED = 2_000
MOST_GOLD = 100


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a new session. `known` are ids of things whose present place is right: asked of all people."""

    name: str
    kind: str
    places: str = ""
    query: str = ""
    nodes: tuple[int, ...] = ()
    """Of a session that merges: the first-level nodes whose labels are grouped; none: all."""
    labels: tuple[int, ...] = ()
    """Of a session that merges: exactly the labels that are grouped, instead of those of `nodes`."""
    most: int = 60
    known: tuple[int, ...] = ()
    overlap: int = 3
    lease_minutes: int = 15
    members: tuple[str, ...] = ()
    guideline: str = ""


@dataclass(frozen=True)
class SessionPreview:
    """A preview of a session with these settings."""

    items: tuple[FrozenItem, ...]
    nodes: int
    people: tuple[User, ...] = field(default=())

    def answers(self, settings: SessionSettings) -> int:
        """Return how many labels one round needs."""
        return (len(self.items) - len(settings.known)) * settings.overlap


def clean_settings(given: SessionSettings) -> SessionSettings:
    """Return the settings, cleaned. Raises InputError with what cannot be used, and why."""
    name, guideline = clean_text(given.name).strip(), clean_text(given.guideline).strip()
    if not name or len(name) > NAME_CHARS:
        raise InputError(f"Give the session a name of 1 to {NAME_CHARS} characters.")
    if given.kind not in SessionKind.values:
        raise InputError("A session places things on the tree (place), or groups its labels (merge).")
    placed = given.kind == SessionKind.PLACE
    if placed and given.places not in (PlacedKind.ENVIRONMENT, PlacedKind.THEME):
        raise InputError("Choose what is placed: environments or themes.")
    if not 1 <= given.overlap <= MOST_OVERLAP:
        raise InputError(f"From 1 to {MOST_OVERLAP} people can be asked about an item.")
    if not LEASE_MINUTES[0] <= given.lease_minutes <= LEASE_MINUTES[1]:
        raise InputError(f"An item can be held for {LEASE_MINUTES[0]} to {LEASE_MINUTES[1]} minutes.")
    if not 1 <= given.most <= MOST_ASKED:
        raise InputError(f"A session can ask about 1 to {MOST_ASKED:,} things.")
    if len(guideline) > GUIDELINE_CHARS:
        raise InputError(f"The guideline may have {GUIDELINE_CHARS:,} characters; this one has {len(guideline):,}.")
    known_ids = tuple(dict.fromkeys(given.known)) if placed else ()
    if len(known_ids) > MOST_GOLD:
        raise InputError(f"A session can have {MOST_GOLD} known answers; these are {len(known_ids):,}.")
    return SessionSettings(
        name, given.kind, given.places if placed else PlacedKind.NONE, given.query[:2_000] if placed else "",
        () if placed else tuple(dict.fromkeys(given.nodes)), () if placed else tuple(dict.fromkeys(given.labels)),
        given.most, known_ids, given.overlap, given.lease_minutes, tuple(dict.fromkeys(given.members)), guideline,
    )  # fmt: skip


def preview_session(settings: SessionSettings) -> SessionPreview:
    """Return what would be asked, and of which people. Raises InputError: the settings cannot be used."""
    cleaned = clean_settings(settings)
    people = find_named_people(cleaned.members)
    cannot = next((one for one in people if not has_scope(one, "review")), None)
    if cannot is not None:
        raise InputError(f"{cannot} may not annotate. Name people who may, or give them another role.")
    if people and len(people) < cleaned.overlap:
        raise InputError(f"{cleaned.overlap} people are to answer each item, and {len(people)} are named. Name more.")
    nodes = len(freeze_tree())
    if cleaned.kind == SessionKind.MERGE:
        items = [freeze_labels(cleaned.nodes, cleaned.labels)]
    else:
        items = freeze_items(cleaned.places, cleaned.query, cleaned.most, cleaned.known)
        if len(items) == len(cleaned.known):
            raise InputError("Every answer of this session is known already. Choose things whose place is not.")
    return SessionPreview(tuple(items), nodes, tuple(people))


def open_session(user: Any, settings: SessionSettings) -> LabelSession:
    """Freeze what is asked and open the first round. Raises InputError; Conflict: the name is taken, or the user may
    not."""
    require_editor(user)
    return _create_session(user, clean_settings(settings))


STARTER_SESSION = "Place the starter environments"
STARTER_GUIDELINE = (
    "Ask what the state holds and what the tools change, not where it happens: the books of a club are bookkeeping.\n"
    "Take the deepest node that covers more than half of the tools that change something.\n"
    "Two fit? Take the one that the rules speak of, and name the other as the second.\n"
    "Never go by the name of the environment."
)


def ensure_starter_session() -> tuple[LabelSession, bool]:
    """Return (a session in which the bundled environments are placed, whether it was opened now)."""
    known = LabelSession.objects.filter(name=STARTER_SESSION).defer("tree").first()
    if known is not None:
        return known, False
    starter_settings = SessionSettings(
        STARTER_SESSION, SessionKind.PLACE, PlacedKind.ENVIRONMENT, most=12, overlap=2, guideline=STARTER_GUIDELINE
    )
    return _create_session(None, clean_settings(starter_settings)), True


def _create_session(user: Any, given: SessionSettings) -> LabelSession:
    try:
        with transaction.atomic():
            preview = preview_session(given)
            session = LabelSession.objects.create(
                name=given.name, kind=given.kind, places=given.places, query=given.query, overlap=given.overlap,
                lease_minutes=given.lease_minutes, tree=freeze_tree(), created_by=user,
                item_count=len(preview.items) - len(given.known),
            )  # fmt: skip
            session.members.set(preview.people)
            session.guidelines.create(number=1, text=given.guideline, by=user)
            items = _create_items(session, preview.items, set(given.known))
            _open_round(session, 1, items)
            write_audit_entry(user, "label_session.open", session, items=len(items), overlap=session.overlap)
    except IntegrityError as error:
        raise Conflict(f"There is a session “{given.name}” already. Take another name.") from error
    return session


def _create_items(session: LabelSession, found: Sequence[FrozenItem], known: set[int]) -> list[LabelItem]:
    """Create the rows, with known answers shuffled among the others so that their position reveals nothing."""
    order = list(found)
    random.Random(session.pk).shuffle(order)
    rows = [
        LabelItem(
            session=session, position=number, key=one.key, name=one.name[:300], content=one.content,
            gold=one.node if one.key in known else None,
        )
        for number, one in enumerate(order, start=1)
    ]  # fmt: skip
    return LabelItem.objects.bulk_create(rows)


def _open_round(session: LabelSession, number: int, items: Sequence[LabelItem]) -> LabelRound:
    row = session.rounds.create(number=number)
    places = {item.pk: session.overlap if item.gold is None else GOLD_OVERLAP for item in items}
    Ask.objects.bulk_create(
        Ask(
            session=session, round=row, item=item, position=item.position,
            overlap=places[item.pk], free=places[item.pk],
        )
        for item in items
    )  # fmt: skip
    return row


def lock_session(pk: int) -> LabelSession:
    """Return a session whose row is locked until the transaction ends. Raises NotFound."""
    row = LabelSession.objects.select_for_update(of=("self",)).defer("tree").filter(pk=pk).first()
    if row is None:
        raise NotFound("There is no such session.")
    return row


def counted_asks(found: LabelRound) -> QuerySet[Ask]:
    """Return the items of a round that count: those whose answer is not known."""
    return Ask.objects.filter(round=found, item__gold__isnull=True)


@transaction.atomic
def close_round(user: Any, pk: int) -> LabelRound:
    """End the open round, complete or not: missing answers are counted, and all holds are released.

    Raises NotFound; Conflict: no round is open, nothing was labelled, or the user may not.
    """
    require_editor(user)
    session = lock_session(pk)
    open_round = session.rounds.select_for_update().filter(is_open=True).first()
    if open_round is None:
        raise Conflict("No round of this session is open.")
    if not open_round.labels.filter(user__isnull=False, undone_at__isnull=True).exists():
        raise Conflict("Nothing has been labelled in this round yet: there is nothing to adjudicate.")
    give_up_all(open_round)
    open_round.missing = counted_asks(open_round).aggregate(n=Sum("free"))["n"] or 0
    open_round.is_open, open_round.closed_at, open_round.closed_by = False, timezone.now(), user
    open_round.save(update_fields=["missing", "is_open", "closed_at", "closed_by"])
    LabelSession.objects.filter(pk=session.pk).update(state=SessionState.CLOSED)
    write_audit_entry(user, "label_session.close_round", session, round=open_round.number, missing=open_round.missing)
    measuring.start_measuring(user, session)
    return open_round


APPLIED = "The result of this session is applied to the tree. Undo that first."


@transaction.atomic
def ask_again(user: Any, pk: int, items: Sequence[int]) -> LabelRound:
    """Open a further round for these items, after people discussed them; earlier labels are kept.

    Raises NotFound; InputError: no such items; Conflict: a round is open, the result is applied, or the user may not.
    """
    require_editor(user)
    session = lock_session(pk)
    if session.state != SessionState.CLOSED:
        words = "The open round has to be closed first." if session.state == SessionState.OPEN else APPLIED
        raise Conflict(words)
    last = session.rounds.order_by("-number").first()
    number = (last.number if last is not None else 0) + 1
    if number > MOST_ROUNDS:
        raise Conflict(f"A session has {MOST_ROUNDS} rounds at most. An adjudicator settles what is left.")
    rows = list(session.items.filter(pk__in=items, gold__isnull=True, settlement__isnull=True).order_by("position"))
    if not rows:
        raise InputError("Choose items that people disagree on and that are not settled.")
    new_round = _open_round(session, number, rows)
    LabelSession.objects.filter(pk=session.pk).update(state=SessionState.OPEN)
    write_audit_entry(user, "label_session.ask_again", session, round=number, items=len(rows))
    return new_round


@transaction.atomic
def change_guideline(user: Any, pk: int, text: str, *, seen: int) -> Guideline:
    """Write the next version of the guideline; labels record which one they were made with.

    Raises NotFound; InputError: too long, or nothing changed; Conflict: another version was written since version
    `seen`.
    """
    require_editor(user)
    session = lock_session(pk)
    words = clean_text(text).strip()
    if len(words) > GUIDELINE_CHARS:
        raise InputError(f"The guideline may have {GUIDELINE_CHARS:,} characters; this one has {len(words):,}.")
    last = session.guidelines.order_by("-number").first()
    number = last.number if last is not None else 0
    if last is not None and last.text == words:
        raise InputError("Nothing is changed in this guideline.")
    if number != seen:
        raise Conflict(f"The guideline is at version {number} now. Look at what changed, and write yours again.")
    write_audit_entry(user, "label_session.guideline", session, version=number + 1)
    return Guideline.objects.create(session=session, number=number + 1, text=words, by=user)


def newest_guideline(session: LabelSession) -> Guideline:
    """Return the current version; every session has one."""
    return session.guidelines.order_by("-number").select_related("by")[0]
