"""A model as an annotator, over HTTP: asked once, hidden until the round is closed, and counted in nothing."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from tests.edits.test_pages import carried_out
from tests.fixtures.llm import Request, Scripted, llm_server, say
from tests.labelling import seed
from tests.labelling.test_blindness import client_of
from tests.rollouts_web.support import endpoint_at
from webapp.common.errors import Conflict
from webapp.labelling import adjudication, sessions
from webapp.labelling.models import Ask, Label
from webapp.labelling.progress import compute_round_progress
from webapp.labelling.proposals.services import start_proposals
from webapp.labelling.results import round_labels
from webapp.labelling.visibility import shown_labels
from webapp.taxonomy.services import place_paths

pytestmark = pytest.mark.django_db


def test_a_model_labels_what_it_can_hidden_and_beside_the_quorum() -> None:
    maker, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    for name in ("plain desk", "odd desk"):
        seed.environment(name, nodes["Clubs"])
    session = seed.place_session(maker, overlap=2)

    def model(request: Request) -> Scripted:
        words = str(request["messages"][0]["content"])
        chosen = 999_999 if "odd desk" in words else nodes["Payroll"]
        return say(json.dumps({"comment": "It pays.", "place": chosen, "confidence": 3}))

    with llm_server(model) as server:
        endpoint = endpoint_at(server.url)
        with pytest.raises(Conflict, match="open and close sessions"):
            start_proposals(ann, session, f"{endpoint.pk}/scripted-1")
        start_proposals(maker, session, f"{endpoint.pk}/scripted-1")
        job = carried_out("propose_labels")
    assert (job.result["asked"], job.result["labelled"], len(job.result["failed"])) == (2, 1, 1)
    words = str(server.requests[0]["messages"])
    assert "Ask what the state holds." in words
    assert "do_1 (changes)" in words
    assert not shown_labels(maker, session).exists(), "hidden from everybody while people label"
    assert set(Ask.objects.values_list("free", flat=True)) == {2}
    for user in (ann, bob):
        for _ in range(2):
            seed.labelled(user, session, nodes["Clubs"])
    assert compute_round_progress(session, session.rounds.get()).answers == 4
    sessions.close_round(maker, session.pk)
    assert Label.objects.filter(judge__contains="scripted-1").count() == 1
    assert adjudication.list_disputes(session) == [], "it disagrees, and does not count"
    shown = [one for one in adjudication.list_disputes(session, all_items=True) if one.judges]
    assert [one.judges[0].node for one in shown] == [nodes["Payroll"]]


def test_a_large_tree_is_asked_about_in_two_steps() -> None:
    maker = seed.people("adjudicator")[0]
    nodes = seed.tree()
    more = place_paths([(f"First {a}", f"Second {a}.{b}") for a in range(20) for b in range(20)])
    seed.environment("plain desk", nodes["Clubs"])
    session = seed.place_session(maker, overlap=1)
    asked: list[str] = []

    def model(request: Request) -> Scripted:
        asked.append(str(request["messages"][0]["content"]))
        chosen = more[("First 7",)] if len(asked) == 1 else more[("First 7", "Second 7.3")]
        return say(json.dumps({"comment": "There.", "place": chosen, "confidence": 2}))

    with llm_server(model) as server:
        endpoint = endpoint_at(server.url)
        start_proposals(maker, session, f"{endpoint.pk}/scripted-1")
        carried_out("propose_labels")
    assert Label.objects.get().node == more[("First 7", "Second 7.3")]
    assert "Second 7.3" not in asked[0]
    assert "Second 8.3" not in asked[1]


def test_a_model_groups_labels_and_is_asked_again_where_one_is_left_out() -> None:
    maker, *others = seed.people("adjudicator", "annotator", "annotator", "annotator")
    seed.tree()
    session = seed.merge_session(maker)
    labels = {row["name"]: row["id"] for row in session.items.get().content["labels"]}
    first, *rest = labels
    asked: list[str] = []

    def model(request: Request) -> Scripted:
        asked.append(str(request["messages"]))
        groups = [{"name": "All the rest", "labels": [labels[name] for name in rest]}]
        groups += [{"name": first, "labels": [labels[first]]}] * (len(asked) > 1)
        return say(json.dumps({"comment": "By what they hold.", "groups": groups, "confidence": 2}))

    with llm_server(model) as server:
        endpoint = endpoint_at(server.url)
        start_proposals(maker, session, f"{endpoint.pk}/scripted-1")
        job = carried_out("propose_labels")
    assert (job.result["labelled"], job.result["failed"]) == (1, [])
    assert all(name in asked[0] for name in labels)
    assert f"{first}” is in no group yet" in asked[1]
    label = Label.objects.get()
    assert [(group["name"], len(group["labels"])) for group in label.groups] == [
        (first, 1),
        ("All the rest", len(rest)),
    ]
    assert not shown_labels(maker, session).exists(), "hidden from everybody while people label"
    for user in others:
        seed.grouped(user, session, {"Everything": list(labels.values())})
    sessions.close_round(maker, session.pk)
    (dispute,) = adjudication.list_disputes(session, all_items=True)
    assert dispute.distance == 0, "it parts what people put together, and does not count"
    assert [one.pk for one in dispute.judges] == [label.pk]
    (measured,) = round_labels.read_merge_rounds(session)
    assert measured.models == {label.judge}
    page = client_of(maker).get(reverse("labelling:item", args=[dispute.item.pk])).content.decode()
    assert f"1 group: All the rest ({len(rest)}); 1 label ungrouped" in page
