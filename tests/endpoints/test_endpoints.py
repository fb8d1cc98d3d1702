"""LLM endpoints: keys stay sealed, addresses inside the house are refused, and a trial says what is the matter."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from synthesis.errors import InputError
from tests.fixtures import llm, pages_seed
from tests.fixtures.markup import flat
from webapp.accounts.models import AuditEntry
from webapp.endpoints import queries, services
from webapp.endpoints.models import Endpoint, RoleModel
from webapp.endpoints.trial import try_endpoint

pytestmark = pytest.mark.django_db
KEY = "sk-very-secret-4711"
UNCOUNTED = llm.raw(200, json.dumps({"choices": [{"finish_reason": "stop", "message": {"content": "hello"}}]}))


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(pages_seed.person("admin"))
    return client


@pytest.fixture
def server() -> Iterator[llm.ScriptedServer]:
    with llm.llm_server(lambda request: llm.call("ping", word="hello")) as running:
        yield running


def form(url: str, **fields: Any) -> dict[str, Any]:
    return {"name": "local", "base_url": url, "key": KEY, "max_concurrency": 4, "timeout_s": 30, "models": ""} | fields


def register(url: str, **fields: Any) -> Endpoint:
    wish = services.EndpointChanges("local", url, KEY, ("scripted-1", "b"), **fields)
    return services.save_endpoint(None, wish)


def test_a_key_is_sealed_and_never_shown_again(admin: Client, server: llm.ScriptedServer) -> None:
    answer = admin.post("/endpoints/new/", form(server.url), follow=True)
    row = Endpoint.objects.get()
    assert services.open_endpoint(row).api_key.get_secret_value() == KEY
    pages = [answer, admin.get("/endpoints/"), admin.get(f"/endpoints/{row.pk}/"), admin.get("/api/v1/endpoints")]
    assert not [page for page in pages if KEY.encode() in page.content]
    with connection.cursor() as cursor:
        for table in ("endpoints_endpoint", "accounts_auditentry"):
            cursor.execute(f"SELECT count(*) FROM {table} AS one WHERE one::text LIKE %s", [f"%{KEY}%"])
            assert cursor.fetchone() == (0,), table


def test_a_refused_form_keeps_what_was_typed_but_not_the_key(admin: Client) -> None:
    answer = admin.post("/endpoints/new/", form("ftp://models.example/v1"))
    assert answer.status_code == 422
    assert b"ftp://models.example/v1" in answer.content
    assert b"http:// or https://" in answer.content
    assert KEY.encode() not in answer.content
    assert not Endpoint.objects.exists()


def test_saving_without_a_key_keeps_it_unless_the_address_moves(admin: Client, server: llm.ScriptedServer) -> None:
    row = register(server.url)
    admin.post(f"/endpoints/{row.pk}/", form(server.url, key="", name="renamed"))
    row.refresh_from_db()
    assert (row.name, services.open_endpoint(row).api_key.get_secret_value()) == ("renamed", KEY)
    moved = admin.post(f"/endpoints/{row.pk}/", form("http://127.0.0.1:1/v1", key=""))
    assert moved.status_code == 422
    assert b"type the key again" in moved.content
    admin.post(f"/endpoints/{row.pk}/", form(server.url, key="", no_key="on"))
    row.refresh_from_db()
    assert not row.has_key


@pytest.mark.parametrize(
    ("url", "found", "said"),
    [
        ("https://models.example/v1", "10.1.2.3", "private network"),
        ("https://models.example/v1", "169.254.169.254", "private network"),
        ("https://models.example/v1", "::ffff:192.168.0.1", "private network"),
        ("https://models.example/v1", "fd00::1", "private network"),
        ("http://models.example/v1", "93.184.216.34", "not https"),
    ],
)
def test_addresses_inside_and_keys_in_the_clear_are_refused(
    url: str, found: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: answer)
    with pytest.raises(InputError, match=said):
        register(url)
    assert not Endpoint.objects.exists()


def test_one_address_of_several_inside_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = [(2, 1, 6, "", (address, 443)) for address in ("93.184.216.34", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: answer)
    with pytest.raises(InputError, match=r"127\.0\.0\.1"):
        register("https://models.example/v1")


def test_a_name_that_moves_inside_later_is_refused_at_use(monkeypatch: pytest.MonkeyPatch) -> None:
    where = ["93.184.216.34"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [(2, 1, 6, "", (where[0], 443))])
    row = register("https://models.example/v1")
    where[0] = "10.0.0.7"
    with pytest.raises(InputError, match=r"10\.0\.0\.7"):
        services.open_endpoint(row)


def test_a_listed_host_may_be_inside(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [(2, 1, 6, "", ("10.0.0.7", 8000))])
    settings.ENDPOINT_HOSTS = ["gpu-box:8000"]
    assert register("http://gpu-box:8000/v1").pk
    settings.ENDPOINT_HOSTS = ["gpu-box:8001"]
    with pytest.raises(InputError, match="ENVARIUM_ENDPOINT_HOSTS=gpu-box:8000"):
        services.save_endpoint(None, services.EndpointChanges("other", "http://gpu-box:8000/v1"))


def test_loopback_is_for_development(settings: Any) -> None:
    settings.PRODUCTION = True
    with pytest.raises(InputError, match="private network"):
        register("http://127.0.0.1:8000/v1")


@pytest.mark.parametrize(
    ("scripted", "ok", "calls_tools", "said"),
    [
        (llm.call("ping", word="hello"), True, True, "calls tools"),
        (llm.say("hello"), True, False, "ReAct"),
        (llm.calls(("ping", "{bad")), True, False, "a call that cannot be used"),
        (UNCOUNTED, True, False, "counts no tokens"),
        (llm.refuse(401, f"no such key {KEY}"), False, None, "refused the key"),
        (llm.html(), False, None, "no chat completion"),
        (llm.DROP, False, None, "hung up"),
    ],
)
def test_a_trial_says_what_is_the_matter(
    admin: Client, scripted: llm.Scripted, ok: bool, calls_tools: bool | None, said: str
) -> None:
    with llm.llm_server([scripted]) as server:
        row = register(server.url)
        found = try_endpoint(row, "scripted-1")
        answer = admin.post(f"/endpoints/{row.pk}/try/", {"model": "scripted-1"}, follow=True)
    assert (found.ok, found.calls_tools) == (ok, calls_tools)
    assert said in found.message
    assert said in flat(answer)
    assert KEY not in found.message


def test_the_server_is_asked_for_its_models(admin: Client) -> None:
    with llm.llm_server([llm.say("x")], models=["small", pages_seed.EVIL[:40]]) as server:
        row = register(server.url)
        page = admin.post(f"/endpoints/{row.pk}/models/", follow=True)
    row.refresh_from_db()
    assert row.model_names[0] == "small"
    assert b"<script>window.hit" not in page.content


def test_roles_are_saved_all_or_none(admin: Client, server: llm.ScriptedServer) -> None:
    row = register(server.url)
    admin.post("/endpoints/roles/", {"agent": f"{row.pk}/b", "user": f"{row.pk}/scripted-1"})
    assert queries.find_default_model("agent") == (row, "b")
    refused = admin.post("/endpoints/roles/", {"agent": "", "user": f"{row.pk}/gone"}, follow=True)
    assert b"not listed at its endpoint" in refused.content
    assert RoleModel.objects.count() == 2
    services.delete_endpoint(None, row.pk)
    assert queries.find_default_model("agent") is None


def test_a_role_whose_model_is_not_listed_any_more_keeps_it(admin: Client, server: llm.ScriptedServer) -> None:
    """The page must not say "none" of a model that is used, nor take it away when another role is saved."""
    row = register(server.url)
    services.set_roles(None, {"judge": f"{row.pk}/b"})
    services.save_models(None, row.pk, ["scripted-1"])
    assert "local: b (no longer listed)" in flat(admin.get("/endpoints/"))
    admin.post("/endpoints/roles/", {"judge": f"{row.pk}/b", "agent": f"{row.pk}/scripted-1"})
    assert dict(RoleModel.objects.values_list("role", "model")) == {"judge": "b", "agent": "scripted-1"}
    services.save_models(None, row.pk, [])
    assert "local: b (no longer listed)" in flat(admin.get("/endpoints/"))


def test_more_models_than_are_kept_is_said(admin: Client) -> None:
    listed = [f"m{number // 2}" for number in range(1_400)]
    with llm.llm_server([llm.say("x")], models=listed) as server:
        row = register(server.url)
        answer = admin.post(f"/endpoints/{row.pk}/models/", follow=True)
    assert "local lists 700 models. The first 500 are kept." in flat(answer)
    row.refresh_from_db()
    assert (len(row.model_names), row.model_names[1]) == (500, "m1")


def test_the_endpoint_of_the_start_follows_the_environment(settings: Any) -> None:
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = "http://127.0.0.1:9/v1", KEY
    call_command("register_endpoint")
    call_command("register_endpoint")
    row = Endpoint.objects.get()
    assert (row.name, row.from_environment) == ("default", True)
    assert AuditEntry.objects.filter(action="endpoint.environment").count() == 1, "a second start changes nothing"
    settings.OPENAI_API_KEY = "another"
    call_command("register_endpoint")
    row.refresh_from_db()
    assert services.open_endpoint(row).api_key.get_secret_value() == "another"


def test_the_start_asks_for_the_models_once_it_can(settings: Any, server: llm.ScriptedServer) -> None:
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = "http://127.0.0.1:9/v1", KEY
    call_command("register_endpoint", stdout=(said := io.StringIO()))
    assert "Its models are not known yet" in said.getvalue()
    settings.OPENAI_BASE_URL = server.url
    call_command("register_endpoint", stdout=(said := io.StringIO()))
    assert "models" in said.getvalue()
    row = Endpoint.objects.get()
    assert row.model_names == ["scripted-1"]
    row.model_names = ["one that a person typed"]
    row.save()
    call_command("register_endpoint", stdout=io.StringIO())
    row.refresh_from_db()
    assert row.model_names == ["one that a person typed"]


def test_a_changed_secret_is_said_in_words(settings: Any, server: llm.ScriptedServer) -> None:
    row = register(server.url)
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another secret of the installation, long enough for it"
    with pytest.raises(InputError, match="type the key again"):
        services.open_endpoint(row)
    settings.SECRET_KEY_FALLBACKS = [old]
    assert services.open_endpoint(row).api_key.get_secret_value() == KEY


def test_the_api_registers_changes_and_deletes(admin: Client, server: llm.ScriptedServer) -> None:
    def send(method: str, url: str, body: Any = None, **headers: str) -> Any:
        data = json.dumps(body) if body is not None else ""
        return getattr(admin, method)(url, data, content_type="application/json", headers=headers)

    body = {"name": "local", "base_url": server.url, "key": KEY, "model_names": ["scripted-1"]}
    made = send("post", "/api/v1/endpoints", body)
    assert made.status_code == 201
    assert KEY not in flat(made)
    url = f"/api/v1/endpoints/{made.json()['id']}"
    tag = admin.get(url).headers["ETag"]
    assert send("put", url, body | {"timeout_s": 9}, **{"If-Match": tag}).json()["timeout_s"] == 9
    assert send("put", url, body, **{"If-Match": tag}).status_code == 412
    assert send("delete", url, **{"If-Match": tag}).status_code == 412
    assert send("put", url, {"name": "local", "base_url": "https://"}).status_code == 422
    assert send("post", f"{url}/try", {"model": "scripted-1"}).json()["calls_tools"] is True
    assert admin.delete(url).status_code == 204
    assert admin.get(url).status_code == 404


def test_only_administrators_change_endpoints(server: llm.ScriptedServer) -> None:
    row = register(server.url)
    operator = Client()
    operator.force_login(pages_seed.person("operator"))
    assert operator.post(f"/endpoints/{row.pk}/delete/").status_code == 403
    assert operator.get("/api/v1/endpoints").json()["data"] == [
        {"id": row.pk, "name": "local", "model_names": ["scripted-1", "b"], "has_key": True}
    ]
    assert operator.delete(f"/api/v1/endpoints/{row.pk}").status_code == 403
    assert Endpoint.objects.exists()
