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
from webapp.common.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.environments.models import Environment
from webapp.pages.recount import recount_nodes
from webapp.taxonomy.changes import services, wishes
from webapp.taxonomy.changes.undo import take_back_change
from webapp.taxonomy.changes.wishes import Parting
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node, Theme, TreeChange


@pytest.mark.django_db
def test_a_moved_node_takes_everything_with_it_and_back() -> None:
    tree, user = plant(), judge()
    before = picture()
    made = changed(user, wishes.build_move(tree["money" + SEP + "banking"], tree["ferries"]), why="It is ferry money.")
    assert made.words == "Moved “Banking” from Money to Ferries"
    assert node(SEP.join(("ferries", "banking", "cards"))).level == 3
    assert numbers("ferries", "environments", "themes", "children") == [1, 2, 1]
    assert numbers("money", "environments", "themes", "children") == [2, 0, 1]
    entry = AuditEntry.objects.get(action="taxonomy.move")
    assert (entry.actor, entry.detail["why"]) == (user, "It is ferry money.")
    changed(user, wishes.build_move(tree["money" + SEP + "insurance"], None))
    assert (node("insurance").level, node("insurance").parent) == (1, None)
    undone(user, TreeChange.objects.get(kind="move", words__contains="Insurance"))
    undone(user, made)
    assert picture() == before


@pytest.mark.django_db
def test_merged_nodes_become_one_with_children_of_one_name() -> None:
    tree, user = plant(), judge()
    before = picture()
    made = changed(user, wishes.build_merge([tree["money"], tree["ferries"]], tree["savings"], "Money matters"))
    assert made.words == "Merged “Money” and “Ferries” into “Savings”, now “Money matters”"
    assert sorted(nodes()) == sorted(
        ["money matters", *(f"money matters{SEP}{one}" for one in ("banking", "bookkeeping", "insurance"))]
        + [SEP.join(("money matters", "banking", one)) for one in ("cards", "loans")]
        + ["weather", "weather" + SEP + "api integration", SEP.join(("weather", "api integration", "storm warnings"))]
    )
    assert numbers("money matters", "environments", "themes", "tasks", "children") == [3, 4, 9, 3]
    assert numbers(SEP.join(("money matters", "banking", "loans")), "themes") == [2]
    assert find_present_node(tree["money"]) == find_present_node(tree["savings"]) == node("money matters")
    assert find_present_node(tree[SEP.join(("money", "banking", "loans"))]) == Node.objects.get(name="Loans")
    undone(user, made)
    assert picture() == before
    assert find_present_node(tree["money"]) == node("money")


