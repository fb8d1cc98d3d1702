"""What comes in after a change: labels that were renamed, moved or merged lead to what they became."""

from __future__ import annotations

import pytest

from tests.taxonomy.changes.grove import SEP, changed, judge, node, nodes, plant, undone
from tests.taxonomy.samples import entries, environment, server
from webapp.environments.models import Environment
from webapp.pages.recount import recount_nodes
from webapp.taxonomy.changes import wishes
from webapp.taxonomy.changes.wishes import Parting
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import FormerPath, Node, Theme
from webapp.taxonomy.services import place_paths


@pytest.mark.django_db
def test_old_labels_lead_to_what_they_became_and_make_no_node_again() -> None:
    tree, user = plant(), judge()
    changed(user, wishes.build_rename(tree["money" + SEP + "banking"], "Banks"))
    changed(user, wishes.build_move(tree["money" + SEP + "insurance"], tree["ferries"]))
    changed(user, wishes.build_merge([tree["money"]], tree["savings"]))
    changed(user, wishes.build_rename(tree["savings"], "Finances of all"))
    known = nodes()
    cards = {"primary_label": "Money", "secondary_labels": ["Banking"], "custom_label": "Cards"}
    policies = {"primary_label": "Money", "secondary_labels": ["Insurance"], "custom_label": None}
    import_servers(entries(server(50, **cards), server(51, **policies)))
    row = environment("late", "MONEY")
    assert nodes() == known
    assert Theme.objects.get(key="50").node_id == tree[SEP.join(("money", "banking", "cards"))]
    assert Theme.objects.get(key="51").node_id == tree["money" + SEP + "insurance"]
    assert row.node_id == tree["savings"]
    deep = place_paths([("Money", "Banking", "Safes"), ("Money", "New below")])
    assert Node.objects.get(pk=deep["Money", "Banking", "Safes"]).path == SEP.join(
        ("finances of all", "banks", "safes")
    )
    assert Node.objects.get(pk=deep["Money", "New below"]).path == "finances of all" + SEP + "new below"
    assert recount_nodes() == []


@pytest.mark.django_db
def test_below_the_third_level_things_hang_on_the_third() -> None:
    tree, user = plant(), judge()
    changed(user, wishes.build_move(tree["ferries"], tree["money" + SEP + "insurance"]))
    found = place_paths([("Ferries", "Tickets", "Sold out"), ("Ferries",)])
    assert set(found.values()) == {tree["ferries"]}
    assert node(SEP.join(("money", "insurance", "ferries"))).pk == tree["ferries"]


@pytest.mark.django_db
def test_what_people_moved_stays_when_the_same_thing_comes_in_anew() -> None:
    tree, user = plant(), judge()
    row = Environment.objects.get(key="e1")
    theme = Theme.objects.get(key="5")
    changed(user, wishes.build_split(tree["money"], "Own desk", Parting({"environments": [row.pk]})))
    changed(user, wishes.build_split(theme.node_id, "Own theme", Parting({"themes": [theme.pk]})))
    import_servers(entries(server(5, overview="Other words.")))
    assert environment("e1", "Money", "Other words.").node_id == node("own desk").pk
    theme.refresh_from_db()
    assert (theme.description, theme.node.name) == ("Other words.", "Own theme")
    assert environment("e1", "Gaming", "Another category.").node_id == node("own desk").pk
    assert environment("e2", "Gaming", "Another category.").node_id == node("gaming").pk, "nobody moved this one"
    others = {"primary_label": "Gaming", "overview": "Other labels."}
    import_servers(entries(server(5, **others), server(4, **others)))
    theme.refresh_from_db()
    assert theme.node.name == "Own theme"
    assert Theme.objects.get(key="4").node.path.startswith("gaming"), "nobody moved this one"
    assert recount_nodes() == []


@pytest.mark.django_db
def test_an_undo_and_a_new_node_take_their_paths_back() -> None:
    tree, user = plant(), judge()
    renamed = changed(user, wishes.build_rename(tree["money"], "Cash"))
    assert place_paths([("Money",)])[("Money",)] == tree["money"]
    undone(user, renamed)
    assert not FormerPath.objects.exists()
    assert place_paths([("Cash",)])[("Cash",)] != tree["money"]
    merged = changed(user, wishes.build_merge([tree["ferries"]], tree["money"]))
    again = changed(user, wishes.build_split(tree["money"], "Ferries", Parting({"environments": [e3()]})))
    assert place_paths([("Ferries",)])[("Ferries",)] == node("ferries").pk != tree["ferries"]
    assert find_present_node(tree["ferries"]) == node("money")
    undone(user, again), undone(user, merged)
    assert place_paths([("Ferries",)])[("Ferries",)] == tree["ferries"]


def e3() -> int:
    return Environment.objects.get(key="e3").pk
