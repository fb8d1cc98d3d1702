"""In an open round nobody sees any label but their own: by no page, no endpoint, no search, no event."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.labelling import seed
from webapp.accounts.models import AuditEntry, User
from webapp.common.errors import Conflict
from webapp.common.events.models import Event
from webapp.labelling import adjudication, discussions, sessions
from webapp.labelling.models import Label, LabelItem, LabelSession, Reservation
from webapp.labelling.progress import compute_round_progress
from webapp.labelling.visibility import can_see_known_answers

SECRET = "quite-unlike-anything-else"
pytestmark = pytest.mark.django_db


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def addresses(session: LabelSession) -> list[str]:
    """Every page and endpoint that reads something of a session."""
    of_session = ["session", "guideline", "adjudication"]
    found = [reverse("labelling:list"), *(reverse(f"labelling:{name}", args=[session.pk]) for name in of_session)]
    found += [
        f"{reverse('labelling:adjudication', args=[session.pk])}?all=1",
        reverse("agreement:page", args=[session.pk]),
    ]
    found += [reverse("labelling:item", args=[pk]) for pk in session.items.values_list("pk", flat=True)]
    found += [f"/api/v1/label-sessions{rest}" for rest in ("", f"/{session.pk}")]
    found += [f"/api/v1/label-sessions/{session.pk}/{name}" for name in ("labels", "disputes", "agreement")]
    found += [f"/api/v1/label-items/{pk}/posts" for pk in session.items.values_list("pk", flat=True)]
    found += [f"{reverse('pages:search')}?q={SECRET}", f"/jobs/?q={SECRET}"]
    return found


def told(user: User, session: LabelSession) -> dict[str, str]:
    """What each address tells a person, without what they asked for themselves."""
    client = client_of(user)
    held = Reservation.objects.filter(user=user, round__session=session)
    own = [reverse("labelling:desk", args=[row.pk]) for row in held]
    pages = {address: client.get(address) for address in [*addresses(session), *own]}
    assert {page.status_code for page in pages.values()} <= {200}, {k: p.status_code for k, p in pages.items()}
    return {address: page.content.decode() for address, page in pages.items() if SECRET not in address}


@pytest.mark.slow
def test_labels_comments_and_who_said_what_are_hidden_until_the_round_closes() -> None:
    maker, ann, bob, viewer, admin = seed.people("adjudicator", "annotator", "annotator", "viewer", "admin")
    nodes = seed.tree()
    seed.environment("Sports club ledger", nodes["Clubs"])
    session = seed.place_session(maker, overlap=3)
    label = seed.labelled(ann, session, nodes["Ticketing"], comment=SECRET)
    Label.objects.create(
        ask=label.ask, item=label.item, round=label.round, guideline=label.guideline, judge="a model",
        node=nodes["Payroll"], comment=f"{SECRET} model",
    )  # fmt: skip
    seed.pulled(bob, session)
    for user in (maker, bob, viewer, admin):
        for address, text in told(user, session).items():
            assert SECRET not in text, (user.username, address)
            assert "a model" not in text, (user.username, address)
            assert f'"node": {nodes["Ticketing"]}' not in text.replace('":', '": '), (user.username, address)
    assert SECRET in told(ann, session)[f"/api/v1/label-sessions/{session.pk}/labels"], "their own"
    assert SECRET not in "".join(Event.objects.values_list("topic", flat=True))
    assert SECRET not in str(list(AuditEntry.objects.values()))
    client = client_of(maker)
    for act in ("take", "settle"):
        client.post(reverse(f"labelling:{act}", args=[label.item_id]), {"label": label.pk, "node": nodes["Clubs"]})
    assert not hasattr(LabelItem.objects.get(), "settlement")
    sessions.close_round(maker, session.pk)
    for user in (maker, bob, viewer):
        assert SECRET in told(user, session)[reverse("labelling:item", args=[label.item_id])]


def test_a_second_round_is_blind_again_and_keeps_the_first() -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    seed.environment("Library fines desk", nodes["Clubs"])
    session = seed.place_session(maker, overlap=2)
    first = seed.labelled(ann, session, nodes["Lending"], comment="before")
    seed.labelled(bob, session, nodes["Banking"])
    sessions.close_round(maker, session.pk)
    [dispute] = adjudication.list_disputes(session)
    assert dispute.distance == 1.0
    thread = discussions.open_discussion(maker, dispute.item.pk)
    discussions.add_post(ann, thread.pk, "Its tools lend.")
    sessions.ask_again(maker, session.pk, [dispute.item.pk])
    with pytest.raises(Conflict, match="People label now"):
        discussions.add_post(bob, thread.pk, "Mine says so.")
    second = seed.labelled(ann, session, nodes["Lending"], comment=SECRET)
    held = seed.pulled(bob, session)
    pages = told(bob, session)
    for address, text in pages.items():
        assert SECRET not in text, address
    quorum = pages[reverse("labelling:desk", args=[held.pk])]
    assert all(words in quorum for words in ("<b>1 of 2</b>", "●○<", "yours completes it")), "the quorum on the desk"
    seed.labelled(bob, session, nodes["Lending"])
    sessions.close_round(maker, session.pk)
    assert adjudication.list_disputes(session) == []
    assert {first.round.number, second.round.number} == {1, 2}
    assert Label.objects.filter(undone_at__isnull=True).count() == 4, "both rounds are kept"


def test_known_answers_are_told_apart_to_nobody_who_labels() -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    known = seed.environment("Known one", nodes["Payroll"])
    for number in range(3):
        seed.environment(f"Other {number}", nodes["Clubs"])
    session = seed.place_session(maker, overlap=1, known=(known.pk,), members=(ann.username, bob.username))
    assert session.item_count == 3
    for user in (ann, bob):
        while (row := seed_next(user, session)) is not None:
            page = client_of(user).get(reverse("labelling:desk", args=[row.pk])).content.decode()
            assert re.search(r"<b>0 of 1</b>", page), "of a known answer no more than of any other item"
            seed.labelled(user, session, nodes["Payroll"] if user == ann else nodes["Clubs"])
    assert not can_see_known_answers(ann, session)
    assert "known answer" not in client_of(ann).get(reverse("labelling:session", args=[session.pk])).content.decode()
    lines = compute_round_progress(
        session, session.rounds.get(), known_answers=can_see_known_answers(maker, session)
    ).people
    assert {line.name: (line.right, line.known) for line in lines} == {ann.username: (1, 1), bob.username: (0, 1)}
    shown = client_of(bob).get(f"/api/v1/label-sessions/{session.pk}/disputes").json()
    assert "Known one" not in str(shown)


def seed_next(user: User, session: LabelSession) -> Any:
    from webapp.labelling.reservations import pull_next

    return pull_next(user, session)
