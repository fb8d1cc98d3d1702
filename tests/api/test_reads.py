from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.test.utils import CaptureQueriesContext

import webapp
from tests.fixtures import pages_seed, replay_seed
from tests.fixtures.api import Program, problem
from webapp.accounts.models import AuditEntry, User
from webapp.common.paging import encode_cursor
from webapp.common.rest.problems import CODES
from webapp.environments.models import Environment
from webapp.trajectories.models import Score
from webapp.trajectories.states import load_state_at

pytestmark = pytest.mark.django_db


def everything(reader: Program, path: str, limit: int) -> list[dict[str, Any]]:
    """All rows of a list, page by page."""
    rows: list[dict[str, Any]] = []
    joint = "&" if "?" in path else "?"
    at = f"{path}{joint}limit={limit}"
    for _ in range(100):
        body = reader.get(at).json()
        assert len(body["data"]) <= limit
        rows += body["data"]
        if body["next_cursor"] is None:
            return rows
        at = f"{path}{joint}limit={limit}&cursor={body['next_cursor']}"
    raise AssertionError("the list never ends")


@pytest.mark.parametrize("sort", ["new", "name", "tools", "findings", "tasks"])
def test_a_list_in_pages_is_the_whole_list_in_its_order(reader: Program, sort: str) -> None:
    for number in range(11):
        pages_seed.environment(f"Desk {number % 4}", f"key-{number}", task_count=number % 3)
    whole = reader.get(f"/environments?sort={sort}&limit=200").json()
    assert whole["next_cursor"] is None
    assert len(whole["data"]) == 11
    assert everything(reader, f"/environments?sort={sort}", 3) == whole["data"]


def test_the_filters_are_those_of_the_page(reader: Program, annotator: User) -> None:
    page = Client()
    page.force_login(annotator)
    pages_seed.environment("Front desk", "a", category="Health")
    pages_seed.environment("Back office", "b", category="Trade")
    Environment.objects.filter(key="b").update(tool_count=9)
    for query in ("q=desk", "category=Trade", "tools_min=5", "tools_max=5", "finding=uses_clock", "finding=none_such"):
        shown = [row.pk for row in page.get(f"/environments/?{query}").context["page"].rows]
        assert [row["id"] for row in reader.get(f"/environments?{query}").json()["data"]] == shown
    assert problem(reader.get("/environments?tools_min=x"), 422)["errors"][0]["loc"] == ["query", "tools_min"]
    problem(reader.get("/environments?sort=odd"), 422)


RAISED = re.compile(r'(?:Problem\([^)]*\b|^    )code(?:: ClassVar\[str\])? ?= ?"(\w+)"', re.MULTILINE)
CURSORS = {
    "text": "x",
    "signs": "!!",
    "empty list": "W10",
    "too large an id": encode_cursor(3, 2**63),
    "an object": encode_cursor({"a": 1}, 1),
    "NUL": encode_cursor("a\x00", 1),
    "no value": encode_cursor(None, 1),
    "no id": encode_cursor(3, True),
    "foreign digits": "\u0661" * 9,
    "not a number": encode_cursor("not a number", 3),
}


@pytest.mark.parametrize(
    ("path", "good", "wrong"),
    [
        ("/endpoints?", "a", [1, 1.5, True, float("nan"), None]),
        ("/taxonomy?", "a", [1, True, None]),
        ("/environments?sort=tools&", 3, ["a", "3", True, None]),
        ("/trajectories?order=reward&", 0.5, ["a", "0.5", True]),
    ],
)
def test_a_cursor_of_another_order_is_said(reader: Program, path: str, good: Any, wrong: list[Any]) -> None:
    """PostgreSQL would compare a number with names as a text, and the list go on anywhere."""
    assert reader.get(f"{path}cursor={encode_cursor(good, 1)}").status_code == 200
    for value in wrong:
        assert problem(reader.get(f"{path}cursor={encode_cursor(value, 1)}"), 400)["error"]["code"] == "bad_cursor"


@pytest.mark.parametrize("cursor", CURSORS.values(), ids=CURSORS.keys())
def test_a_cursor_of_nothing_is_said(reader: Program, cursor: str) -> None:
    pages_seed.environment()
    answer = reader.get(f"/environments?sort=tools&cursor={cursor}")
    assert problem(answer, 400)["error"]["code"] == "bad_cursor"


def test_an_environment_with_its_versions_tools_and_findings(reader: Program) -> None:
    row = pages_seed.environment()
    pages_seed.add_version(row, 2)
    at = f"/environments/{row.pk}"
    whole = reader.get(at).json()
    assert whole["current"]["number"] == 1
    assert "source" not in whole["current"]
    assert [one["number"] for one in reader.get(f"{at}/versions").json()["data"]] == [2, 1]
    version = reader.get(f"{at}/versions/1").json()
    assert version["source"] == pages_seed.PROGRAM
    assert version["rules"] == ["Be kind."]
    tools = reader.get(f"{at}/versions/1/tools").json()
    assert [one["name"] for one in tools] == ["get_row", "drop_row"]
    assert tools[0]["raw_schema"]["required"] == ["key", "day"]
    assert reader.get(f"/tools/{tools[0]['id']}").json() == tools[0]
    found = reader.get(f"/findings?environment={row.pk}&severity=warning").json()["data"]
    assert {one["kind"] for one in found} == {"wrong_type_raises"}
    assert {one["environment_id"] for one in found} == {row.pk}
    for missing in (f"{at}/versions/3", "/environments/9999", "/tools/9999"):
        problem(reader.get(missing), 404)


