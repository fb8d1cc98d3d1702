from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.fixtures import replay_seed as seed
from webapp.accounts.models import User
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", role="viewer"))
    return client


def copies(run: Trajectory, number: int, **fields) -> None:
    keep = {
        f.attname: getattr(run, f.attname)
        for f in Trajectory._meta.concrete_fields
        if f.name not in ("id", "content_hash")
    }
    Trajectory.objects.bulk_create(
        Trajectory(**{**keep, "content_hash": f"{fields}{at}"[:64], **fields}) for at in range(number)
    )


def streamed(response) -> str:
    async def read() -> bytes:
        return b"".join([part async for part in response])

    return async_to_sync(read)().decode()


def rows(response) -> list[int]:
    assert response.status_code == 200
    return [row.pk for row in response.context["page"].rows]


def test_an_empty_list_says_what_to_do(reader):
    page = reader.get("/trajectories/").content.decode()
    assert "No trajectories yet" in page
    assert "/import/" in page


def test_filters_are_links(reader):
    run = seed.make(seed.ordinary())
    copies(run, 3, outcome="solved", reward=1.0, policy="other")
    assert len(rows(reader.get("/trajectories/?outcome=solved"))) == 3
    assert rows(reader.get("/trajectories/?high=0.9&low=0.5")) == [run.pk]
    assert rows(reader.get("/trajectories/?policy=qwen")) == [run.pk]
    assert len(rows(reader.get(f"/trajectories/?task={run.task_id}&environment={run.environment_id}&source=made"))) == 4
    assert rows(reader.get("/trajectories/?replay=failed")) == []
    odd = reader.get("/trajectories/?outcome=great&task=x&low=nan&order=-replay&after=%00")
    assert len(rows(odd)) == 4
    assert "it was ignored" in odd.content.decode()


@pytest.mark.parametrize("order", ["-id", "id", "reward", "-reward"])
def test_pages_are_walked_both_ways_with_one_bounded_count(reader, order):
    run = seed.make(seed.ordinary())
    copies(run, 119)
    first = reader.get(f"/trajectories/?order={order}")
    with CaptureQueriesContext(connection) as queries:
        second = reader.get(first.context["page"].after)
    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert all("LIMIT 10001" in sql for sql in counts)
    assert len(counts) <= 1
    assert len(queries) <= 12
    third = reader.get(second.context["page"].after)
    seen = rows(first) + rows(second) + rows(third)
    assert len(set(seen)) == 120
    assert rows(reader.get(third.context["page"].before)) == rows(second)


def test_the_selection_is_exported_as_lines(reader):
    run = seed.make(seed.ordinary())
    copies(run, 120, policy="other")
    Trajectory.objects.filter(pk=run.pk).update(record={})
    answer = reader.get("/trajectories/export.jsonl?policy=other")
    assert answer["Content-Disposition"].startswith("attachment")
    # The environment and the task that they rest on stand before the first.
    assert len(streamed(answer).splitlines()) == 2 + 120
    own = json.loads(streamed(reader.get("/trajectories/export.jsonl?policy=qwen")).splitlines()[-1])
    assert own["task_info"]["task_id"] == run.task.key
    assert len(own["trajectory"]) == 1 + run.call_count, "without a record it is spelled by its steps"


def test_attempts_at_a_task(reader):
    run = seed.make(seed.ordinary())
    page = reader.get(f"/trajectories/of-task/{run.task_id}/").content.decode()
    assert "<html" in page
    assert f"/trajectories/{run.pk}/" in page
    part = reader.get(f"/trajectories/of-task/{run.task_id}/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    assert f"/trajectories/{run.pk}/" in part
    assert reader.get("/trajectories/of-task/99999999/").status_code == 404
