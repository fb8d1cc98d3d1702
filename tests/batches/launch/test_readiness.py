"""Whether a batch can run is said before it starts: on its forms, by the dry run of the API and by the command."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from synthesis.scripted import list_bundled_themes as bundled_themes
from tests.batches.launch.launch_form import DESK, NEW, filled, signed, start
from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.fixtures.markup import flat, words
from tests.rollouts_web.support import endpoint_at
from webapp.batches.models import Batch
from webapp.batches.spec import ROLES
from webapp.endpoints.models import RoleModel
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.theme_services import save_typed_theme

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}
KEYS = [one.key for one in bundled_themes()]
PRIMARY = '<button class="primary"'


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


@pytest.fixture
def themes() -> list[Theme]:
    for number in range(20):
        save_typed_theme(None, f"Desk {number}", DESK, "Trade")
    return list(Theme.objects.order_by("pk"))


def start_button(html: str) -> str:
    found = re.search(r'<button [^>]*id="start"', html)
    assert found is not None
    return found[0]


def test_a_gap_that_only_a_model_can_fill_is_not_ready(researcher: Client, themes: list[Theme]) -> None:
    there = f"{NEW}?use_themes=1&themes_node={Node.objects.get(name='Trade', level=1).pk}"
    page = flat(researcher.get(there))
    assert "Ready to start" not in page
    assert "Not ready:" in page
    assert PRIMARY not in start_button(page)
    told = words(page)
    assert "All 20 items will be refused: Desk 19, Desk 18" in told
    assert "and 8 more" in told
    assert "Ask an administrator to register a model" in told
    assert "Register a model" in words(flat(signed("admin").get(there)))
    endpoint = endpoint_at("http://127.0.0.1:9/v1")
    for role in ROLES:
        RoleModel.objects.create(role=role, endpoint=endpoint, model="scripted-1")
    page = flat(researcher.get(there))
    assert "Ready to start." in page
    assert PRIMARY in start_button(page)


def test_a_filter_that_finds_nothing_is_not_ready(researcher: Client) -> None:
    page = flat(researcher.get(f"{NEW}?use_themes=1&themes_text=nothing+like+it"))
    assert "Ready to start" not in page
    assert "It cannot start: a dry run" in page


def test_some_that_can_run_leave_start_the_first_act(researcher: Client, themes: list[Theme]) -> None:
    there = f"{NEW}?themes_ids={themes[0].pk}"
    mixed = filled(researcher, there) | {"bundled": KEYS[:2]}
    part = flat(researcher.post(f"{NEW}readiness/", mixed, headers=HTMX))
    assert "1 of 3 items will be refused" in words(part)
    assert PRIMARY in start_button(part)
    assert 'id="refusals" hx-swap-oob="true"' in part
    alone = flat(researcher.post(f"{NEW}readiness/", mixed | {"bundled": []}, headers=HTMX))
    assert PRIMARY not in start_button(alone)
    start(researcher, mixed)
    clone = flat(researcher.get(f"/batches/{Batch.objects.get().pk}/clone/"))
    assert "1 of 3 items will be refused" in words(clone)


def test_the_dry_run_of_the_api_says_it(themes: list[Theme]) -> None:
    caller = program(pages_seed.person("operator"), "read", "synthesise")
    told = caller.post("/batches/dry_run", {"bundled": KEYS[:1], "theme_ids": [themes[0].pk]}).json()["readiness"]
    assert (told["total"], told["refused"], told["names"], told["can_run"]) == (2, 1, ["Desk 0"], True)
    assert told["roles"] == list(ROLES)
    assert told["advice"].startswith("1 of 2 items will be refused: Desk 0.")
    alone = caller.post("/batches/dry_run", {"theme_ids": [themes[0].pk]}).json()["readiness"]
    assert not alone["can_run"]
    ready = caller.post("/batches/dry_run", {"bundled": KEYS}).json()["readiness"]
    assert (ready["refused"], ready["advice"]) == (0, "")


def test_the_command_starts_nothing_that_cannot_run(themes: list[Theme]) -> None:
    with pytest.raises(CommandError, match="No item can run; all will be refused: Desk 0"):
        call_command("run_batch", "--theme", str(themes[0].pk), stderr=StringIO())
    assert not Batch.objects.exists()
