"""The pages that batches are launched from: two clicks, ways to choose, errors that lose nothing, limits, clones."""

from __future__ import annotations

import gzip
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.urls import reverse

from synthesis.scripted import list_bundled_themes as bundled_themes
from tests.batches.launch.launch_form import DESK, NEW, filled, filled_of, only, signed, start
from tests.fixtures import pages_seed
from tests.fixtures.markup import markup, words
from tests.rollouts_web.support import endpoint_at
from webapp.accounts.models import AuditEntry
from webapp.batches.launch import task_files
from webapp.batches.models import Batch, BatchState, LLMCall
from webapp.batches.spec import LOCAL, ROLES, SCRIPTED, BatchSettings
from webapp.endpoints.models import RoleModel
from webapp.jobs.models import Job
from webapp.taxonomy.models import Node
from webapp.taxonomy.theme_services import save_typed_theme

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = [one.key for one in bundled_themes()]


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


def test_two_clicks_grow_the_bundled_themes_with_the_scripted_provider(researcher: Client) -> None:
    listed = markup(researcher.get("/batches/"))
    assert "No batches yet" in listed
    assert listed.count(f'href="{NEW}"') == 2
    answer = start(researcher, filled(researcher))
    assert answer.status_code == 302, re.findall(r'class="error[^>]*>([^<]*)', markup(answer))
    batch = Batch.objects.get()
    assert answer.headers["Location"] == reverse("batches:batch", args=[batch.pk])
    assert (batch.state, batch.scripted, batch.cap) == (BatchState.RUNNING, True, None)
    assert sorted(batch.items.values_list("path", flat=True)) == sorted(KEYS)
    played = dict.fromkeys(ROLES, SCRIPTED)
    assert BatchSettings.model_validate(batch.settings) == BatchSettings(models=played, embeddings=LOCAL)
    assert Job.objects.filter(kind="run_batch").count() == 1
    row = markup(researcher.get("/batches/?state=running"))
    assert re.search(r">0</a> / <a [^>]*>6</a>", row)
    assert "scripted" in row
    assert "Nothing matches" in markup(researcher.get("/batches/?state=paused"))


def test_a_double_click_makes_one_batch_and_a_changed_form_another(researcher: Client) -> None:
    fields = filled(researcher)
    first, second = start(researcher, fields), start(researcher, fields, follow=True)
    batch = Batch.objects.get()
    assert second.redirect_chain[0][0] == first.headers["Location"] == reverse("batches:batch", args=[batch.pk])
    assert "was sent before" in markup(second)
    start(researcher, fields | {"seed": "1"})
    start(researcher, filled(researcher))
    assert Batch.objects.count() == 3
    assert AuditEntry.objects.filter(action="batch.create").count() == 3


def test_two_requests_at_the_same_moment_make_one_batch(researcher: Client) -> None:
    fields = filled(researcher)

    def press(_: int) -> str:
        try:
            mine = Client()
            mine.cookies = researcher.cookies
            return start(mine, fields).headers["Location"]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(press, range(4)))
    assert found == {reverse("batches:batch", args=[Batch.objects.get().pk])}


def test_the_same_form_of_two_people_are_two_batches(researcher: Client) -> None:
    fields = filled(researcher)
    start(researcher, fields)
    start(signed("operator"), fields)
    assert Batch.objects.count() == 2


def test_a_draft_waits(researcher: Client) -> None:
    answer = researcher.post(NEW, filled(researcher) | {"act": "draft", "name": "Later"}, follow=True)
    batch = Batch.objects.get()
    assert (batch.state, batch.name, Job.objects.count()) == (BatchState.DRAFT, "Later", 0)
    assert "Kept as a draft" in markup(answer)


def test_live_models_play_where_roles_have_defaults(researcher: Client) -> None:
    endpoint = endpoint_at("http://127.0.0.1:9/v1")
    page = markup(researcher.get(NEW))
    assert "No role has a default model" in page
    for role in ("author", "teacher"):
        RoleModel.objects.create(role=role, endpoint=endpoint, model="scripted-1")
    page = markup(researcher.get(NEW))
    assert "plays tester, checker, user, judge" in page
    for role in ("tester", "checker", "user", "judge"):
        RoleModel.objects.create(role=role, endpoint=endpoint, model="scripted-1")
    assert "Live models play every role" in markup(researcher.get(NEW))
    start(researcher, filled(researcher) | {"model_judge": SCRIPTED})
    batch = Batch.objects.get()
    live = f"{endpoint.pk}/scripted-1"
    assert batch.settings["models"] == {role: SCRIPTED if role == "judge" else live for role in ROLES}
    assert batch.scripted
    endpoint.model_names = ["another"]
    endpoint.save()
    answer = start(researcher, filled(researcher))
    assert answer.status_code == 422
    assert markup(answer).count("not listed at its endpoint any more") == 12
    assert Batch.objects.count() == 1


