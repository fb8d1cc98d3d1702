"""Three annotators through a session that places and one that merges, in Chromium and by keys; one leaves half-way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.checks import faults
from tests.fixtures import pages_seed
from tests.fixtures.visitors import complaints_of, visit
from tests.labelling import seed
from webapp.accounts.models import User
from webapp.environments.models import Environment
from webapp.labelling.frozen import SEPARATOR
from webapp.labelling.models import Label, LabelSession, Reservation, Settlement
from webapp.taxonomy.models import Node
from webapp.taxonomy.services import place_paths

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
EVIL = pages_seed.EVIL


class Person:
    """Somebody at a browser of their own."""

    def __init__(self, chromium: Browser, site: str, user: User) -> None:
        self.user = user
        self.context: BrowserContext = visit(chromium, site, user.username)
        self.page: Page = self.context.new_page()
        self.complaints = complaints_of(self.page)
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))

    def press(self, *keys: str) -> None:
        self.page.wait_for_load_state()  # before its scripts have run, keys do what forms do without them
        for key in keys:
            self.page.keyboard.press(key)

    def begins(self, session: LabelSession) -> None:
        self.page.goto(f"/taxonomy/sessions/{session.pk}/")
        with self.page.expect_navigation():
            self.press("n")
        self.page.wait_for_selector("#decide")

    def chooses(self, name: str) -> None:
        self.press("/")
        self.page.keyboard.type(name)
        self.press("Enter")
        expect(self.page.locator("#chosen-path [data-name]")).to_have_text(name)

    def places(self, name: str, confidence: str = "2") -> None:
        """The item in hand, by keys alone: find the node, choose it, say how sure, save."""
        self.chooses(name)
        self.press(confidence)
        with self.page.expect_navigation():
            self.press("Control+Enter")

    def groups(self, labels: list[str], name: str) -> None:
        """Labels into one group: ticked by Space, named, put by Enter."""
        for label in labels:
            self.page.locator("#grouping li", has_text=label).first.locator("input").focus()
            self.press("Space")
        self.press("g")
        self.page.keyboard.type(name)
        self.press("Enter")
        self.page.wait_for_selector(f"[data-drop='{name}'] >> text={labels[-1]}")


def opens_below_heading(page: Page) -> bool:
    """Whether "Close round" asks below its button, whole and in sight, while the heading stays as it is."""
    places = (
        "() => ['.head', '.head summary', '.head details form'].map(one => document.querySelector(one)"
        ".getBoundingClientRect().toJSON())"
    )
    head = page.evaluate(places)[0]
    page.get_by_text("Close round 1").press("Enter")
    head_then, button, form = page.evaluate(places)
    page.keyboard.press("Escape")
    in_sight = form["left"] >= 0 and form["right"] <= page.viewport_size["width"]  # type: ignore[index]
    return head == head_then and form["top"] >= button["bottom"] and in_sight


@pytest.fixture
def team(live_site: str, chromium: Browser) -> Any:
    users = seed.people("adjudicator", "annotator", "annotator", "annotator")
    found = [Person(chromium, live_site, user) for user in users]
    yield found
    for one in found:
        assert one.complaints == [], one.user.username
        one.context.close()


def test_three_people_place_one_leaves_and_an_adjudicator_settles(team: list[Person]) -> None:
    judge, ann, bob, eve = team
    nodes = seed.tree()
    for name in ("Sports club ledger", "Ferry line", EVIL):
        seed.environment(name[:300], nodes["Clubs"], rules=(EVIL,))
    session = seed.place_session(judge.user, overlap=2, guideline=EVIL)
    ann.begins(session)
    assert faults(ann.page, "place desk") == []
    ann.places("Clubs", "3")
    ann.press("c")
    ann.page.keyboard.type("Half a thought")
    ann.press("Escape")
    expect(ann.page.locator("[data-draft-said]")).to_have_text("Draft kept")
    left = Reservation.objects.get(user=ann.user, state="held")
    Reservation.objects.filter(pk=left.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    for person in (bob, eve):
        person.begins(session)
        for _ in range(Label.objects.count(), 6):
            if not person.page.locator("#decide").count():
                break
            person.places("Ticketing" if person is bob else "Payroll")
    assert Label.objects.count() == 6, "who left blocked nobody"
    ann.page.goto(f"/taxonomy/sessions/held/{left.pk}/")
    assert ann.page.locator("#label-comment").input_value() == "Half a thought"
    judge.page.goto(f"/taxonomy/sessions/{session.pk}/")
    for width in (400, 1440):
        judge.page.set_viewport_size({"width": width, "height": 900})
        assert opens_below_heading(judge.page), f"at {width} px"
    judge.page.get_by_text("Close round 1").press("Enter")
    judge.page.get_by_role("button", name="Close it now").press("Enter")
    judge.page.wait_for_selector("text=Its labels can be seen now")
    assert faults(judge.page, "session") == []
    judge.press("a")
    judge.page.wait_for_selector(".disputes")
    assert faults(judge.page, "adjudication") == []
    for number in range(3):
        judge.press("1")
        expect(judge.page.locator(".disputes .tag", has_text="settled")).to_have_count(number + 1)
    assert Settlement.objects.count() == 3
    judge.page.locator("[data-row-link]").first.press("Enter")
    judge.page.wait_for_selector("#discussion")
    judge.chooses("Banking")
    with judge.page.expect_navigation():
        judge.press("Control+Enter")
    assert Settlement.objects.filter(node=nodes["Banking"]).count() == 1
    assert faults(judge.page, "item") == []
    carried_out_and_undone(judge, session, nodes["Clubs"])


def test_find_takes_the_best_hit_by_one_enter_and_the_keys_of_the_page_go_on(team: list[Person]) -> None:
    judge, ann, *_ = team
    nodes = place_paths([
        ("AI Tools", "File Management", "Shared File Management"), ("Backups", "Restore", "File Management"),
        ("Backups", "Old File Management"), ("Data", "File Management Systems"), ("File Management", "Disks"),
        ("Profile Management",), ("Weather",),
    ])  # fmt: skip
    seed.environment("Drive", nodes["Weather",])
    seed.environment("Disk", nodes["Weather",])
    session = seed.place_session(judge.user, overlap=1)
    ann.begins(session)
    options = ann.page.locator("#node-hits [role=option]")
    ann.press("/")
    ann.page.keyboard.type("file management")
    shown = [
        ["File Management"], ["AI Tools", "File Management"], ["Backups", "Restore", "File Management"],
        ["Profile Management"], ["Data", "File Management Systems"], ["Backups", "Old File Management"],
        ["AI Tools", "File Management", "Shared File Management"],
    ]  # fmt: skip
    expect(options).to_have_text([SEPARATOR.join(path) for path in shown])
    assert faults(ann.page, "find") == []
    expect(ann.page.locator("#node-hits [aria-selected=true]")).to_have_text("File Management")
    ann.press("Escape")
    expect(options).to_have_count(0)
    assert ann.page.locator("#find-node").input_value() == ""
    ann.press("/")
    ann.page.keyboard.type("file management")
    ann.press("Enter", "3")
    expect(ann.page.locator("#chosen-path")).to_have_text("File Management")
    expect(ann.page.locator("[name=confidence]:checked")).to_have_value("3")
    with ann.page.expect_navigation():
        ann.press("Control+Enter")
    first = Label.objects.get()
    assert (first.node, first.confidence) == (nodes["File Management",], 3)
    ann.press("/")
    ann.page.keyboard.type("file management")
    ann.press("ArrowDown", "Enter", "b", "/")
    ann.page.keyboard.type("no such label")
    expect(ann.page.locator("#found-nodes")).to_contain_text("0 of 13 nodes")
    ann.press("Enter")
    ann.page.locator("#find-node").fill("disks")
    ann.press("Enter")
    expect(ann.page.locator("[data-second-words]")).to_have_text(f"or File Management{SEPARATOR}Disks")
    with ann.page.expect_navigation():
        ann.press("Control+Enter")
    second = Label.objects.latest("pk")
    assert second.node == nodes["AI Tools", "File Management"]
    assert second.second == nodes["File Management", "Disks"]


def test_labels_are_found_sorted_and_grouped_by_keys_and_the_rest_is_left_alone(team: list[Person]) -> None:
    judge, ann, *_ = team
    nodes = place_paths(
        [("A", "Weather"), ("B", "Weather"), ("B", "Music"), ("B", "Atlas"), ("C", "Maps"), ("C", EVIL[:80])]
    )
    session = seed.merge_session(judge.user, overlap=1)
    ann.begins(session)
    page, left = ann.page, ann.page.locator("[data-sorted] > li:visible")
    expect(left).to_have_count(6)
    page.get_by_label("Sort").select_option("name")
    expect(left.nth(1)).to_contain_text("Atlas")
    ann.press("Escape", "y")
    expect(page.locator(".group h3")).to_have_text("Weather 2")
    expect(left.nth(1)).to_contain_text("Atlas")
    ann.press("/")
    page.keyboard.type("environment")
    expect(left).to_have_count(0)
    page.locator("#find-label").fill("c map")
    expect(page.locator("[data-shown-labels]")).to_have_text("1 found, ")
    ann.press("Enter", "Space", "/")
    expect(page.locator("[data-label]:has(:checked)")).to_have_count(1)
    ann.press("Escape", "j", "j", "x")
    expect(page.locator("[data-label]:has(:checked)")).to_have_count(2)
    ann.press("k", "Enter")
    expect(page.locator(".group h3")).to_have_count(2)
    page.fill("#group-name", "x" * 200)
    expect(page.locator("#group-name + .length-said")).to_have_text("200 of 200 characters")
    page.fill("#group-name", "")
    assert faults(page, "merge desk with groups") == []
    with page.expect_navigation():
        ann.press("Control+Enter")
    groups = {group["name"]: len(group["labels"]) for group in Label.objects.get().groups}
    assert groups["Weather"] == 2
    assert sorted(groups.values()) == [1, 1, 2, 2]
    assert {"name": "Music", "labels": [nodes["B", "Music"]]} in Label.objects.get().groups


def test_what_is_pressed_while_the_server_answers_is_not_lost(team: list[Person]) -> None:
    judge, ann, *_ = team
    nodes = place_paths([("A", name) for name in ("Weather", "Clouds", "Music", "Songs", "Maps", "Atlas")])
    session = seed.merge_session(judge.user, overlap=1)
    ann.begins(session)
    page = ann.page
    page.route("**/fill/", lambda route: (page.wait_for_timeout(400), route.continue_()))
    ann.press("j", "x", "j", "x", "Enter", "j", "x", "j", "x", "g")
    page.keyboard.type("Sounds")
    expect(page.locator(".group h3")).to_have_count(1)
    expect(page.locator("#group-name")).to_be_focused()
    expect(page.locator("#group-name")).to_have_value("Sounds")
    ann.press("Enter")
    with page.expect_navigation():
        ann.press("Control+Enter")
    groups = {group["name"]: len(group["labels"]) for group in Label.objects.get().groups}
    assert groups["Sounds"] == 2
    assert sorted(groups.values()) == [1, 1, 2, 2]
    assert len(nodes) == 7


def carried_out_and_undone(judge: Person, session: LabelSession, before: int) -> None:
    """The placings of a session on the tree and back, by keys alone."""
    wanted = dict(Settlement.objects.values_list("item__key", "node"))
    carries_out(judge, session)
    assert dict(Environment.objects.values_list("pk", "node")) == wanted
    takes_back(judge, session)
    assert set(Environment.objects.values_list("node", flat=True)) == {before}


def carries_out(judge: Person, session: LabelSession) -> None:
    judge.page.goto(f"/taxonomy/sessions/{session.pk}/")
    judge.press("r")
    judge.page.wait_for_selector("#touched-title")
    assert faults(judge.page, "result") == []
    with judge.page.expect_navigation():
        judge.press("x")
    expect(judge.page.locator("#carried-out")).to_contain_text("The result is carried out")
    assert faults(judge.page, "carried out") == []


def takes_back(judge: Person, session: LabelSession) -> None:
    with judge.page.expect_navigation():
        judge.press("u")
    expect(judge.page.locator("#carried-out")).to_contain_text("that was undone")
    session.refresh_from_db()
    assert session.state == "closed"


def test_three_people_group_labels_and_an_adjudicator_adjusts(team: list[Person]) -> None:
    judge, *people = team
    seed.tree()
    session = seed.merge_session(judge.user, overlap=3)
    for person in people:
        person.begins(session)
        if person is people[0]:
            assert faults(person.page, "merge desk") == []
        person.groups(["Clubs", "Lending"], "Sharing")
        person.groups(["Banking", "Bookkeeping"] if person is not people[2] else ["Banking"], "Money")
        person.groups(["Ticketing"] if person is not people[2] else ["Ticketing", "Bookkeeping"], "Desks")
        with person.page.expect_navigation():
            person.press("Control+Enter")
        person.page.wait_for_selector("text=Nothing is left for you")
    judge.page.goto(f"/taxonomy/sessions/{session.pk}/")
    judge.page.get_by_text("Close round 1").press("Enter")
    judge.page.get_by_role("button", name="Close it now").press("Enter")
    item = session.items.get()
    judge.page.goto(f"/taxonomy/sessions/items/{item.pk}/")
    first = judge.page.locator("[aria-label='Labels as people grouped them'] tbody tr").first
    expect(first).to_contain_text("Bookkeeping")
    judge.press("1")
    judge.page.wait_for_selector("#grouping")
    assert faults(judge.page, "grouping settled") == []
    judge.page.locator("#grouping li", has_text="Ticketing").locator("input").focus()
    judge.press("Space")
    judge.page.get_by_role("button", name="Put ticked labels into Money").press("Enter")
    judge.page.wait_for_selector("[data-drop='Money'] >> text=Ticketing")
    assert {group["name"] for group in Settlement.objects.get().groups} == {"Sharing", "Money"}
    before = dict(Node.objects.values_list("pk", "path"))
    carries_out(judge, session)
    assert set(Node.objects.filter(level=2).values_list("name", flat=True)) == {"Sharing", "Money"}
    takes_back(judge, session)
    assert dict(Node.objects.values_list("pk", "path")) == before
