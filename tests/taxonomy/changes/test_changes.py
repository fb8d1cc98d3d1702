"""Changes of the tree by their services: what moves, what is counted, what is refused, and back again by undo."""

from __future__ import annotations

import random
from typing import Any

import pytest

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from tests.taxonomy.changes.grove import SEP, changed, judge, node, nodes, picture, plant, undone
from tests.taxonomy.test_tree import at_once, numbers
from webapp.accounts.models import AuditEntry
from webapp.environments.models import Environment
from webapp.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.pages.recount import recount_nodes
from webapp.taxonomy.changes import services, wishes
from webapp.taxonomy.changes.undo import undo
from webapp.taxonomy.changes.wishes import Parting
from webapp.taxonomy.former import present_node
from webapp.taxonomy.models import Node, Theme, TreeChange


@pytest.mark.django_db
def test_a_moved_node_takes_everything_with_it_and_back() -> None:
    tree, user = plant(), judge()
    before = picture()
    made = changed(user, wishes.move(tree["money" + SEP + "banking"], tree["ferries"]), why="It is ferry money.")
    assert made.words == "Moved “Banking” from Money to Ferries"
    assert node(SEP.join(("ferries", "banking", "cards"))).level == 3
    assert numbers("ferries", "environments", "themes", "children") == [1, 2, 1]
    assert numbers("money", "environments", "themes", "children") == [2, 0, 1]
    entry = AuditEntry.objects.get(action="taxonomy.move")
    assert (entry.actor, entry.detail["why"]) == (user, "It is ferry money.")
    changed(user, wishes.move(tree["money" + SEP + "insurance"], None))
    assert (node("insurance").level, node("insurance").parent) == (1, None)
    undone(user, TreeChange.objects.get(kind="move", words__contains="Insurance"))
    undone(user, made)
    assert picture() == before


@pytest.mark.django_db
def test_merged_nodes_become_one_with_children_of_one_name() -> None:
    tree, user = plant(), judge()
    before = picture()
    made = changed(user, wishes.merge([tree["money"], tree["ferries"]], tree["savings"], "Money matters"))
    assert made.words == "Merged “Money” and “Ferries” into “Savings”, now “Money matters”"
    assert sorted(nodes()) == sorted(
        ["money matters", *(f"money matters{SEP}{one}" for one in ("banking", "bookkeeping", "insurance"))]
        + [SEP.join(("money matters", "banking", one)) for one in ("cards", "loans")]
        + ["weather", "weather" + SEP + "api integration", SEP.join(("weather", "api integration", "storm warnings"))]
    )
    assert numbers("money matters", "environments", "themes", "tasks", "children") == [3, 4, 9, 3]
    assert numbers(SEP.join(("money matters", "banking", "loans")), "themes") == [2]
    assert present_node(tree["money"]) == present_node(tree["savings"]) == node("money matters")
    assert present_node(tree[SEP.join(("money", "banking", "loans"))]) == Node.objects.get(name="Loans")
    undone(user, made)
    assert picture() == before
    assert present_node(tree["money"]) == node("money")


@pytest.mark.django_db
def test_a_node_is_split_renamed_and_deleted() -> None:
    tree, user = plant(), judge()
    before = picture()
    bank = tree["money" + SEP + "banking"]
    theme = Theme.objects.get(node=tree[SEP.join(("money", "banking", "cards"))])
    first, second = Environment.objects.filter(node=tree["money"]).order_by("pk")
    parting = Parting({"environments": [first.pk]}, [bank])
    split = changed(user, wishes.split(tree["money"], "Bank desks", parting))
    assert numbers("bank desks", "environments", "tasks", "themes", "children") == [1, 2, 2, 1]
    assert numbers("money", "environments", "tasks", "themes", "children") == [1, 3, 0, 1]
    cards = changed(user, wishes.split(theme.node_id, "Plastic", Parting({"themes": [theme.pk]}), below=False))
    assert node(SEP.join(("bank desks", "banking", "plastic"))).counts.themes == 1
    renamed = changed(user, wishes.rename(tree["ferries"], "Trips"))
    assert (renamed.words, node("trips").pk) == ("Renamed “Ferries” to “Trips”", tree["ferries"])
    empty = changed(user, wishes.delete(theme.node_id))
    assert present_node(theme.node_id) is None
    deleted = changed(user, wishes.delete(node("bank desks").pk, tree["savings"]))
    assert numbers("savings", "environments", "themes") == [1, 4]
    for one in (deleted, empty, renamed, cards, split):
        undone(user, one)
    assert picture() == before
    second.refresh_from_db()
    assert second.node_id == tree["money"]