def test_a_task_and_its_run(reader: Program) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    task = reader.get(f"/tasks/{run.task_id}").json()
    assert task["current"]["instruction"] == run.revision.instruction
    assert len(task["current"]["checks"]) == run.revision.checks.count()
    assert reader.get(f"/tasks/{run.task_id}/revisions/1").json() == task["current"]
    state = reader.get(f"/scenarios/{task['scenario_id']}/state").json()["state"]
    assert state == load_state_at(run, 0)
    steps = everything(reader, f"/trajectories/{run.pk}/steps", 2)
    assert [one["index"] for one in steps] == list(range(run.step_count))
    assert reader.get(f"/trajectories/{run.pk}/steps/1").json() == steps[1]
    last = run.step_count - 1
    assert reader.get(f"/trajectories/{run.pk}/steps/{last}/state").json()["state"] == load_state_at(run, last)
    assert "counted from 0" in problem(reader.get(f"/trajectories/{run.pk}/steps/{last + 1}/state"), 404)["detail"]
    Score.objects.create(
        trajectory=run, revision=run.revision, verifier_hash="v", reward=0.5, passed=1, total=2, source="replay"
    )
    assert reader.get(f"/trajectories/{run.pk}/scores").json()["data"][0]["reward"] == 0.5


def test_a_run_without_a_reward_has_none(reader: Program) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    type(run).objects.update(reward=None, outcome="infra_error")
    assert reader.get(f"/trajectories/{run.pk}").json()["reward"] is None
    assert reader.get("/trajectories?order=reward").json()["data"] == []


def test_a_list_costs_the_same_queries_for_many_rows(reader: Program) -> None:
    from django.db import connection

    run = replay_seed.make(replay_seed.ordinary())
    for path in ("/environments", "/findings", "/tasks", "/scenarios", "/trajectories", "/jobs"):
        reader.get(path)
        with CaptureQueriesContext(
            connection,
        ) as few:
            reader.get(path)
        for number in range(6):
            pages_seed.environment(f"More {path} {number}")
            pages_seed.job()
        type(run).objects.bulk_create(copies(run, path))
        with CaptureQueriesContext(connection) as many:
            assert len(reader.get(path).json()["data"]) > 0
        assert len(many) == len(few), f"{path}: {[one['sql'][:200] for one in many]}"


def copies(run: Any, mark: str) -> list[Any]:
    made = []
    for number in range(3):
        row = type(run).objects.defer(None).get(pk=run.pk)
        row.pk, row.content_hash = None, f"{mark}-{number}"
        made.append(row)
    return made


def test_etags_answer_304_until_the_object_changes(reader: Program) -> None:
    row = pages_seed.environment()
    first = reader.get(f"/environments/{row.pk}")
    tag = first.headers["ETag"]
    assert not tag.startswith("W/")
    assert "Authorization" in first.headers["Vary"]
    same = reader.get(f"/environments/{row.pk}", **{"If-None-Match": f'"other", W/{tag}'})
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    Environment.objects.update(name="Another")
    changed = reader.get(f"/environments/{row.pk}", **{"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag


@pytest.mark.parametrize("path", ["/environments/export", "/tasks/export", "/trajectories/export"])
def test_exports_are_files_and_are_written_down(reader: Program, path: str) -> None:
    replay_seed.make(replay_seed.ordinary())
    answer = reader.get(path)
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert AuditEntry.objects.filter(action=f"{path.split('/')[1]}.export").count() == 1


def test_the_schema_names_every_operation_its_scope_and_the_problems() -> None:
    schema = Program().get("/openapi.json").json()
    assert schema["openapi"].startswith("3.1")
    ids = [details["operationId"] for methods in schema["paths"].values() for details in methods.values()]
    assert len(ids) == len(set(ids))
    for methods in schema["paths"].values():
        for details in methods.values():
            assert details["x-scope"]
            assert details["responses"]["default"]["content"]["application/problem+json"]
    text = json.dumps(schema)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in schema["components"]["schemas"]


def test_the_reference_page_has_no_script_and_every_operation(annotator: User) -> None:
    page = Client()
    page.force_login(annotator)
    html = page.get("/api/").content.decode()
    for name in Program().get("/openapi.json").json()["paths"]:
        assert name in html
    assert "<script>" not in html


def test_the_type_of_every_problem_leads_to_its_row_in_the_reference(annotator: User) -> None:
    page = Client()
    page.force_login(annotator)
    html = page.get("/api/").content.decode()
    used = {code for file in Path(webapp.__file__).parent.rglob("*.py") for code in RAISED.findall(file.read_text())}
    assert {"bad_cursor", "in_flight", "bad_range", "stale_attempt"} <= used
    assert not [code for code in [*CODES.values(), *used] if f'<tr id="{code}">' not in html]
