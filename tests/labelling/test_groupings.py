"""Labels put into groups: what is left alone keeps its name, similar names are offered, and the result says it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.labelling import seed
from webapp.accounts.models import User
from webapp.environments.models import Environment
from webapp.labelling import answers, forms, frozen
from webapp.labelling.adjudication import settle_with_label
from webapp.labelling.answers import LabelChoice
from webapp.labelling.grouping.label_groups import describe_groups
from webapp.labelling.grouping.suggestions import suggest_groups
from webapp.labelling.models import Label, LabelDraft, LabelItem, LabelSession
from webapp.labelling.outcome.effects import preview_outcome
from webapp.labelling.outcome.outcomes import compute_outcome
from webapp.labelling.sessions import close_round
from webapp.taxonomy.models import Node, TreeChange
from webapp.taxonomy.services import place_paths

pytestmark = pytest.mark.django_db


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def opened(*paths: tuple[str, str]) -> tuple[User, User, LabelSession, dict[str, int]]:
    """(adjudicator, annotator, session on second-level labels, their ids by name; of equal names the last)."""
    judge, ann = seed.people("adjudicator", "annotator")
    nodes = {path[-1]: pk for path, pk in place_paths(list(paths)).items()} if paths else seed.tree()
    return judge, ann, seed.merge_session(judge, overlap=1), nodes


def test_labels_left_alone_stay_as_they_are_with_their_name() -> None:
    judge, ann, session, nodes = opened()
    client, held = client_of(ann), seed.pulled(ann, session)
    fill, desk = (reverse(f"labelling:{name}", args=[held.pk]) for name in ("fill", "desk"))
    client.post(fill, {"label": [nodes["Banking"], nodes["Bookkeeping"]], "group": "Money", "put": "1"})
    shown = client.get(desk).context
    filled = {f"group-{pk}": name for pk, name in shown["names"]}
    client.post(fill, filled | {"label": nodes["Ticketing"], "group": "Desks", "put": "1"})
    page = client.get(desk)
    assert "A group of one: “Ticketing” keeps its name." in page.content.decode()
    filled = {f"group-{pk}": name for pk, name in page.context["names"]}
    assert client.post(reverse("labelling:submit", args=[held.pk]), filled | {"confidence": "2"}).status_code == 302
    label = Label.objects.get()
    assert describe_groups(label.groups) == "1 group; 3 labels ungrouped"
    assert {one["name"]: len(one["labels"]) for one in label.groups} == {
        "Clubs": 1, "Lending": 1, "Money": 2, "Desks": 1,
    }  # fmt: skip
    close_round(judge, session.pk)
    settle_with_label(judge, session.items.get().pk, label.pk)
    found = compute_outcome(session)
    assert [(one.name, one.was, one.is_renaming) for one in found.mergers] == [("Money", "Banking", True)]
    assert found.unchanged == 3, "the group of one renames nothing"


def test_a_group_of_one_renames_its_label_only_if_a_person_says_so() -> None:
    judge, ann, session, nodes = opened()
    client, held = client_of(ann), seed.pulled(ann, session)
    fill = reverse("labelling:fill", args=[held.pk])
    filled = {f"group-{nodes['Ticketing']}": "Desks"}
    client.post(fill, filled | {"rename": nodes["Ticketing"]})
    page = client.get(reverse("labelling:desk", args=[held.pk])).content.decode()
    assert "“Ticketing” is renamed to “Desks”." in page
    client.post(reverse("labelling:submit", args=[held.pk]), filled | {"renamed": nodes["Ticketing"]})
    label = Label.objects.get()
    assert describe_groups(label.groups) == "0 groups; 1 label renamed; 4 labels ungrouped"
    client.post(reverse("labelling:undo", args=[label.pk]))
    assert LabelDraft.objects.get().body["renamed"] == [nodes["Ticketing"]]
    client.post(reverse("labelling:submit", args=[held.pk]), filled | {"renamed": nodes["Ticketing"]})
    close_round(judge, session.pk)
    settle_with_label(judge, session.items.get().pk, Label.objects.latest("pk").pk)
    client = client_of(judge)
    page = client.get(reverse("labelling:outcome", args=[session.pk])).content.decode()
    assert '<span class="tag">renamed</span>' in page
    assert "“Ticketing” is called “Desks” then" in page
    preview = preview_outcome(session)
    assert preview is not None
    client.post(reverse("labelling:carry_out", args=[session.pk]), {"serial": preview.serial})
    change = TreeChange.objects.get()
    assert change.words.endswith("1 label renamed")
    assert (change.nodes, change.environments, change.themes) == (preview.nodes, preview.environments, preview.themes)
    assert Node.objects.get(pk=nodes["Ticketing"]).name == "Desks"


def test_lone_labels_of_one_name_stay_apart_when_an_adjudicator_moves_others() -> None:
    judge, ann, session, nodes = opened(("A", "Weather"), ("B", "Weather"), ("B", "Maps"), ("B", "Travel"))
    seed.grouped(ann, session, {"Trips": [nodes["Maps"], nodes["Travel"]]})
    close_round(judge, session.pk)
    item = session.items.get()
    settle_with_label(judge, item.pk, Label.objects.get().pk)
    client_of(judge).post(reverse("labelling:settle", args=[item.pk]), {"label": nodes["Maps"], "out": "1"})
    item.refresh_from_db()
    assert sorted((one["name"], len(one["labels"])) for one in item.settlement.groups) == [
        ("Maps", 1), ("Trips", 1), ("Weather", 1), ("Weather", 1),
    ]  # fmt: skip


def listed(*names: str) -> LabelItem:
    """An item that is asked about labels with these names; the later ones have more themes."""
    labels: list[dict[str, Any]] = [
        {"id": number, "name": name, "environments": 0, "themes": number} for number, name in enumerate(names, start=1)
    ]
    return LabelItem(content={"labels": labels})


def test_equal_and_similar_names_are_suggested_until_they_are_grouped_or_refused() -> None:
    item = listed("Weather", "Calendars", "E-Mail", "weather", "Banking", "Calendar", "Email", "Travel & Maps")
    found = suggest_groups(item, {})
    assert [([label["name"] for label in one.labels], one.name, one.joins) for one in found] == [
        (["Weather", "weather"], "weather", False),
        (["Calendars", "Calendar"], "Calendar", False),
        (["E-Mail", "Email"], "Email", False),
    ]
    left = suggest_groups(item, {"1": "Skies"}, refused=[found[1].key])
    assert [(one.key, one.name, one.joins) for one in left] == [("4", "Skies", True), ("3-7", "Email", False)]
    assert suggest_groups(item, {str(number): f"Group {number}" for number in range(1, 9)}) == []


def test_suggestions_are_accepted_and_refused_and_a_group_without_a_name_takes_its_largest_labels() -> None:
    _, ann, session, nodes = opened(("A", "Weather"), ("B", "Weathers"), ("B", "Clubs"), ("C", "Club"), ("C", "Maps"))
    client, held = client_of(ann), seed.pulled(ann, session)
    desk, fill = (reverse(f"labelling:{name}", args=[held.pk]) for name in ("desk", "fill"))
    weather, clubs = client.get(desk).context["suggestions"]
    client.post(fill, {"accept": weather.key})
    filled = {f"group-{pk}": name for pk, name in client.get(desk).context["names"]}
    assert sorted(filter(None, filled.values())) == ["Weather", "Weather"]
    client.post(fill, filled | {"refuse": clubs.key})
    context = client.get(desk).context
    assert (context["suggestions"], context["refused_keys"]) == ([], [clubs.key])
    again = client.post(fill, filled | {"accept": weather.key})
    assert again.status_code == 422
    assert "does not fit any more" in again.content.decode()
    client.post(fill, filled | {"label": [nodes["Club"], nodes["Maps"]], "put": "1"})
    assert [group.name for group in client.get(desk).context["groups"]] == ["Weather", "Club"]
    one = client.post(fill, filled | {"label": nodes["Maps"], "put": "1"})
    assert one.status_code == 422
    assert "Tick two labels or more" in one.content.decode()
    client.post(fill, filled | {"label": nodes["Maps"], "group": "weather", "put": "1"})
    assert [len(group.labels) for group in client.get(desk).context["groups"]] == [3], "whatever its case"


def test_people_are_ticked_and_more_labels_than_a_person_can_group_are_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge, ann, viewer = seed.people("adjudicator", "annotator", "viewer")
    seed.tree()
    client, new = client_of(judge), reverse("labelling:new", args=["merge"])
    form = client.get(new).context["form"]
    assert [name for name, _ in form.fields["members"].choices] == sorted([judge.username, ann.username])
    assert form.fields["nodes"].help_text == "None ticked: all 5 labels."
    assert [words for _, words in form.fields["nodes"].choices] == ["Community (2)", "Finance (2)", "Travel (1)"]
    given = {"name": "Groups", "overlap": "1", "lease_minutes": "60"}
    assert client.post(new, given | {"members": [viewer.username]}).status_code == 422
    assert client.post(new, given | {"members": [ann.username]}).status_code == 302
    assert [one.username for one in LabelSession.objects.get().members.all()] == [ann.username]
    monkeypatch.setattr(forms, "MOST_LABELS", 4)
    monkeypatch.setattr(frozen, "MOST_LABELS", 4)
    hint = client.get(new).context["form"].fields["nodes"].help_text
    assert hint == "Tick some: all of them have 5 labels, and a person can group 4."
    refused = client.post(new, given | {"name": "All"})
    assert refused.status_code == 422
    assert "One person can group 4 labels at most" in refused.content.decode()


def test_what_is_placed_is_chosen_by_fields_and_known_answers_by_name() -> None:
    judge = seed.people("adjudicator")[0]
    nodes = seed.tree()
    payroll, _ = seed.environment("Payroll <b>", nodes["Payroll"]), seed.environment("Clinic", nodes["Payroll"])
    seed.environment("Payroll of others", nodes["Payroll"])
    Environment.objects.exclude(name="Clinic").update(category="Money & pay")
    client, new = client_of(judge), reverse("labelling:new", args=["place"])
    first = client.get(new)
    assert 'name="query"' not in first.content.decode(), "no address is pasted"
    assert ("Money & pay", "Money & pay") in first.context["form"].fields["category"].choices
    given = {
        "name": "Places", "places": "environment", "words": "payroll", "category": "Money & pay", "most": "10",
        "overlap": "1", "lease_minutes": "60",
    }  # fmt: skip
    looked = client.post(new, given | {"look": "1"})
    assert [one.name for one in looked.context["preview"].items] == ["Payroll of others", "Payroll <b>"]
    offered = dict(looked.context["form"].fields["known"].choices)
    assert offered[payroll.pk] == "Payroll <b>"
    assert f'name="known" value="{payroll.pk}"' in looked.content.decode()
    assert client.post(new, given | {"known": ["999999"]}).status_code == 422
    assert client.post(new, given | {"known": [payroll.pk]}).status_code == 302
    session = LabelSession.objects.get()
    assert session.query == "q=payroll&category=Money+%26+pay"
    assert [one.key for one in session.items.filter(gold__isnull=False)] == [payroll.pk]


def test_items_of_one_name_are_told_apart_by_their_description() -> None:
    judge, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    for summary in ("It books rooms.", "It sends invitations."):
        row = seed.environment("Calendar", nodes["Clubs"])
        row.summary, row.key = summary, summary
        row.save()
    session = seed.place_session(judge)
    for person, node in ((ann, "Banking"), (bob, "Payroll")):
        for _ in range(2):
            seed.labelled(person, session, nodes[node])
    close_round(judge, session.pk)
    client = client_of(judge)
    for name in ("session", "adjudication"):
        page = client.get(reverse(f"labelling:{name}", args=[session.pk])).content.decode()
        assert "It books rooms." in page, name
        assert "It sends invitations." in page, name


def test_a_person_may_say_that_no_label_belongs_with_another() -> None:
    _, ann, session, _ = opened()
    held = seed.pulled(ann, session)
    label = answers.submit_label(ann, held.pk, LabelChoice(groups=[]))
    assert describe_groups(label.groups) == "0 groups; 5 labels ungrouped"
