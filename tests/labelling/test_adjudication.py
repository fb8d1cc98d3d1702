"""What people disagree on, and what an adjudicator makes of it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.errors import InputError
from tests.labelling import seed
from webapp.common.errors import Conflict
from webapp.environments.models import Environment
from webapp.labelling import adjudication, adjudication_views, answers, sessions
from webapp.labelling.answers import LabelChoice, Placing
from webapp.labelling.models import LabelItem, Settlement
from webapp.labelling.outcome.outcomes import compute_outcome
from webapp.labelling.sessions import SessionSettings, preview_session

pytestmark = pytest.mark.django_db


def test_disputes_stand_by_their_distance_and_are_settled() -> None:
    maker, ann, bob, eve = seed.people("adjudicator", "annotator", "annotator", "annotator")
    nodes = seed.tree()
    for name in ("agreed", "far", "near"):
        seed.environment(name, nodes["Clubs"])
    session = seed.place_session(maker, overlap=3)
    said = {
        "agreed": ["Clubs"] * 3, "far": ["Clubs", "Banking", "Ticketing"],
        "near": ["Payroll", "Payroll", "Club Accounts"],
    }  # fmt: skip
    for place, user in enumerate((ann, bob, eve)):
        for _ in said:
            row = seed.pulled(user, session)
            node = nodes[said[row.ask.item.name][place]]
            answers.submit_label(
                user, row.pk, LabelChoice(placing=Placing(node), comment=f"{user} of {row.ask.item.name}")
            )
    item = LabelItem.objects.get(name="far")
    with pytest.raises(Conflict, match="People still label"):
        adjudication.settle_item(maker, item.pk, LabelChoice(placing=Placing(nodes["Lending"])))
    sessions.close_round(maker, session.pk)
    far, near = adjudication.list_disputes(session)
    assert (far.item.name, far.distance, far.odd) == ("far", 1.0, None)
    assert (near.item.name, round(near.distance or 0, 3), near.odd) == ("near", 0.222, eve.pk)
    with pytest.raises(Conflict, match="Adjudicators settle"):
        adjudication.settle_with_label(ann, item.pk, far.labels[0].pk)
    assert adjudication.settle_agreed_items(maker, session.pk) == 1
    adjudication.settle_with_label(maker, near.item.pk, near.labels[0].pk, "Two of three.")
    with pytest.raises(InputError, match="no node 987654"):
        adjudication.settle_item(maker, far.item.pk, LabelChoice(placing=Placing(987654)))
    adjudication.settle_item(maker, far.item.pk, LabelChoice(placing=Placing(nodes["Lending"]), comment="Nobody's."))
    session.refresh_from_db()
    assert session.settled_count == session.item_count == 3
    assert dict(Settlement.objects.values_list("item__name", "node")) == {
        "agreed": nodes["Clubs"], "near": nodes["Payroll"], "far": nodes["Lending"],
    }  # fmt: skip
    found = compute_outcome(session)
    assert {one.node: one.names for one in found.movements} == {nodes["Payroll"]: ("near",), nodes["Lending"]: ("far",)}
    assert (found.unchanged, found.open_items, found.hindrances) == (1, 0, ())
    Environment.objects.filter(name="near").update(node=nodes["Payroll"])
    Environment.objects.filter(name="far").delete()
    again = compute_outcome(session)
    assert (again.changes, again.unchanged, again.hindrances) == (0, 2, ("“far” is gone.",))
    adjudication.unsettle_item(maker, far.item.pk)
    assert Settlement.objects.count() == 2


def test_a_long_list_begins_where_something_is_open(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    for number in range(4):
        seed.environment(f"made {number}", nodes["Clubs"])
    session = seed.place_session(maker, overlap=2)
    for user, place in ((ann, "Clubs"), (bob, "Banking")):
        for _ in range(4):
            seed.labelled(user, session, nodes[place])
    sessions.close_round(maker, session.pk)
    monkeypatch.setattr(adjudication_views, "SHOWN", 2)
    first, *_ = adjudication.list_disputes(session)
    client.force_login(maker)
    page = reverse("labelling:adjudication", args=[session.pk])
    assert client.get(page).context["start"] == 0
    for one in adjudication.list_disputes(session)[:2]:
        adjudication.settle_with_label(maker, one.item.pk, one.labels[0].pk)
    shown = client.get(page).context
    assert (shown["start"], len(shown["lines"]), shown["open_items"]) == (2, 2, 2)
    assert shown["opened"] == shown["lines"][0]["item"].pk
    assert client.get(page, {"start": 0}).context["lines"][0]["item"].pk == first.item.pk
    names = sorted([ann.username, bob.username])
    assert shown["columns"] == names
    assert [name for name, _ in shown["lines"][0]["cells"]] == names
    monkeypatch.setattr(adjudication_views, "MOST_COLUMNS", 1)
    crowded = client.get(page)
    assert crowded.context["columns"] == []
    assert all(f"<i>{name}</i>" in crowded.content.decode() for name in names), "each line lists its own"


def test_groupings_hold_every_label_once_and_part_visibly() -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    seed.tree()
    session = seed.merge_session(maker, overlap=2)
    item = session.items.get()
    pks = {label["name"]: label["id"] for label in item.content["labels"]}
    assert set(pks) == {"Clubs", "Lending", "Banking", "Bookkeeping", "Ticketing"}
    rest = {"Sharing": [pks["Clubs"], pks["Lending"]], "Tickets": [pks["Ticketing"]]}
    held = seed.pulled(ann, session)
    for groups, words in (
        ([{"name": "A", "labels": [pks["Banking"]]}, {"name": "B", "labels": [pks["Banking"]]}], "in two groups"),
        ([{"name": " ", "labels": [pks["Banking"]]}], "needs a name"),
        ([{"name": "A", "labels": [4_000_000]}], "no label"),
    ):
        with pytest.raises(InputError, match=words):
            answers.submit_label(ann, held.pk, LabelChoice(groups=groups))
    first = seed.grouped(ann, session, rest | {"Money": [pks["Banking"], pks["Bookkeeping"]]})
    seed.grouped(bob, session, rest | {"Banks": [pks["Banking"]], "Books": [pks["Bookkeeping"]]})
    sessions.close_round(maker, session.pk)
    [dispute] = adjudication.list_disputes(session)
    parted = adjudication.compare_grouped_labels(item, dispute.labels)
    assert {one.name: one.distance for one in parted} == {
        "Banking": 0.5, "Bookkeeping": 0.5, "Clubs": 0.0, "Lending": 0.0, "Ticketing": 0.0,
    }  # fmt: skip
    client = Client()
    client.force_login(maker)
    client.post(reverse("labelling:take", args=[item.pk]), {"label": first.pk})
    client.post(reverse("labelling:settle", args=[item.pk]), {"label": [pks["Ticketing"]], "into": "Sharing"})
    groups = {group["name"]: group["labels"] for group in Settlement.objects.get().groups}
    assert sorted(groups) == ["Money", "Sharing"]
    assert pks["Ticketing"] in groups["Sharing"]
    client.post(reverse("labelling:settle", args=[item.pk]), {"label": [pks["Lending"]], "out": "1"})
    assert {"name": "Lending", "labels": [pks["Lending"]]} in Settlement.objects.get().groups
    settled = client.get(reverse("labelling:item", args=[item.pk]))
    assert [label["name"] for label in settled.context["left_labels"]] == ["Lending"]
    assert "Settled by" in settled.content.decode()
    assert "2 groups; 1 label ungrouped" in settled.content.decode()
    found = compute_outcome(session)
    assert {(one.into, one.sources, one.name) for one in found.mergers} == {
        (pks["Clubs"], (pks["Ticketing"],), "Sharing"),
        (pks["Banking"], (pks["Bookkeeping"],), "Money"),
    }
    assert (found.unchanged, found.changes) == (1, 2)
    assert client.get(reverse("labelling:outcome", args=[session.pk])).status_code == 200


def test_what_is_asked_stays_as_it_was_and_hostile_text_stays_text() -> None:
    maker, ann = seed.people("adjudicator", "annotator")
    nodes = seed.tree()
    row = seed.environment(seed.HOSTILE, nodes["Clubs"], rules=(seed.HOSTILE,))
    session = seed.place_session(maker, overlap=1, guideline=seed.HOSTILE)
    row.name = "Renamed"
    row.save()
    held = seed.pulled(ann, session)
    client = Client()
    client.force_login(ann)
    page = client.get(reverse("labelling:desk", args=[held.pk])).content.decode()
    assert "Renamed" not in page
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x") >= 3
    assert "\u202e" not in page
    sent = {"node": nodes["Clubs"], "confidence": 3, "comment": seed.HOSTILE, "guideline": 1}
    assert client.post(reverse("labelling:submit", args=[held.pk]), sent).status_code == 302
    sessions.close_round(maker, session.pk)
    page = client.get(reverse("labelling:adjudication", args=[session.pk])).content.decode()
    assert "<img src=x" not in page
    assert "\u202e" not in page


def test_a_session_that_cannot_be_answered_is_refused_before_it_opens() -> None:
    [ann] = seed.people("annotator")
    seed.people("viewer")
    with pytest.raises(InputError, match="The tree is empty"):
        preview_session(SessionSettings("a", "merge"))
    nodes = seed.tree()
    wishes = {"kind": "place", "places": "environment"}
    with pytest.raises(InputError, match="choose no environments"):
        preview_session(SessionSettings("a", **wishes))
    one = seed.environment("one", nodes["Clubs"])
    for more, words in (
        ({"members": ("the-annotator",)}, "3 people are to answer"),
        ({"members": ("the-viewer",), "overlap": 1}, "may not annotate"),
        ({"members": ("nobody",), "overlap": 1}, "There is no user"),
        ({"known": (one.pk,)}, "known already"),
        ({"known": (999_999,)}, "no environment 999999"),
        ({"overlap": 10}, "1 to 9 people"),
        ({"name": " "}, "name of 1 to 100"),
    ):
        with pytest.raises(InputError, match=words):
            preview_session(SessionSettings(**{"name": "a", **wishes, **more}))
    with pytest.raises(Conflict, match="open and close sessions"):
        seed.place_session(ann)


def test_the_starter_session_is_opened_once() -> None:
    nodes = seed.tree()
    seed.environment("one", nodes["Clubs"])
    session, new = sessions.ensure_starter_session()
    assert (new, session.item_count, session.overlap) == (True, 1, 2)
    assert sessions.ensure_starter_session() == (session, False)
    assert "Never go by the name" in sessions.newest_guideline(session).text


def test_a_label_says_which_guideline_it_was_made_with() -> None:
    maker, ann = seed.people("adjudicator", "annotator")
    nodes = seed.tree()
    seed.environment("one", nodes["Clubs"])
    session = seed.place_session(maker, overlap=1)
    held = seed.pulled(ann, session)
    sessions.change_guideline(maker, session.pk, "Ask what the state holds.\nNever by the name.", seen=1)
    with pytest.raises(Conflict, match="at version 2 now"):
        sessions.change_guideline(maker, session.pk, "Mine.", seen=1)
    label = answers.submit_label(ann, held.pk, LabelChoice(placing=Placing(nodes["Clubs"]), guideline=1))
    assert label.guideline.number == 1, "it was on the page before the new one was written"
    client = Client()
    client.force_login(ann)
    page = client.get(reverse("labelling:guideline", args=[session.pk])).content.decode()
    assert 'class="added"' in page
    row = answers.undo_label(ann, label.pk)
    assert answers.submit_label(ann, row.pk, LabelChoice(placing=Placing(None))).guideline.number == 2