def test_every_way_to_choose_adds_up_and_equal_ones_are_one(researcher: Client) -> None:
    pages_seed.environment("Front desk", category="Health")
    pages_seed.environment("Back desk", key="back", category="Trade")
    pages_seed.environment("Warehouse", key="ware", category="Health")
    for name in ("Box desk", "Ship desk", "Harbour"):
        save_typed_theme(None, name, DESK, "Trade")
    node = Node.objects.get(name="Trade", level=1)
    lines = ["Cancel the order of Mrs Ito.", "short", "Cancel the order of Mrs Ito.", "Book a room for two nights."]
    fields = filled(researcher) | {
        "bundled": KEYS[:2],
        "use_themes": "on",
        "themes_text": "desk",
        "themes_node": node.pk,
        "themes_most": "1",
        "use_environments": "on",
        "environments_category": "Health",
        "tasks_file": SimpleUploadedFile("asked.txt", "\n".join(lines).encode()),
        "typed_name": ["Ferry", "Ferry", ""],
        "typed_category": ["", "", ""],
        "typed_description": [DESK, DESK, ""],
    }
    answer = start(researcher, fields, follow=True)
    batch = Batch.objects.get()
    specs = [item.spec for item in batch.items.order_by("position")]
    themes = [spec["theme"]["name"] for spec in specs if spec.get("theme")]
    assert themes[2:] == ["Ship desk", "Ferry"]
    assert {spec["environment"]["name"] for spec in specs if spec.get("environment")} == {"Front desk", "Warehouse"}
    texts = [(spec["text"], spec["source"]) for spec in specs if spec.get("text")]
    assert texts == [(lines[0], "asked.txt"), (lines[3], "asked.txt")]
    assert len(specs) == 2 + 1 + 2 + 2 + 1
    assert "Left out: line 2: a text of 5 characters is no task; line 3: the same task" in markup(answer)


def test_filters_say_how_many_fit_while_they_are_typed(researcher: Client) -> None:
    for number in range(3):
        save_typed_theme(None, f"Desk {number}", DESK, "Trade")
    found = markup(researcher.get("/batches/new/matching/?what=themes&themes_text=desk&themes_most=2"))
    assert words(found) == "3 themes fit; the newest 2 of them: Desk 2, Desk 1, Desk 0"
    hostile = f"/batches/new/matching/?what=themes&themes_node={'9' * 40}&themes_most=-4&themes_text=%00zzz"
    assert "No theme fits" in markup(researcher.get(hostile))
    assert "No environment fits" in markup(researcher.get("/batches/new/matching/?what=environments"))
    start(researcher, only(researcher, use_environments="on"))
    assert not Batch.objects.exists()


def test_errors_stand_at_their_fields_and_nothing_is_lost(researcher: Client) -> None:
    long = "x" * 1_000_000
    wrong = {
        "name": "My <b>batch</b>",
        "scenarios": "-1",
        "cap": "-1",
        "seed": "many",
        "assessment_threshold": "1.5",
        "least_tools": "40",
        "most_tools": "20",
        "action_range": "own",
        "actions_from": "3",
        "themes_text": "boxes",
        "typed_name": "Long",
        "typed_description": long,
    }
    answer = start(researcher, only(researcher, **wrong))
    page = markup(answer)
    assert answer.status_code == 422
    assert page.count(long) == 1
    for said in ("1,000,000 characters; at most 10,000", "greater than or equal to 0", "Enter a whole number"):
        assert said in page
    for field in ("scenarios", "cap", "seed", "assessment_threshold", "most_tools", "action_range"):
        assert f'id="id_{field}_error"' in page, field
    assert "My &lt;b&gt;batch&lt;/b&gt;" in page
    again = filled_of(page)
    for name, value in wrong.items():
        if name != "typed_description":
            assert again[name] in ([value], value), name
    assert "bundled" not in again
    assert not Batch.objects.exists()


