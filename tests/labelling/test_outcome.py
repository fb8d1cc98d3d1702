"""The result of a session on the tree: carried out as one change, undone, and what hinders it."""

from __future__ import annotations

import pytest
from django.test import Client

from synthesis.errors import InputError
from tests.labelling import seed
from webapp.accounts.models import AuditEntry, User
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.environments.models import Environment
from webapp.labelling.adjudication import settle_agreed_items, settle_with_label
from webapp.labelling.answers import LabelChoice, Placing, submit_label
from webapp.labelling.models import Label, LabelSession, SessionState
from webapp.labelling.outcome.effects import apply_outcome
from webapp.labelling.outcome.outcomes import compute_outcome
from webapp.labelling.sessions import close_round
from webapp.pages.recount import recount_nodes
from webapp.taxonomy.changes import services, wishes
from webapp.taxonomy.changes.undo import take_back_change
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node, TreeChange
from webapp.taxonomy.services import place_paths

pytestmark = pytest.mark.django_db


def placed() -> tuple[User, LabelSession, dict[str, int]]:
    """Two environments that hang on Clubs and of which two people agree: Banking, Payroll."""
    judge, ann, bob = seed.people("adjudicator", "annotator", "annotator")
    nodes = seed.tree()
    rows = [seed.environment(name, nodes["Clubs"]) for name in ("Ledger", "Wages")]
    recount_nodes()
    session = seed.place_session(judge)
    wanted = {"Ledger": nodes["Banking"], "Wages": nodes["Payroll"]}
    for person in (ann, bob):
        for _ in rows:
            held = seed.pulled(person, session)
            submit_label(person, held.pk, LabelChoice(placing=Placing(wanted[held.ask.item.name])))
    close_round(judge, session.pk)
    return judge, session, nodes


def test_placings_are_carried_out_as_one_change_and_back() -> None:
    judge, session, nodes = placed()
    with pytest.raises(InputError, match="2 of 2 items are not settled yet"):
        apply_outcome(judge, session.pk, seen=services.get_serial())
    settle_agreed_items(judge, session.pk)
    change = apply_outcome(judge, session.pk, seen=services.get_serial(), why="All agree.")
    assert change.words == "Carried out “Place environments”: 2 environments moved"
    assert [row.node_id for row in Environment.objects.order_by("pk")] == [nodes["Banking"], nodes["Payroll"]]
    assert recount_nodes() == []
    session.refresh_from_db()
    assert (session.state, session.change) == (SessionState.APPLIED, change)
    with pytest.raises(Conflict, match="Undo that first"):
        apply_outcome(judge, session.pk, seen=services.get_serial())
    client = Client()
    client.force_login(judge)
    page = client.post(
        f"/taxonomy/changes/{change.pk}/undo/", {"back": f"/taxonomy/sessions/{session.pk}/"}, follow=True
    )
    assert "that was undone" in page.content.decode()
    session.refresh_from_db()
    assert session.state == SessionState.CLOSED
    assert {row.node_id for row in Environment.objects.all()} == {nodes["Clubs"]}
    assert recount_nodes() == []
    assert AuditEntry.objects.filter(action__in=["label_session.apply", "label_session.unapply"]).count() == 2


def test_a_session_on_a_tree_that_others_changed_says_what_hinders_it() -> None:
    judge, session, nodes = placed()
    settle_agreed_items(judge, session.pk)
    seen = services.get_serial()
    services.change_tree(judge, wishes.build_merge([nodes["Banking"]], nodes["Lending"]), seen=seen)
    services.change_tree(judge, wishes.build_delete(nodes["Payroll"]), seen=services.get_serial())
    with pytest.raises(ChangedMeanwhile, match="Deleted “Finance"):
        apply_outcome(judge, session.pk, seen=seen)
    found = compute_outcome(session)
    assert [one.node for one in found.movements] == [nodes["Lending"]]
    assert found.hindrances == (
        "“Wages” belongs on Finance \u203a Bookkeeping \u203a Payroll, which is not in the tree any more.",
    )
    assert found.notes == (
        "“Finance \u203a Banking” is part of “Community \u203a Lending” now: what belongs there goes there.",
    )
    client = Client()
    client.force_login(judge)
    html = client.get(f"/taxonomy/sessions/{session.pk}/result/").content.decode()
    assert "which is not in the tree any more" in html
    page = client.post(f"/taxonomy/sessions/{session.pk}/carry-out/", {"serial": str(seen)})
    assert (page.status_code, b"The tree was changed since" in page.content) == (412, True)
    page = client.post(
        f"/taxonomy/sessions/{session.pk}/carry-out/", {"serial": str(services.get_serial())}, follow=True
    )
    assert "The result is carried out" in page.content.decode()
    assert Environment.objects.get(name="Ledger").node_id == nodes["Lending"]
    assert recount_nodes() == []


def test_groups_of_labels_are_merged_in_one_change_and_what_cannot_be_is_said() -> None:
    judge, ann = seed.people("adjudicator", "annotator")
    nodes = seed.tree()
    seed.environment("Ledger", nodes["Clubs"])
    recount_nodes()
    before = dict(Node.objects.values_list("path", "pk"))
    session = seed.merge_session(judge, overlap=1)
    groups = {
        "Lending": [nodes["Clubs"]], "Clubs": [nodes["Lending"]],
        "Money": [nodes["Banking"], nodes["Bookkeeping"]], "Desks": [nodes["Ticketing"]],
    }  # fmt: skip
    seed.grouped(ann, session, groups, renamed=("Lending", "Clubs", "Desks"))
    close_round(judge, session.pk)
    settle_with_label(judge, session.items.get().pk, Label.objects.get().pk)
    late = place_paths([("Travel", "Desks")])
    found = compute_outcome(session)
    assert found.hindrances == (
        "Ticketing cannot become “Desks”. There is a label “Desks” below “Travel” already. Merge the two, or take "
        "another name.",
    )
    change = apply_outcome(judge, session.pk, seen=services.get_serial())
    assert change.words == "Carried out “Merge labels”: 2 labels became 1, 2 labels renamed"
    assert Node.objects.get(name="Lending").pk == nodes["Clubs"], "two labels changed names"
    assert find_present_node(nodes["Bookkeeping"]) == Node.objects.get(name="Money")
    assert recount_nodes() == []
    take_back_change(judge, change.pk)
    session.refresh_from_db()
    assert session.state == SessionState.CLOSED
    assert dict(Node.objects.exclude(pk__in=late.values()).values_list("path", "pk")) == {
        path: pk for path, pk in before.items() if path != "travel"
    }
    assert TreeChange.objects.count() == 2
