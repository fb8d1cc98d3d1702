"""Pages and API of the tree's changes: preview before anything is done, redirects, stale trees, history, coverage."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.fixtures import pages_seed, replay_seed
from tests.taxonomy.changes.grove import SEP, changed, judge, node, nodes, plant, undone
from webapp.accounts.tokens import create_token
from webapp.common.lists.models import SavedView
from webapp.environments.models import Environment
from webapp.pages.recount import attach_stray_environments
from webapp.scenarios.models import Task
from webapp.taxonomy.changes import services, wishes
from webapp.taxonomy.models import Node, TreeChange

pytestmark = pytest.mark.django_db


def at(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_change_is_looked_at_first_then_carried_out_and_undone() -> None:
    tree, user = plant(), judge()
    page = at(user)
    SavedView.objects.create(
        owner=user, list_name="environments", name="Cash", query=f"node={tree['money']}", shared=True
    )
    html = page.get(f"/taxonomy/{tree['money']}/change/").content.decode()
    assert all(f"/change/{kind}/" in html for kind in ("move", "merge", "split", "rename", "delete"))
    html = page.get(f"/taxonomy/{tree['money']}/change/merge/", {"find": "savings"}).content.decode()
    assert "Merged “Money” into “Savings”" in html, "one label is found: it is looked at"
    for words in ("Money \u203a Banking", "becomes", "Desk e1", "Forecast 0", "Cash (Environments)"):
        assert words in html, words
    assert not TreeChange.objects.exists()
    sent = {"to": str(tree["savings"]), "serial": "0", "why": "Both are money."}
    answer = page.post(f"/taxonomy/{tree['money']}/change/merge/", sent)
    made = TreeChange.objects.get()
    assert answer["Location"] == f"/taxonomy/{tree['savings']}/?changed={made.pk}"
    assert f"/taxonomy/changes/{made.pk}/undo/" in page.get(answer["Location"]).content.decode()
    stale = page.post(f"/taxonomy/{tree['ferries']}/change/rename/", {"name": "Trips", "serial": "0"})
    assert (stale.status_code, "The tree was changed since" in stale.content.decode()) == (412, True)
    assert f'name="serial" value="{made.pk}"' in stale.content.decode(), "it can be carried out from here"
    html = page.get("/taxonomy/changes/").content.decode()
    assert "Both are money." in html
    assert "became" in page.get(f"/taxonomy/changes/{made.pk}/").content.decode()
    answer = page.post(f"/taxonomy/changes/{made.pk}/undo/", {"back": "https://elsewhere.example/"})
    assert answer["Location"] == "/taxonomy/changes/"
    assert nodes() == tree


def test_a_label_is_offered_only_places_that_have_room_for_what_moves_along() -> None:
    tree, user = plant(), judge()
    page = at(user)
    low = page.get(f"/taxonomy/{tree['ferries']}/change/move/").context["form"].candidates
    assert {one.node.name for one in low.rows} >= {"Money", "Savings"}
    high = page.get(f"/taxonomy/{tree['money']}/change/move/")
    assert high.context["form"].candidates.rows == (), "with two levels below it, it fits below no other"
    assert "the tree has three levels" in " ".join(high.content.decode().split())


def test_addresses_lead_to_what_a_label_became_until_that_is_undone() -> None:
    tree, user = plant(), judge()
    page = at(user)
    merged = changed(user, wishes.build_merge([tree["money"]], tree["savings"]))
    gone = changed(user, wishes.build_delete(tree[SEP.join(("savings", "bookkeeping"))], tree["savings"]))
    insurance = tree["money" + SEP + "insurance"]
    empty = changed(user, wishes.build_delete(insurance))
    answer = page.get(f"/taxonomy/{tree['money']}/?tab=labels", follow=True)
    assert answer.redirect_chain == [(f"/taxonomy/{tree['savings']}/?tab=labels", 302)]
    assert "“Money” is part of “Savings” now" in answer.content.decode()
    assert page.get(f"/taxonomy/{insurance}/").status_code == 410
    assert page.get("/taxonomy/987654/").status_code == 404
    assert page.get("/environments/", {"node": tree["money"]}).context["filters"].node == node("savings")
    token = create_token(user, user, "t", ["read", "review"])[1]
    api = Client(headers={"authorization": f"Bearer {token}"})
    assert api.get(f"/api/v1/taxonomy/{tree['money']}")["Location"] == f"/api/v1/taxonomy/{tree['savings']}"
    for one in (empty, gone, merged):
        undone(user, one)
    assert page.get(f"/taxonomy/{tree['money']}/").status_code == 200


def test_people_who_may_not_see_why_and_change_nothing() -> None:
    tree = plant()
    page = at(pages_seed.person("annotator"))
    assert "change/" not in page.get("/taxonomy/").content.decode()
    html = page.get(f"/taxonomy/{tree['money']}/change/rename/", {"name": "Cash"}).content.decode()
    assert "Adjudicators, researchers and operators change the tree" in html
    answer = page.post(f"/taxonomy/{tree['money']}/change/rename/", {"name": "Cash", "serial": "0"})
    assert answer.status_code == 409
    assert at(pages_seed.person("viewer")).get(f"/taxonomy/{tree['money']}/change/move/").status_code == 403
    assert nodes() == tree


def test_the_api_previews_changes_and_undoes() -> None:
    tree, user = plant(), judge()
    client = Client(headers={"authorization": f"Bearer {create_token(user, user, 't', ['read', 'review'])[1]}"})

    def send(path: str, body: dict[str, Any]) -> Any:
        return client.post(f"/api/v1/tree-changes{path}", body, content_type="application/json")

    wish = {"kind": "split", "node": tree["money"], "name": "Banks", "nodes": [tree["money" + SEP + "banking"]]}
    found = send("/preview", {"change": wish}).json()
    assert (found["words"], found["serial"], found["nodes"]) == ("Split “Banks” off “Money”, beside it", 0, 2)
    assert {part["title"]: part["number"] for part in found["parts"]} == {"Themes": 2}
    made = send("", {"change": wish, "serial": 0, "why": "Desks of banks."})
    assert (made.status_code, made.json()["by"], made.json()["why"]) == (201, user.username, "Desks of banks.")
    stale = send("", {"change": {"kind": "rename", "node": tree["money"], "name": "Cash"}, "serial": 0})
    assert (stale.status_code, stale.json()["error"]["code"]) == (412, "tree_changed")
    refused = send("/preview", {"change": {"kind": "move", "node": tree["money"], "parent": tree["money"]}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "below_itself")
    assert client.get("/api/v1/tree-changes", {"node": tree["money"]}).json()["data"][0]["kind"] == "split"
    assert send(f"/{made.json()['id']}/undo", {}).json()["undoes_id"] == made.json()["id"]
    assert send(f"/{made.json()['id']}/undo", {}).json()["error"]["code"] == "undone_already"
    assert nodes() == tree
    run = replay_seed.make(replay_seed.ordinary())
    attach_stray_environments()
    rename = {"kind": "rename", "node": Environment.objects.get(pk=run.environment_id).node_id, "name": "Elsewhere"}
    parts = {part["title"]: part for part in send("/preview", {"change": rename}).json()["parts"]}
    assert (parts["Environments"]["number"], parts["Tasks"]["numbers"][0]) == (1, ["draft", 1])


def test_coverage_sorts_marks_gaps_and_leads_to_a_filled_in_batch() -> None:
    tree, user = plant(), judge()
    page = at(user)
    found = page.get("/taxonomy/coverage/", {"sort": "-environments"}).context
    assert [row.node.name for row in found["covered"]][:1] == ["Money"]
    assert {row.node.name: row.gap for row in found["covered"]} == {
        "Money": "few tasks", "Ferries": "few tasks", "Weather": "few tasks", "Savings": "no environments"
    }  # fmt: skip
    html = page.get(f"/taxonomy/{tree['savings']}/", {"tab": "labels"}).content.decode()
    assert "A gap: no environment hangs here." in html
    task, _ = replay_seed.task_of(replay_seed.ordinary())
    Environment.objects.filter(pk=task.environment_id).update(node=tree["money"])
    Task.objects.filter(pk=task.pk).update(review_state="rejected")
    measures = page.get(f"/taxonomy/{tree['money']}/", {"tab": "labels"}).context["measures"]
    by_state = {measure.name: value for measure, value, _ in measures}
    assert by_state["rejected"] == 1, "tasks by state of review"
    assert by_state.keys() >= {"approved", "in_review", "changes_requested", "labels_disagree"}
    answer = page.get(f"/batches/new/for-label/{tree['savings']}/")
    assert answer["Location"] == f"/batches/new/?use_themes=1&themes_node={tree['savings']}"
    answer = page.get(f"/batches/new/for-label/{tree['money']}/", follow=True)
    assert "Desk e1" in answer.content.decode()
    empty = Node.objects.get(path="money" + SEP + "insurance")
    answer = page.get(f"/batches/new/for-label/{empty.pk}/", follow=True)
    assert 'name="typed_category" value="Insurance"' in answer.content.decode()
    assert services.get_serial() == 0