def test_nothing_to_grow_is_said(researcher: Client) -> None:
    answer = start(researcher, only(researcher))
    assert answer.status_code == 422
    assert markup(answer).count("Choose what to grow") == 2


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tasks.bin", b"\x00\x01\xff\xfe" * 50, "not a text file"),
        ("tasks.txt", b"Cancel\x00 the order of Mrs Ito.", "not a text file"),
        ("tasks.json", b'{"task": ', "not valid JSON"),
        ("tasks.jsonl", b"[]", "no task in it can be used"),
        ("tasks.txt", b"too few\n", "a text of 7 characters is no task"),
        ("tasks.zip", b"PK\x03\x04rest", "a zip archive"),
        ("empty.txt", b"", "empty.txt: the file is empty"),
        ("large.txt", b"a line that is long enough\n" * 1_300_000, "larger than 32 MiB"),
        ("many.json", b"[" + b"[]," * 1_000_001 + b"[]]", "1000002 records; split it"),
        ("heavy.json", b"[" * 9_000_000, "MiB of memory to read"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_message(researcher: Client, name: str, content: bytes, said: str) -> None:
    fields = filled(researcher) | {"tasks_file": SimpleUploadedFile(name, content), "tasks_source": "kept words"}
    answer = start(researcher, fields)
    page = markup(answer)
    assert (answer.status_code, page.count(said)) == (422, 2), page
    assert filled_of(page)["tasks_source"] == ["kept words"]
    assert not Batch.objects.exists()


def test_a_task_set_is_read_by_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is packed however small it is, since nobody knows how much comes out of it."""
    monkeypatch.setattr(task_files, "READ", "tests.formats.greedy:task_lines")
    for content in (b"x" * 70_000, gzip.compress(b"x")):
        (told,) = task_files.read_task_lines(task_files.TaskFile("asked.txt", content))
        assert (told.text, told.place == str(os.getpid())) == ("asked.txt", False)


def test_a_good_file_is_not_asked_for_twice(researcher: Client) -> None:
    records = [{"instruction": "Cancel the order of Mrs Ito."}, {"task": "Book a room for two nights."}]
    file = SimpleUploadedFile("asked.jsonl", "\n".join(map(json.dumps, records)).encode())
    answer = start(researcher, only(researcher, tasks_file=file, scenarios="-1"))
    again = filled_of(markup(answer))
    assert answer.status_code == 422
    assert "asked.jsonl" in markup(answer)
    stranger = signed("operator")
    assert "no longer here" in markup(start(stranger, again | {"scenarios": "1"}))
    assert not Batch.objects.exists()
    start(researcher, again | {"scenarios": "1"})
    assert [item.spec["source"] for item in Batch.objects.get().items.all()] == ["asked.jsonl"] * 2


def test_a_dry_run_says_what_it_would_take_and_asks_nothing(researcher: Client) -> None:
    fields = filled(researcher)
    part = markup(researcher.post("/batches/new/estimate/", fields, headers={"HX-Request": "true"}))
    assert "<!doctype" not in part.lower()
    assert "<b>6</b> environments, <b>12</b> scenarios, <b>24</b> tasks, <b>48</b> trajectories" in part
    assert "To the author in" in part
    assert "plan_state" in part
    whole = researcher.post("/batches/new/estimate/", fields | {"scenarios": "1"})
    assert whole.status_code == 200
    assert "<b>24</b> trajectories" in markup(whole)
    assert filled_of(markup(whole))["scenarios"] == ["1"]
    wrong = researcher.post("/batches/new/estimate/", fields | {"tasks": "99"}, headers={"HX-Request": "true"})
    assert wrong.status_code == 200
    assert "There is no estimate" in markup(wrong)
    assert not Batch.objects.exists()
    assert not LLMCall.objects.exists()


def test_an_unknown_price_is_said_and_never_nothing(researcher: Client) -> None:
    endpoint = endpoint_at("http://127.0.0.1:9/v1")
    models = {f"model_{role}": f"{endpoint.pk}/scripted-1" for role in ROLES}
    fields = only(researcher, typed_name="Desk", typed_description=DESK, **models)
    headers = {"HX-Request": "true"}
    part = markup(researcher.post("/batches/new/estimate/", fields, headers=headers))
    assert re.search(r"<b>\s*not known\s*</b>\s*cost", part)
    assert "no price is set for <b>local/scripted-1</b>" in part
    endpoint.prices = {"scripted-1": {"prompt": 100, "completion": 200}}
    endpoint.save()
    part = markup(researcher.post("/batches/new/estimate/", fields | {"cap": "0.5"}, headers=headers))
    assert "not known" not in part
    assert "may reach the cap of 0.5" in part
    refused = fields | {f"model_{role}": SCRIPTED for role in ROLES}
    part = markup(researcher.post("/batches/new/estimate/", refused, headers=headers))
    assert "No item can run; all will be refused: Desk. The scripted provider plays author" in part
