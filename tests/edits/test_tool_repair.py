"""Repairs by the author model, over HTTP: what it is told, and that only a method that fits is kept, as a draft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.edits.seed import RIGHT, WRONG, SeedLibrary, assessed
from tests.edits.test_pages import carried_out
from tests.fixtures.llm import llm_server, say
from tests.rollouts_web.support import endpoint_at
from webapp.accounts.models import User
from webapp.common.errors import Conflict
from webapp.edits import services
from webapp.edits.models import Edit
from webapp.edits.proposals import get_editable_source
from webapp.endpoints.services import set_roles
from webapp.environments.models import Tool

if TYPE_CHECKING:
    from synthesis.runtime import Sandbox

pytestmark = pytest.mark.django_db


def method(made: SeedLibrary) -> str:
    tool = made.tool
    return get_editable_source(tool.version, tool.name)[0].replace(WRONG, RIGHT)


def asked(tool: Tool, person: User, replies: list[Any]) -> tuple[Any, list[Any]]:
    with llm_server(replies) as server:
        endpoint = endpoint_at(server.url)
        set_roles(None, {"author": f"{endpoint.pk}/scripted-1"})
        services.start_repair(person, tool)
        return carried_out("repair_tool"), server.requests


def test_a_repair_is_a_draft_that_can_be_compared_with_ones_own(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    assessed(sandbox, made)
    mine = services.start_tool_edit(person, made.tool)
    mended = method(made)
    two = f"```python\n{mended}\n\ndef other(self):\n    return 1\n```"
    job, requests = asked(made.tool, person, [say(two), say(f"```python\n{mended}\n```")])
    assert job.state == "succeeded", job.error
    words = requests[0]["messages"][0]["content"]
    assert "Five packets of a lot stay." in words
    assert "Three of six leave three" in words
    assert "Reply with the method lend_packets alone" in requests[1]["messages"][-1]["content"]
    edit = Edit.objects.get(pk=job.result["edit"])
    assert RIGHT in edit.body["tool_source"]
    assert (edit.author_id, edit.state) == (person.pk, "draft")
    assert "scripted-1" in edit.by_model
    browser = Client()
    browser.force_login(person)
    page = browser.get(f"/edits/{mine.pk}/?against={edit.pk}").content.decode()
    assert f"From edit {edit.pk} to this one" in page


def test_a_reply_that_is_no_method_leaves_no_draft(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    job, _ = asked(made.tool, person, [say("I would rather not.")])
    assert job.state == "failed"
    assert not Edit.objects.exists()


def test_without_an_author_it_says_who_can_choose_one(made: SeedLibrary, person: User) -> None:
    with pytest.raises(Conflict, match="An administrator chooses one"):
        services.start_repair(person, made.tool)
    edit = services.start_tool_edit(person, made.tool)
    browser = Client()
    browser.force_login(person)
    assert "no model plays the author" in browser.get(f"/edits/{edit.pk}/").content.decode()
