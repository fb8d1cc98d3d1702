"""Batches before they run: clones, limits, who may, the list, home, the same by API."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from synthesis.pipeline import ENVSCALER
from synthesis.scripted import list_bundled_themes as bundled_themes
from tests.batches.launch.launch_form import DESK, NEW, filled, signed, start
from tests.fixtures import pages_seed
from tests.fixtures.api import problem, program
from tests.fixtures.markup import markup
from webapp.accounts.models import AuditEntry
from webapp.batches.models import Batch, BatchState, LaunchLimit
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import BatchSettings
from webapp.environments.models import Environment
from webapp.taxonomy.models import Node
from webapp.taxonomy.theme_services import save_typed_theme

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = [one.key for one in bundled_themes()]


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


def test_a_clone_shows_what_differs_before_and_after_it_is_launched(researcher: Client) -> None:
    start(researcher, filled(researcher) | {"name": "First", "bundled": KEYS[:2]})
    origin = Batch.objects.get()
    url = f"/batches/{origin.pk}/clone/"
    page = markup(researcher.get(url))
    assert "No setting differs" in page
    fields = filled(researcher, url)
    assert fields["name"] == ["First (again)"]
    changed = fields | {"seed": "9", "tasks": "3", "action_range": "released", "teacher_user_tools": "look, , press"}
    part = markup(researcher.post(f"{url}differences/", changed))
    cells = [re.sub("<[^>]*>|\u2212", "", one).strip() for one in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", part)]
    assert cells[3:] == [
        "Tasks", "2", "+ 3", "Tools of the user", "none", "+ look, press", "Actions", "none", "+ released",
        "Seed", "0", "+ 9",
    ]  # fmt: skip
    assert "The form has errors" in markup(researcher.post(f"{url}differences/", changed | {"tasks": "0"}))
    dry = markup(researcher.post(f"{url}estimate/", changed, headers={"HX-Request": "true"}))
    assert "<b>12</b> tasks" in dry
    assert researcher.post(url, changed | {"act": "start", "tasks": "0"}).status_code == 422
    answer = researcher.post(url, changed | {"act": "start"}, follow=True)
    researcher.post(url, changed | {"act": "start"})
    clone = Batch.objects.exclude(pk=origin.pk).get()
    assert (clone.cloned_from_id, clone.settings["seed"], clone.items.count()) == (origin.pk, 9, 2)
    assert clone.settings["stages"]["teacher_user_tools"] == ["look", "press"]
    assert filled(researcher, f"/batches/{clone.pk}/clone/")["teacher_user_tools"] == ["look, press"]
    assert answer.status_code == 200
    row = markup(researcher.get("/batches/"))
    assert f'href="/batches/{origin.pk}/" title="First"><span aria-hidden="true">↑</span>clone of {origin.pk}' in row


def test_annotators_launch_within_what_operators_set() -> None:
    operator, annotator = signed("operator"), signed("annotator")
    assert annotator.get("/batches/limits/").status_code == 403
    wrong = operator.post("/batches/limits/", {"annotator_cap": "-1", "annotator_themes": "0"})
    assert wrong.status_code == 422
    operator.post("/batches/limits/", {"annotator_cap": "1.5", "annotator_themes": "2"})
    assert LaunchLimit.objects.get().annotator_cap == 1.5
    assert AuditEntry.objects.filter(action="batch.limits").count() == 1
    fields = filled(annotator)
    assert fields["cap"] == ["1.5"]
    assert "grow up to <b>2</b> themes" in markup(annotator.get(NEW))
    assert "up to 2 themes at once; 6 were chosen" in markup(start(annotator, fields))
    few = fields | {"bundled": KEYS[:2]}
    assert "the cap asked for 2" in markup(start(annotator, few | {"cap": "2"}))
    assert not Batch.objects.exists()
    start(annotator, few | {"cap": ""})
    assert Batch.objects.get().cap == 1.5


def test_viewers_see_batches_and_no_way_to_launch_one() -> None:
    create_batch(None, "Seen", [build_theme_spec(bundled_themes()[0])], BatchSettings(), ENVSCALER, start=False)
    viewer = signed("viewer")
    page = markup(viewer.get("/batches/"))
    assert "Seen" in page
    assert "command line" in page
    for url in ("/batches/", "/"):
        assert "/batches/new/" not in markup(viewer.get(url))
    assert viewer.get(NEW).status_code == 403


def test_other_pages_lead_here_with_their_filter(researcher: Client) -> None:
    pages_seed.environment("Front desk", category="Health")
    pages_seed.environment("Back desk", key="back")
    save_typed_theme(None, "Ship desk", DESK, "Trade")
    node = Node.objects.get(name="Trade", level=1)
    wanted = {
        "/environments/?q=desk&category=Health": ("use_environments", "<b>1</b> environment fits: "),
        f"/taxonomy/{node.pk}/": ("use_themes", "<b>1</b> theme fits: "),
        "/taxonomy/themes/?q=ship": ("use_themes", "<b>1</b> theme fits: "),
    }
    for url, (name, said) in wanted.items():
        found = re.search(r'href="(/batches/new/\?use_[^"]+)"', markup(researcher.get(url)))
        assert found is not None, url
        there = unescape(found[1])
        fields = filled(researcher, there)
        assert (fields.get("bundled"), fields[name]) == (None, ["on"]), url
        assert said in markup(researcher.get(there)), url
    start(researcher, filled(researcher, f"{NEW}?use_environments=1&environments_text=front"))
    assert Batch.objects.get().items.get().spec["environment"]["name"] == "Front desk"


def test_the_list_pages_by_key_with_the_same_queries_for_any_length(researcher: Client) -> None:
    def rows(count: int) -> None:
        Batch.objects.bulk_create([Batch(name=f"Batch {number}") for number in range(count)])

    def queries(url: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert researcher.get(url).status_code == 200
        return len(seen)

    rows(2)
    few = queries("/batches/")
    rows(120)
    assert queries("/batches/") <= few + 1  # a list of more than a page is counted
    page = markup(researcher.get("/batches/"))
    after = re.search(r'href="(/batches/\?after=[^"]+)" rel="next"', page)
    assert after is not None
    assert "Batch 69" in markup(researcher.get(after[1]))


def test_home_names_what_runs_and_what_stands_still(researcher: Client) -> None:
    start(researcher, filled(researcher) | {"name": "Runs now"})
    page = markup(researcher.get("/"))
    assert "Runs now</a>" in page
    assert "0 of 6 items kept" in page
    Batch.objects.update(state=BatchState.CAPPED, note="The cap is reached.")
    page = markup(researcher.get("/"))
    assert "The cap is reached." in page
    assert "items kept" not in page


def test_the_page_stays_within_few_queries_and_lists_for_much_content(researcher: Client) -> None:
    Environment.objects.bulk_create(
        [Environment(source="made", key=f"e{n}", name=f"Desk {n}", category=f"C{n % 400}") for n in range(1_000)]
    )
    with CaptureQueriesContext(connection) as seen:
        page = researcher.get(NEW)
    assert len(seen) < 40
    assert len(page.content) < 150_000


def test_the_api_chooses_as_the_page_does() -> None:
    caller = program(pages_seed.person("operator"), "read", "synthesise")
    pages_seed.environment("Front desk", category="Health")
    pages_seed.environment("Back desk", key="back", category="Trade")
    for name in ("Box desk", "Ship desk"):
        save_typed_theme(None, name, DESK, "Trade")
    body = {
        "bundled": KEYS[:1],
        "themes": {"q": "desk", "limit": 1},
        "environments": {"q": "desk", "category": "Health"},
        "start": False,
    }
    made = caller.post("/batches", body)
    assert made.status_code == 202, made.content
    specs = [item.spec for item in Batch.objects.get().items.order_by("position")]
    names = [(spec.get("theme") or spec["environment"])["name"] for spec in specs]
    assert names[1:] == ["Ship desk", "Front desk"]
    assert specs[0]["theme"]["key"] == KEYS[0]
    told = caller.post("/batches/dry_run", body).json()
    assert told["themes"] == 3
    assert 0 < told["calls"]["low"] < told["calls"]["high"]
    assert "rests on assumptions" in told["rests_on"]
    said = {
        "no bundled theme 'zzz'": {"bundled": ["zzz"]},
        "No kept theme fits": {"themes": {"source": "nowhere"}},
        "No environment fits": {"environments": {"node": 999}},
    }
    for words, wrong in said.items():
        assert words in problem(caller.post("/batches", wrong), 422)["detail"]