@pytest.mark.django_db
def test_what_the_tree_cannot_be_is_refused_and_changes_nothing() -> None:
    tree, user = plant(), judge()
    before, bank = picture(), tree["savings" + SEP + "banking"]
    refused: list[tuple[Any, str]] = [
        (wishes.move(tree["savings"], bank), "cannot stand below itself"),
        (wishes.move(tree["savings"], tree["money"]), "on a level below the third"),
        (wishes.move(bank, tree["money"]), "There is a label “Banking” below “Money” already. Merge the two"),
        (wishes.move(bank, tree["savings"]), "stands there already"),
        (wishes.move(bank, 987_654), "There is no label 987654"),
        (wishes.merge([tree["savings"]], bank), "merge the other way round"),
        (wishes.merge([bank], bank), "at least one other label"),
        (wishes.merge([tree["savings"]], tree["money" + SEP + "insurance"]), "on a level below the third"),
        (wishes.rename(tree["savings"], " money"), "Merge the two, or take another name"),
        (wishes.rename(tree["savings"], "  "), "needs a name"),
        (wishes.delete(tree["savings"]), "Labels stand below “Savings”"),
        (wishes.delete(tree["ferries"]), "1 environment (“Desk e3”) would hang nowhere"),
        (wishes.split(tree["money"], "Rest", Parting()), "Choose what the new label takes"),
        (wishes.split(tree["money"], "Ferries", Parting(nodes=[tree["money" + SEP + "banking"]])), "Merge the two"),
        (wishes.split(tree["money"], "New", Parting({"themes": [1]})), "do not hang on “Money” itself"),
    ]
    for wish, words in refused:
        with pytest.raises(InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
            services.change(user, wish, seen=services.serial())
    with pytest.raises(Conflict, match="change the tree"):
        services.change(pages_seed.person("annotator"), wishes.rename(bank, "Banks"), seen=0)
    assert picture() == before
    assert not TreeChange.objects.exists()


@pytest.mark.django_db
def test_an_undo_is_refused_while_later_changes_stand_in_its_way() -> None:
    tree, user = plant(), judge()
    before = picture()
    first = changed(user, wishes.merge([tree["money"]], tree["savings"]))
    second = changed(user, wishes.rename(tree["savings"], "Treasury"))
    moved = changed(user, wishes.split(tree["savings"], "Own", Parting({"environments": first_two(tree["savings"])})))
    with pytest.raises(Conflict, match=rf"moved on by.*“Split “Own” off.*\(change {moved.pk}\)"):
        undo(user, first.pk)
    undone(user, moved)
    with pytest.raises(Conflict, match="undone already"):
        undo(user, moved.pk)
    with pytest.raises(Conflict, match="An undo cannot be undone"):
        undo(user, TreeChange.objects.get(undoes=moved).pk)
    undone(user, first), undone(user, second)
    assert picture() == before
    with pytest.raises(NotFound):
        undo(user, 987_654)
    gone = changed(user, wishes.move(tree["ferries"], tree["weather"]))
    changed(user, wishes.delete(tree["weather"], tree["money"]))
    with pytest.raises(Conflict, match=r"“Ferries” stands elsewhere now\. Undo first: “Deleted “Weather”"):
        undo(user, gone.pk)


def first_two(pk: int) -> list[int]:
    return list(Environment.objects.filter(node=pk).values_list("pk", flat=True)[:2])


@pytest.mark.django_db
def test_a_stale_tree_is_refused() -> None:
    tree, user = plant(), judge()
    seen = services.serial()
    changed(user, wishes.rename(tree["ferries"], "Trips"))
    with pytest.raises(ChangedMeanwhile, match=f"Renamed “Ferries” to “Trips” by {user.username}") as refused:
        services.change(user, wishes.rename(tree["ferries"], "Journeys"), seen=seen)
    assert refused.value.facts == {"serial": services.serial()}


@pytest.mark.django_db
def test_any_sequence_of_changes_keeps_counts_and_comes_back() -> None:
    plant()
    user, dice = judge(), random.Random(7)
    before, made = picture(), []
    for turn in range(40):
        known = list(Node.objects.values_list("pk", "parent_id"))
        pk, other = dice.choice(known)[0], dice.choice(known)[0]
        things = {"themes": list(Theme.objects.filter(node=pk).values_list("pk", flat=True)[:1])}
        things["environments"] = first_two(pk)[:1]
        wish = [
            wishes.move(pk, other if dice.random() < 0.5 else None),
            wishes.merge([pk], other, f"Merged {turn}"),
            wishes.split(pk, f"Part {turn}", Parting(things), below=dice.random() < 0.5),
            wishes.rename(pk, f"Name {turn}"),
            wishes.delete(pk, other if dice.random() < 0.7 else None),
        ][turn % 5]
        try:
            made.append(changed(user, wish))
        except InputError:
            continue
    assert len(made) > 12
    assert {one.kind for one in made} == {"move", "merge", "split", "rename", "delete"}
    for one in reversed(made):
        undone(user, one)
    assert picture() == before


@pytest.mark.django_db(transaction=True)
def test_changes_beside_counting_and_beside_each_other_lose_nothing() -> None:
    from tests.taxonomy.samples import entries, environment, server
    from webapp.environments import totals
    from webapp.taxonomy.importer import import_servers

    tree, user = plant(), judge()
    rows = list(Environment.objects.order_by("pk"))

    def counting(offset: int) -> None:
        for turn in range(12):
            totals.count(rows[(turn + offset) % len(rows)].pk, tasks=1, trajectories=2)

    def importing() -> None:
        for turn in range(6):
            import_servers(entries(server(100 + turn, primary_label=("Money", "Ferries")[turn % 2])))
            environment(f"n{turn}", "Money")

    def reshaping(pk: int, name: str) -> int:
        done = 0
        for turn in range(4):
            for wish in (wishes.rename(pk, f"{name} {turn}"), wishes.move(tree["money" + SEP + "banking"], pk)):
                try:
                    services.change(user, wish, seen=services.serial())
                    done += 1
                except InputError:  # the other one was quicker, or it stands there
                    pass
        return done

    at_once(
        lambda: counting(0), lambda: counting(1), importing,
        lambda: reshaping(tree["ferries"], "Trips"), lambda: reshaping(tree["weather"], "Skies"),
    )  # fmt: skip
    assert TreeChange.objects.count() >= 4
    assert sum(Environment.objects.values_list("task_count", flat=True)) == 10 + 24
    assert recount_nodes() == []
    changed(user, wishes.merge([tree["ferries"]], tree["weather"]))
    for one in TreeChange.objects.filter(undone_by=None).exclude(kind="undo").order_by("-id"):
        undo(user, one.pk)
    assert nodes()["ferries"] == tree["ferries"]
