"""What of structured output a server honours: a trial finds it out, a person keeps it, stages ask for it so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from synthesis.errors import InputError
from tests.fixtures import llm, pages_seed
from tests.fixtures.markup import flat
from webapp.accounts.models import AuditEntry
from webapp.endpoints import services
from webapp.endpoints.models import Endpoint
from webapp.endpoints.trial import try_endpoint

pytestmark = pytest.mark.django_db
GREEN = llm.say(json.dumps({"colour": "green"}))
HELLO = llm.say("Hello there.")


def server(schema: llm.Scripted, anything: llm.Scripted) -> Callable[[llm.Request], llm.Scripted]:
    """Calls the tool that it is given, and answers a schema, `json_object` and neither as it is told."""

    def answer(request: llm.Request) -> llm.Scripted:
        if request.get("tools"):
            return llm.call("ping", word="hello")
        form = request.get("response_format", {}).get("type")
        return {"json_schema": schema, "json_object": anything}.get(form, HELLO)

    return answer


def register(url: str, **fields: Any) -> Endpoint:
    return services.save_endpoint(None, services.EndpointChanges("local", url, None, ("scripted-1",), **fields))


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(pages_seed.person("admin"))
    return client


NO_SCHEMA = llm.refuse(400, "response_format json_schema is not supported")
NO_OBJECT = llm.refuse(422, "response_format: extra fields are not permitted")
CUT_OFF = llm.message('{"colour"   ', finish="length")


@pytest.mark.parametrize(
    ("schema", "anything", "found", "said"),
    [
        (GREEN, HELLO, "json_schema", "holds replies to a JSON schema"),
        (CUT_OFF, HELLO, "json_schema", "holds replies to a JSON schema"),
        (NO_SCHEMA, llm.say('{"hello": 1}'), "json_object", "json_schema is refused"),
        (HELLO, llm.say('{"hello": 1}'), "json_object", "json_schema changes nothing: it said 'Hello there.'"),
        (llm.say('{"colour": "blue"}'), HELLO, "none", "json_object changes nothing"),
        (NO_SCHEMA, NO_OBJECT, "none", "extra fields are not permitted"),
        (llm.raw(500, "oops"), llm.raw(500, "oops"), "none", "failed (500): oops"),
        (llm.say("[1]"), llm.say("[1]"), "none", "in words alone"),
        (llm.refuse(429, "slowly"), GREEN, None, "could not be determined"),
        (llm.html(), GREEN, None, "could not be determined"),
        (llm.DROP, GREEN, None, "could not be determined"),
    ],
)
def test_a_trial_finds_the_strictest_form_that_is_kept_to(
    schema: llm.Scripted, anything: llm.Scripted, found: str | None, said: str
) -> None:
    with llm.llm_server(server(schema, anything)) as running:
        trial = try_endpoint(register(running.url), "scripted-1")
    assert (trial.ok, trial.calls_tools, trial.structured) == (True, True, found), trial.message
    assert said in trial.message


def test_a_server_that_refuses_tools_is_told_apart_from_one_that_refuses_everything() -> None:
    def picky(request: llm.Request) -> llm.Scripted:
        return llm.refuse(400, "start it with tool calls enabled") if request.get("tools") else HELLO

    with llm.llm_server(picky) as running:
        trial = try_endpoint(register(running.url), "scripted-1")
    assert (trial.ok, trial.calls_tools, trial.structured) == (True, False, "none")
    assert "start it with tool calls enabled" in trial.message
    assert "ReAct" in trial.message


@pytest.mark.parametrize(("scripted", "advice"), [(llm.DROP, "Is the server running"), (llm.html(), "A sign-in page")])
def test_a_trial_that_fails_says_what_to_look_at(scripted: llm.Scripted, advice: str) -> None:
    with llm.llm_server([scripted]) as running:
        trial = try_endpoint(register(running.url), "scripted-1")
    assert (trial.ok, trial.calls_tools, trial.structured) == (False, None, None)
    assert advice in trial.message


def test_a_person_keeps_what_the_trial_found(admin: Client) -> None:
    with llm.llm_server(server(NO_SCHEMA, llm.say("{}"))) as running:
        row = register(running.url)
        page = flat(admin.post(f"/endpoints/{row.pk}/try/", {"model": "scripted-1"}, follow=True))
    assert "held to a JSON object (json_object). Set is: words alone." in page
    assert "Keep what the trial found" in page
    row.refresh_from_db()
    assert row.structured == "none", "a trial changes nothing by itself"
    page = flat(admin.post(f"/endpoints/{row.pk}/structured/", {"structured": "json_object"}, follow=True))
    row.refresh_from_db()
    assert (row.structured, services.open_endpoint(row).structured) == ("json_object", "json_object")
    assert AuditEntry.objects.get(action="endpoint.structured").detail == {
        "structured": "json_object",
        "before": "none",
    }
    assert "Keep what the trial found" not in page
    assert "Keep what the trial found" not in flat(admin.get(f"/endpoints/{row.pk}/?found=json_object"))


def test_a_form_that_is_none_is_refused(admin: Client) -> None:
    row = register("http://127.0.0.1:9/v1", structured="json_schema")
    page = flat(admin.post(f"/endpoints/{row.pk}/structured/", {"structured": pages_seed.EVIL[:30]}, follow=True))
    assert "There is no form of structured output" in page
    assert pages_seed.EVIL[:20] not in page
    assert "Keep what" not in flat(admin.get(f"/endpoints/{row.pk}/?found=%3Cb%3E"))
    with pytest.raises(InputError):
        services.save_structured(None, row.pk, "json")
    row.refresh_from_db()
    assert row.structured == "json_schema"


def test_only_administrators_keep_it() -> None:
    row = register("http://127.0.0.1:9/v1")
    operator = Client()
    operator.force_login(pages_seed.person("operator"))
    assert operator.post(f"/endpoints/{row.pk}/structured/", {"structured": "json_schema"}).status_code == 403
    row.refresh_from_db()
    assert row.structured == "none"


def test_the_api_says_what_a_trial_found(admin: Client) -> None:
    with llm.llm_server(server(GREEN, HELLO)) as running:
        row = register(running.url)
        said = admin.post(
            f"/api/v1/endpoints/{row.pk}/try", json.dumps({"model": "scripted-1"}), content_type="application/json"
        )
    assert (said.status_code, said.json()["structured"]) == (200, "json_schema")
    body = {"name": "local", "base_url": "http://127.0.0.1:9/v1", "structured": "xml"}
    refused = admin.put(f"/api/v1/endpoints/{row.pk}", json.dumps(body), content_type="application/json")
    assert refused.status_code == 422
