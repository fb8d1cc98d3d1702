"""The tree reshaped in Chromium: by keyboard alone, whatever a change does, and by drag; looked at first and undone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import faults, faults_of_look
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from tests.taxonomy.changes.grove import SEP, nodes, plant
from webapp.environments.models import Environment
from webapp.pages.recount import recount_nodes
from webapp.taxonomy.changes import services, undo, wishes
from webapp.taxonomy.models import Node, TreeChange
from webapp.taxonomy.services import place_paths

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def goes(page: Page, *keys: str) -> None:
    """The last key leads to another page."""
    press(page, *keys[:-1])
    with page.expect_navigation():
        page.keyboard.press(keys[-1])


def on_label(page: Page, name: str) -> None:
    """The focus on a label of the first level, by the letter that it alone begins with."""
    page.goto("/taxonomy/")
    press(page, "j")
    press(page, name[0].lower())
    expect(page.locator("#tree :focus > .node > .name")).to_have_text(name)


def carried_out(page: Page, kind: str) -> TreeChange:
    goes(page, "x")
    expect(page.locator(".just-done")).to_be_visible()
    made = TreeChange.objects.latest("pk")
    assert made.kind == kind
    assert recount_nodes() == []
    return made


def test_the_tree_is_reshaped_by_keyboard_alone(live_site: str, chromium: Browser) -> None:
    pages_seed.person("adjudicator")
    tree = plant()
    context, page, complaints = signed_in(chromium, live_site, "adjudicator")
    on_label(page, "Ferries")
    press(page, "Control+x")
    press(page, "ArrowDown")
    expect(page.locator("#tree :focus > .node > .name")).to_have_text("Money")
    goes(page, "Control+v")
    expect(page.locator("#preview")).to_contain_text("Money \u203a Ferries")
    expect(page.get_by_role("button", name="Move it")).to_be_focused()
    expect(page.get_by_role("button", name="Move it")).to_be_in_viewport()
    assert faults(page, "move") == []
    moved = carried_out(page, "move")
    assert nodes()["money" + SEP + "ferries"] == tree["ferries"]
    goes(page, "e")
    goes(page, "g")
    expect(page.get_by_label("Find a label by its name")).to_be_focused()
    page.keyboard.type("savings")
    goes(page, "Enter")
    expect(page.locator("#preview")).to_contain_text("becomes")
    carried_out(page, "merge")
    assert page.inner_text("h1") == "Savings"
    goes(page, "u")
    expect(page.locator("#flash")).to_contain_text("Old addresses are theirs again")
    on_label(page, "Money")
    press(page, ".")
    expect(page.get_by_role("menuitem", name="Move")).to_be_focused()
    goes(page, "s")
    page.keyboard.type("Desks")
    row = Environment.objects.get(key="e1")
    for _ in range(20):
        press(page, "Tab")
        if page.evaluate("document.activeElement.value") == str(row.pk):
            break
    press(page, "Space")
    goes(page, "l")
    assert faults(page, "split") == []
    carried_out(page, "split")
    row.refresh_from_db()
    assert row.node == Node.objects.get(path="desks")
    renamed_deleted_and_back(page, moved)
    assert set(nodes().values()) == set(tree.values())
    assert not complaints
    context.close()


def renamed_deleted_and_back(page: Page, moved: TreeChange) -> None:
    on_label(page, "Desks")
    goes(page, "F2")
    expect(page.get_by_label("New name")).to_be_focused()
    page.keyboard.type("Counters")
    goes(page, "Enter")
    carried_out(page, "rename")
    on_label(page, "Counters")
    goes(page, "Delete")
    page.keyboard.type("money")
    goes(page, "Enter")
    carried_out(page, "delete")
    assert page.inner_text("h1") == "Money"
    page.goto("/taxonomy/changes/")
    assert faults(page, "history") == []
    for one in TreeChange.objects.filter(undone_by=None, pk__gt=moved.pk).exclude(kind="undo").order_by("-pk"):
        page.goto(f"/taxonomy/changes/{one.pk}/")
        page.get_by_role("button", name="Undo").focus()
        goes(page, "Enter")


def dropped(page: Page, label: int, onto: int) -> None:
    page.locator(f"#n{label} > .node").drag_to(page.locator(f"#n{onto} > .node"))


def test_a_label_is_dragged_onto_another_and_merges_or_moves(live_site: str, chromium: Browser) -> None:
    pages_seed.person("adjudicator")
    tree = plant()
    cards, insurance = tree[f"money{SEP}banking{SEP}cards"], tree[f"money{SEP}insurance"]
    loans, weather, ferries = tree[f"savings{SEP}banking{SEP}loans"], tree["weather"], tree["ferries"]
    context, page, complaints = signed_in(chromium, live_site, "adjudicator")
    page.goto("/taxonomy/")
    dropped(page, ferries, weather)
    menu = page.get_by_role("menu", name="“Ferries” is dropped on “Weather”")
    expect(menu.get_by_role("menuitem")).to_have_text(
        ["Merge “Ferries” into “Weather”g", "Move “Ferries” below “Weather”m"]
    )
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    assert faults_of_look(page, "dropped") == []
    press(page, "Escape")
    expect(page.locator(f"#n{ferries}")).to_be_focused()
    dropped(page, ferries, weather)
    goes(page, "m")
    expect(page.locator("#preview")).to_contain_text(f"Weather{SEP}Ferries")
    page.go_back()
    dropped(page, ferries, weather)
    goes(page, "g")
    expect(page.locator("#preview")).to_contain_text("becomes Weather")
    carried_out(page, "merge")
    # Without room below it the other label can only be merged into; on one of a higher level a label is moved.
    opened = ",".join(str(tree[path]) for path in ("money", f"money{SEP}banking", "savings", f"savings{SEP}banking"))
    page.goto(f"/taxonomy/?open={opened}")
    dropped(page, loans, cards)
    page.wait_for_url(f"**/{loans}/change/merge/?to={cards}")
    page.goto(f"/taxonomy/?open={opened}")
    dropped(page, tree[f"savings{SEP}banking"], insurance)
    page.wait_for_url("**/change/merge/?to=*")
    page.goto(f"/taxonomy/?open={opened}")
    dropped(page, insurance, weather)
    page.wait_for_url(f"**/{insurance}/change/move/?to={weather}")
    expect(page.locator("#preview")).to_contain_text(f"Weather{SEP}Insurance")
    page.goto(f"/taxonomy/?open={opened}")
    dropped(page, insurance, tree["money"])
    assert page.url.endswith(f"open={opened}"), "it stands there already"
    page.locator(f"#n{insurance} > .node").drag_to(page.locator("[data-drop-top]"))
    page.wait_for_url("**/change/move/?to=top")
    assert not complaints
    context.close()


def test_a_big_tree_keeps_up(live_site: str, chromium: Browser) -> None:
    user = pages_seed.person("adjudicator")
    tree = plant()
    place_paths([(f"Domain {a:02d}", f"Field {a:02d}-{b:03d}") for a in range(50) for b in range(99)])
    services.change_tree(user, wishes.build_rename(tree["ferries"], "Boats"), seen=0)
    undo.take_back_change(user, TreeChange.objects.get().pk)
    context, page, complaints = signed_in(chromium, live_site, "adjudicator")
    page.goto(f"/taxonomy/{Node.objects.get(path='domain 07').pk}/change/merge/")
    page.fill("[name=find]", "domain 08")
    page.keyboard.press("Enter")
    expect(page.locator("#preview")).to_contain_text("and 88 more labels")
    assert faults(page, "merge of a big label") == []
    page.goto("/taxonomy/coverage/?sort=-environments")
    assert faults(page, "coverage") == []
    assert not complaints
    context.close()
