"""Batches over the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batches.support import work_off
from tests.batches.table import answer
from tests.fixtures.api import Program, problem, program
from tests.fixtures.llm import ScriptedServer, llm_server
from tests.rollouts_web.support import endpoint_at, person
from webapp.accounts.models import AuditEntry
from webapp.batches.models import Batch, LLMCall
from webapp.batches.spec import ROLES
from webapp.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = {"scenarios": 1, "tasks": 1, "teacher_runs": 1}
HOTEL = {"name": "Hotel front desk", "description": "Guests, rooms, bookings and payments of a small hotel."}
LIBRARY = {"name": "Tool library", "description": "People borrow tools, bring them back and pay for what broke."}


def settings_at(server: ScriptedServer, **changes: Any) -> dict[str, Any]:
    endpoint = endpoint_at(server.url, timeout_s=5)
    return {"models": dict.fromkeys(ROLES, f"{endpoint.pk}/scripted-1"), "stages": SMALL} | changes


@pytest.fixture
def caller() -> Program:
    return program(person("operator"), "read", "synthesise", "worker")


def test_a_batch_is_made_followed_and_looked_into(caller: Program) -> None:
    with llm_server(answer) as server:
        body = {"name": "Desks", "typed": [HOTEL, LIBRARY, HOTEL], "settings": settings_at(server)}
        made = caller.post("/batches", body, **{"Idempotency-Key": "once"})
        assert made.status_code == 202, made.content
        again = caller.post("/batches", body, **{"Idempotency-Key": "once"})
        assert (again.json()["id"], Batch.objects.count(), Job.objects.count()) == (made.json()["id"], 1, 1)
        batch = Batch.objects.get()
        assert (made.json()["state"], made.json()["items"]) == ("running", {"theme": {"waiting": 2}})
        work_off(batch)
    seen = caller.get(f"/batches/{batch.pk}").json()
    assert (seen["state"], seen["created_by"], seen["scripted"]) == ("done", "ann", False)
    assert seen["items"] == {level: {"kept": 2} for level in ("theme", "scenario", "task", "trajectory")}
    assert {row["stage"]: row["count"] for row in seen["stages"]}["filter"] == 2
    first = caller.get(f"/batches/{batch.pk}/items?limit=1&level=task").json()
    assert first["next_cursor"]
    for asked, count in (
        ("stage=audit&ended=kept", 2),
        ("stage=audit&ended=failed", 0),
        ("open=true", 0),
        ("stage=save", 8),
    ):
        assert len(caller.get(f"/batches/{batch.pk}/items?{asked}").json()["data"]) == count, asked
    assert "in which stage" in caller.get(f"/batches/{batch.pk}/items?ended=kept").json()["detail"]
    item = caller.get(f"/batch-items/{first['data'][0]['id']}").json()
    assert [run["stage"] for run in item["runs"]] == ["instruction", "audit", "save"]
    assert item["runs"][0]["output"]["instruction"].startswith("Open it.")
    assert item["product"]["task_id"]
    assert item["product"]["provenance"]["batch"] == batch.pk
    calls = caller.get(f"/batches/{batch.pk}/calls?stage=instruction").json()["data"]
    assert [call["state"] for call in calls] == ["done", "done"]
    call = caller.get(f"/llm-calls/{calls[0]['id']}").json()
    assert call["request"]["messages"]
    assert call["reply"]["message"]["content"]
    assert caller.get("/batches?state=done").json()["data"][0]["id"] == batch.pk
    assert AuditEntry.objects.filter(action="batch.create").count() == 1


def test_a_dry_run_says_what_would_be_asked_and_asks_nothing(caller: Program) -> None:
    with llm_server(answer) as server:
        prices = {"local/scripted-1": {"prompt": 1.0, "completion": 2.0}}
        body = {"typed": [HOTEL], "settings": settings_at(server, prices=prices)}
        found = caller.post("/batches/dry_run", body).json()
        assert server.requests == []
    assert found["items"] == {"theme": 1, "scenario": 1, "task": 1, "trajectory": 2}
    for end in ("low", "high"):
        assert found["calls"][end] == sum(line["calls"][end] for line in found["lines"])
    assert found["calls"]["high"] > 200
    for name in ("calls", "cost", "seconds"):
        assert 0 < found[name]["low"] < found[name]["high"]
    assert (found["sample"]["role"], found["sample"]["stage"]) == ("author", "plan_state")
    assert "Hotel front desk" in found["sample"]["messages"][0]["content"]
    assert (Batch.objects.count(), LLMCall.objects.count()) == (0, 0)


def test_a_clone_says_where_it_differs(caller: Program) -> None:
    with llm_server(answer) as server:
        body = {"typed": [HOTEL], "settings": settings_at(server), "start": False}
        origin = caller.post("/batches", body).json()
        assert origin["state"] == "draft"
        changes = {"settings": {"seed": 7, "stages": {"tasks": 3}}, "start": False}
        clone = caller.post(f"/batches/{origin['id']}/clone", changes).json()
    assert clone["cloned_from"] == origin["id"]
    assert clone["differences"] == [
        {"name": "stages.tasks", "before": 1, "after": 3},
        {"name": "seed", "before": 0, "after": 7},
    ]


def test_it_is_paused_resumed_cancelled_and_tried_again(caller: Program) -> None:
    with llm_server(answer) as server:
        body = {"typed": [HOTEL | {"name": "drop-desk"}, LIBRARY], "settings": settings_at(server)}
        pk = caller.post("/batches", body).json()["id"]
        assert caller.post(f"/batches/{pk}/pause").json()["state"] == "paused"
        problem(caller.post(f"/batches/{pk}/pause"), 409)
        tag = caller.get(f"/batches/{pk}").headers["ETag"]
        assert caller.post(f"/batches/{pk}/resume", {}, **{"If-Match": tag}).json()["state"] == "running"
        problem(caller.post(f"/batches/{pk}/cancel", None, **{"If-Match": tag}), 412)
        work_off(Batch.objects.get(pk=pk))
        (failure,) = caller.get(f"/batches/{pk}/failures").json()
        assert (failure["state"], failure["reason"], failure["count"]) == ("failed", "unreachable", 1)
        problem(caller.post(f"/batches/{pk}/retry", {"stage": "plan"}), 409)
        assert caller.post(f"/batches/{pk}/retry", {"item": failure["item"]}).json()["state"] == "running"
        assert caller.post(f"/batches/{pk}/cancel").json()["state"] == "cancelled"
        problem(caller.post(f"/batches/{pk}/cancel"), 409)


def test_bad_requests_say_what_to_change(caller: Program) -> None:
    assert "1 to" in problem(caller.post("/batches", {}), 422)["detail"]
    said = problem(caller.post("/batches", {"typed": [HOTEL], "settings": {"stages": {"tasks": 0}}}), 422)
    assert said["detail"].startswith("settings.stages.tasks: ")
    assert "no theme 77" in problem(caller.post("/batches", {"theme_ids": [77]}), 422)["detail"]
    large = {"name": "Large", "description": "x" * 1_000_000}
    assert "100000 characters" in problem(caller.post("/batches", {"typed": [large]}), 422)["detail"]
    models = {"models": {"author": "9/none"}}
    assert "author" in problem(caller.post("/batches", {"typed": [HOTEL], "settings": models}), 422)["detail"]
    assert Batch.objects.count() == 0


def test_operators_set_what_annotators_may_launch(caller: Program) -> None:
    limits = {"annotator_cap": 1.5, "annotator_themes": 1}
    assert caller.send("PUT", "/batches/limits", limits).json() == limits
    annotator = program(person("annotator", "bo"), "read", "synthesise")
    problem(annotator.send("PUT", "/batches/limits", limits), 403)
    assert "up to 1 theme at once" in problem(annotator.post("/batches", {"typed": [HOTEL, LIBRARY]}), 422)["detail"]
    assert annotator.post("/batches", {"typed": [HOTEL], "start": False}).json()["cap"] == 1.5


def test_annotators_let_nothing_go_on_that_is_beyond_their_limit(caller: Program) -> None:
    annotator = program(person("annotator", "bo"), "read", "synthesise")
    models = dict.fromkeys(ROLES, f"{endpoint_at('http://127.0.0.1:9/v1').pk}/scripted-1")
    draft = {"typed": [HOTEL], "start": False}

    def refused(settings: dict[str, Any]) -> str:
        batch = caller.post("/batches", draft | {"settings": {"models": models} | settings}).json()
        said = problem(annotator.post(f"/batches/{batch['id']}/start", {}), 409)["detail"]
        assert Batch.objects.get(pk=batch["id"]).state == "draft"
        return str(said)

    assert "no spend cap" in refused({})
    prices = {"local/scripted-1": {"prompt": 0, "completion": 0}}
    assert "up to 5" in refused({"cap": 50, "prices": prices})
    assert "prices of its own" in refused({"cap": 1, "prices": prices})
    scripted = caller.post("/batches", draft).json()
    assert annotator.post(f"/batches/{scripted['id']}/start", {}).json()["state"] == "running"