@pytest.mark.django_db
def test_a_node_is_split_renamed_and_deleted() -> None:
    tree, user = plant(), judge()
    before = picture()
    bank = tree["money" + SEP + "banking"]
    theme = Theme.objects.get(node=tree[SEP.join(("money", "banking", "cards"))])
    first, second = Environment.objects.filter(node=tree["money"]).order_by("pk")
    parting = Parting({"environments": [first.pk]}, [bank])
    split = changed(user, wishes.build_split(tree["money"], "Bank desks", parting))
    assert numbers("bank desks", "environments", "tasks", "themes", "children") == [1, 2, 2, 1]
    assert numbers("money", "environments", "tasks", "themes", "children") == [1, 3, 0, 1]
    cards = changed(user, wishes.build_split(theme.node_id, "Plastic", Parting({"themes": [theme.pk]}), below=False))
    assert node(SEP.join(("bank desks", "banking", "plastic"))).counts.themes == 1
    renamed = changed(user, wishes.build_rename(tree["ferries"], "Trips"))
    assert (renamed.words, node("trips").pk) == ("Renamed “Ferries” to “Trips”", tree["ferries"])
    empty = changed(user, wishes.build_delete(theme.node_id))
    assert find_present_node(theme.node_id) is None
    deleted = changed(user, wishes.build_delete(node("bank desks").pk, tree["savings"]))
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
        (wishes.build_move(tree["savings"], bank), "cannot be below itself"),
        (wishes.build_move(tree["savings"], tree["money"]), "on a level below the third"),
        (wishes.build_move(bank, tree["money"]), "There is a label “Banking” below “Money” already. Merge the two"),
        (wishes.build_move(bank, tree["savings"]), "is there already"),
        (wishes.build_move(bank, 987_654), "There is no label 987654"),
        (wishes.build_merge([tree["savings"]], bank), "merge the other way round"),
        (wishes.build_merge([bank], bank), "at least one other label"),
        (wishes.build_merge([tree["savings"]], tree["money" + SEP + "insurance"]), "on a level below the third"),
        (wishes.build_rename(tree["savings"], " money"), "Merge the two, or take another name"),
        (wishes.build_rename(tree["savings"], "  "), "needs a name"),
        (wishes.build_delete(tree["savings"]), "There are labels below “Savings”"),
        (wishes.build_delete(tree["ferries"]), "1 environment (“Desk e3”) would hang nowhere"),
        (wishes.build_split(tree["money"], "Rest", Parting()), "Choose what the new label takes"),
        (
            wishes.build_split(tree["money"], "Ferries", Parting(nodes=[tree["money" + SEP + "banking"]])),
            "Merge the two",
        ),
        (wishes.build_split(tree["money"], "New", Parting({"themes": [1]})), "do not hang on “Money” itself"),
    ]
    for wish, words in refused:
        with pytest.raises(InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
            services.change_tree(user, wish, seen=services.get_serial())
    with pytest.raises(Conflict, match="change the tree"):
        services.change_tree(pages_seed.person("annotator"), wishes.build_rename(bank, "Banks"), seen=0)
    assert picture() == before
    assert not TreeChange.objects.exists()


@pytest.mark.django_db
def test_an_undo_is_refused_while_later_changes_stand_in_its_way() -> None:
    tree, user = plant(), judge()
    before = picture()
    first = changed(user, wishes.build_merge([tree["money"]], tree["savings"]))
    second = changed(user, wishes.build_rename(tree["savings"], "Treasury"))
    moved = changed(
        user, wishes.build_split(tree["savings"], "Own", Parting({"environments": first_two(tree["savings"])}))
    )
    with pytest.raises(Conflict, match=rf"moved on by.*“Split “Own” off.*\(change {moved.pk}\)"):
        take_back_change(user, first.pk)
    undone(user, moved)
    with pytest.raises(Conflict, match="undone already"):
        take_back_change(user, moved.pk)
    with pytest.raises(Conflict, match="An undo cannot be undone"):
        take_back_change(user, TreeChange.objects.get(undoes=moved).pk)
    undone(user, first), undone(user, second)
    assert picture() == before
    with pytest.raises(NotFound):
        take_back_change(user, 987_654)
    gone = changed(user, wishes.build_move(tree["ferries"], tree["weather"]))
    changed(user, wishes.build_delete(tree["weather"], tree["money"]))
    with pytest.raises(Conflict, match=r"“Ferries” is elsewhere now\. Undo first: “Deleted “Weather”"):
        take_back_change(user, gone.pk)


def first_two(pk: int) -> list[int]:
    return list(Environment.objects.filter(node=pk).values_list("pk", flat=True)[:2])


@pytest.mark.django_db
def test_a_stale_tree_is_refused() -> None:
    tree, user = plant(), judge()
    seen = services.get_serial()
    changed(user, wishes.build_rename(tree["ferries"], "Trips"))
    with pytest.raises(ChangedMeanwhile, match=f"Renamed “Ferries” to “Trips” by {user.username}") as refused:
        services.change_tree(user, wishes.build_rename(tree["ferries"], "Journeys"), seen=seen)
    assert refused.value.facts == {"serial": services.get_serial()}


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
            wishes.build_move(pk, other if dice.random() < 0.5 else None),
            wishes.build_merge([pk], other, f"Merged {turn}"),
            wishes.build_split(pk, f"Part {turn}", Parting(things), below=dice.random() < 0.5),
            wishes.build_rename(pk, f"Name {turn}"),
            wishes.build_delete(pk, other if dice.random() < 0.7 else None),
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
            totals.add_counts(rows[(turn + offset) % len(rows)].pk, tasks=1, trajectories=2)

    def importing() -> None:
        for turn in range(6):
            import_servers(entries(server(100 + turn, primary_label=("Money", "Ferries")[turn % 2])))
            environment(f"n{turn}", "Money")

    def reshaping(pk: int, name: str) -> int:
        done = 0
        for turn in range(4):
            for wish in (
                wishes.build_rename(pk, f"{name} {turn}"),
                wishes.build_move(tree["money" + SEP + "banking"], pk),
            ):
                try:
                    services.change_tree(user, wish, seen=services.get_serial())
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
    changed(user, wishes.build_merge([tree["ferries"]], tree["weather"]))
    for one in TreeChange.objects.filter(undone_by=None).exclude(kind="undo").order_by("-id"):
        take_back_change(user, one.pk)
    assert nodes()["ferries"] == tree["ferries"]
