"""Who plays the user and who judges, for workers: OpenAI's chat API in front of endpoints, counted and capped."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest

from tests.fixtures.api import problem, token_of
from tests.fixtures.llm import call, llm_server, raw, say
from tests.workers.test_worker_api import at, claim
from tests.workers.worker_support import WorkerProgram, operator, queued
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import open_endpoint
from webapp.runs.models import (
    TrainingJob,
)
from webapp.workers import llm_proxy

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> WorkerProgram:
    return WorkerProgram()


@pytest.fixture
def user_job() -> Any:
    """A job whose user an LLM plays; what it answers is scripted."""

    def made(server: Any, **more: Any) -> TrainingJob:
        endpoint = Endpoint.objects.create(name="scripted", base_url=server.url, model_names=["m"])
        return queued(user_endpoint=endpoint, user_model="m", **more)

    return made


def ask(worker: WorkerProgram, told: dict[str, Any], **more: Any) -> Any:
    body = {"model": "whatever", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0.5, **more}
    return worker.post(at(told, "llm/user/v1/chat/completions"), body)


def test_the_user_speaks_through_the_api_counted_and_capped(worker: WorkerProgram, user_job: Any) -> None:
    with llm_server([say("I want my box opened."), call("look", what="box"), say("No more.")]) as server:
        job = user_job(server, calls_allowed=2)
        told = claim(worker)
        assert told["user"]["model"] == "m"
        assert told["user"]["base_url"].endswith(at(told, "llm/user/v1"))
        first = ask(worker, told, max_tokens=50).json()
        assert first["choices"][0]["message"]["content"] == "I want my box opened."
        assert first["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        sent = server.requests[0]
        assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("m", 50, 0.5)
        second = ask(worker, told).json()["choices"][0]["message"]["tool_calls"][0]["function"]
        assert (second["name"], json.loads(second["arguments"])) == ("look", {"what": "box"})
        found = problem(ask(worker, told), 429)
        assert found["error"]["code"] == "insufficient_quota"
        assert len(server.requests) == 2
    job.refresh_from_db()
    assert (job.calls_made, job.call_tokens) == (2, 30)


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (raw(500, "oops"), 502, "llm_failed"),
        (raw(429, "slow down", retry_after="7"), 429, "llm_rate_limited"),
        (raw(401, "who are you"), 400, "llm_refused"),
        (raw(400, "maximum context length is 8"), 400, "context_length_exceeded"),
        (raw(200, "not json"), 502, "llm_malformed"),
    ],
)
def test_what_becomes_of_an_endpoints_failure(
    worker: WorkerProgram, user_job: Any, reply: Any, status: int, code: str
) -> None:
    with llm_server([reply]) as server:
        job = user_job(server)
        told = claim(worker)
        answer = ask(worker, told)
        assert problem(answer, status)["error"]["code"] == code
        assert len(server.requests) == 1, "who asks tries again, not we"
        if status == 429:
            assert answer.headers["Retry-After"] == "7"
    job.refresh_from_db()
    assert (job.calls_made, job.call_tokens) == (1, 0)


def test_bad_requests_to_the_user(worker: WorkerProgram, user_job: Any) -> None:
    with llm_server([say("x")]) as server:
        job = user_job(server)
        told = claim(worker)
        for more in ({"stream": True}, {"n": 5}, {"messages": []}, {"messages": "x"}, {"temperature": 99.0}):
            problem(ask(worker, told, **more), 422)
        Endpoint.objects.all().delete()
        assert problem(ask(worker, told), 409)["error"]["code"] == "no_role_model"
        assert not server.requests
    job.refresh_from_db()
    assert job.calls_made == 0


@pytest.mark.django_db(transaction=True)
def test_the_stock_client_of_openai_asks_the_user_and_many_at_once_keep_the_cap(live_site: str) -> None:
    """Through a real server: `openai` with the assignment's address, twenty at once of ten that are allowed."""
    import openai

    token = token_of(operator(), "worker")
    with llm_server(lambda request: say("Yes.", seconds=0.2)) as server, httpx.Client(base_url=live_site) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        endpoint = Endpoint.objects.create(name="scripted", base_url=server.url, model_names=["m"], max_concurrency=4)
        job = queued(user_endpoint=endpoint, user_model="m", calls_allowed=10)
        name = http.post("/api/v1/training/workers", json={"name": "gpu"}).json()["id"]
        told = http.post(f"/api/v1/training/workers/{name}/claim", json={}).json()
        client = openai.OpenAI(base_url=told["user"]["base_url"], api_key=token, max_retries=0)
        found: list[str] = []

        def one() -> None:
            try:
                said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
                found.append(str(said.choices[0].message.content))
            except openai.RateLimitError as error:
                found.append(str(error.code))

        threads = [threading.Thread(target=one) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert sorted(found) == ["Yes."] * 10 + ["insufficient_quota"] * 10
    job.refresh_from_db()
    assert (job.calls_made, job.call_tokens) == (10, 150)


def test_a_connection_closes_once_its_endpoint_has_changed_and_when_the_process_ends(user_job: Any) -> None:
    with llm_server([say("One."), say("Two.")]) as server:
        row = user_job(server).user_endpoint
        loop, sessions = llm_proxy.Loop(), []
        for _ in range(2):
            loop.ask(row, open_endpoint(row), {"model": "m", "messages": [{"role": "user", "content": "Hello"}]})
            sessions.append(loop._opened[row.pk][1]._transport.inner._session)
            row.save()
        assert [session.closed for session in sessions] == [True, False]
        loop.close()
    assert all(session.closed for session in sessions)
