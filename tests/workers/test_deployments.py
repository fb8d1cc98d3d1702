"""Deployments of checkpoints: started, claimed, ready, away, taken over, stopped; and who may ask what they serve."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.utils import timezone

from synthesis.errors import InputError
from tests.fixtures.api import Program, problem, program
from tests.fixtures.pages_seed import person
from tests.workers.serving_support import ADAPTERS, ServingProgram, checkpoint, own_key, served, trained
from tests.workers.worker_support import FINAL, claimed, operator
from webapp.accounts.models import Role
from webapp.common.errors import Conflict
from webapp.endpoints import services
from webapp.endpoints.queries import find_choice, list_model_choices
from webapp.endpoints.served_models import find_served_endpoint
from webapp.runs.models import Checkpoint
from webapp.workers import retention
from webapp.workers.models import Deployment, Worker
from webapp.workers.serving import deployment_claims, deployments, request_queue

TOO_LONG = "context_length_exceeded"
LONG = "This model's maximum context length is 1024 tokens, the conversation has 6000."
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.django_db
def test_a_served_checkpoint_is_a_model_to_choose_until_it_is_stopped(settings: LazySettings) -> None:
    settings.SITE_URL = "http://web:8000/"
    job = trained()
    row, worker = served(job, 2)
    assert (row.state, row.worker_name, row.engine) == ("ready", "server-1", "transformers 5")
    assert {file["path"] for file in worker.told["files"]} == set(FINAL)
    endpoint = find_served_endpoint()
    assert endpoint is not None
    assert [choice.model for choice in list_model_choices()] == [f"ft:{job.public_id}:step-2"]
    opened = services.open_endpoint(endpoint)
    assert opened.base_url == "http://web:8000/api/v1/serving/v1", "wherever this site is just now"
    assert len(opened.api_key.get_secret_value()) > 40
    assert "stream" in opened.left_out[row.model]
    for change in (
        lambda: services.save_models(None, endpoint.pk, ["other"]),
        lambda: services.delete_endpoint(None, endpoint.pk),
        lambda: services.save_endpoint(
            None, services.EndpointChanges("x", "https://elsewhere.example/v1"), endpoint.pk
        ),
    ):
        with pytest.raises(InputError, match="this site itself"):
            change()
    deployments.stop_deployment(operator(), row.public_id)
    assert list_model_choices() == []
    assert worker.beat().status_code == 409
    assert job.events.latest("pk").message.startswith(f"{row.model} is served no more")


@pytest.mark.django_db
def test_what_cannot_be_served_is_refused_and_what_is_served_is_kept() -> None:
    job = trained()
    checkpoint(job, 4, ADAPTERS)
    user = operator()
    for model, words in (
        (f"ft:{job.public_id}:step-4", "adapters alone cannot be served"),
        (f"ft:{job.public_id}:step-7", "no checkpoint that is kept"),
        ("gpt", "name ft:JOB"),
    ):
        with pytest.raises(InputError, match=words):
            deployments.start_deployment(user, model, deployments.ServeWish())
    assert [choice.step for choice in deployments.list_served_choices(job)] == [None, 2]
    first = deployments.start_deployment(user, f"ft:{job.public_id}:step-2", deployments.ServeWish())
    with pytest.raises(Conflict, match="served already"):
        deployments.start_deployment(user, first.model, deployments.ServeWish())
    for step in range(5, 9):
        checkpoint(job, step)
    retention.prune_checkpoints(job)
    assert Checkpoint.objects.get(job=job, step=2).state == "ready"
    deployments.stop_deployment(user, first.public_id)
    retention.prune_checkpoints(job)
    assert Checkpoint.objects.get(job=job, step=2).state == "deleted"


@pytest.mark.django_db
def test_a_lost_worker_is_noticed_comes_back_or_is_replaced() -> None:
    job = trained()
    row, anna = served(job)
    bela = ServingProgram("server-2")
    assert bela.claim() == {}

    def silence() -> Deployment:
        Deployment.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert deployment_claims.reap_deployments() == 1
        row.refresh_from_db()
        return row

    assert (silence().state, row.shown_state) == ("starting", "away")
    assert "was not heard of for" in row.reason
    assert find_choice(f"{find_served_endpoint().pk}/{row.model}"), "it is about to be again"  # type: ignore[union-attr]
    assert anna.beat().status_code == 204, "nobody else has claimed it"
    row.refresh_from_db()
    assert (row.state, row.attempt, row.reason) == ("ready", 1, "")
    silence()
    assert bela.claim()["attempt"] == 2
    for answer in (anna.beat(), anna.post(anna.at("requests")), anna.post(anna.at("end"), {"ending": "crashed"})):
        assert problem(answer, 409)["error"]["code"] == "stale_attempt"
    assert bela.beat().status_code == 204
    assert bela.post(f"/training/workers/{bela.id}/goodbye").status_code == 204
    row.refresh_from_db()
    assert (row.state, row.lost, row.lease_until) == ("starting", 0, None)
    for _ in range(deployment_claims.MOST_LOST + 1):
        bela.claim()
        assert bela.post(bela.at("end"), {"ending": "crashed", "message": "Boom."}).status_code == 204
    row.refresh_from_db()
    assert row.state == "failed"
    assert "6th time in a row" in row.reason
    assert list_model_choices() == []


@pytest.mark.django_db
def test_a_server_that_cannot_start_says_why_and_serving_workers_train_nothing() -> None:
    job = trained()
    deployments.start_deployment(operator(), f"ft:{job.public_id}", deployments.ServeWish(context=512))
    worker = ServingProgram()
    assert worker.claim()["context"] == 512
    end = {"ending": "failed", "message": "Out of memory.", "log": "loading\nCUDA out of memory"}
    for _ in range(2):
        assert worker.post(worker.at("end"), end).status_code == 204
    row = Deployment.objects.get()
    assert (row.state, row.reason, row.log) == ("failed", "Out of memory.", "loading\nCUDA out of memory")
    reader = program(person(Role.VIEWER), "read")
    shown = reader.get(f"/deployments/{row.public_id}").json()
    assert (shown["state"], shown["log"]) == ("failed", row.log)
    assert problem(reader.post(f"/deployments/{row.public_id}/stop"), 403)
    assert Worker.objects.get().serves == 1
    _, told, _ = claimed()
    assert told.job != job.public_id


@pytest.mark.django_db(transaction=True)
class TestAsked:
    """Requests through the site, answered by a worker that takes them."""

    @pytest.fixture
    def deployment(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Deployment, ServingProgram]:
        monkeypatch.setattr(request_queue, "LOOK_SECONDS", 0.1)
        return served(trained())

    def asked(self, model: str, answers: list[Any], **more: Any) -> threading.Thread:
        def ask() -> None:
            try:
                answers.append(
                    Program(own_key()).post("/serving/v1/chat/completions", {"model": model, **HELLO, **more})
                )
            finally:
                connection.close()

        thread = threading.Thread(target=ask)
        thread.start()
        return thread

    def test_a_request_is_taken_and_its_answer_handed_on(self, deployment: tuple[Deployment, ServingProgram]) -> None:
        row, worker = deployment
        answers: list[Any] = []
        thread = self.asked(row.model, answers, temperature=0.5, top_k=3)
        [request] = worker.take(5)
        assert request["body"] == {"model": row.model, **HELLO, "temperature": 0.5, "top_k": 3}
        told = {"status": 200, "body": {"choices": [{"message": {"role": "assistant", "content": "Hi."}}]}}
        answer = worker.post(worker.at(f"requests/{request['id']}/answer"), told)
        assert answer.json() == {"waited_for": True}
        thread.join(10)
        assert (answers[0].status_code, answers[0].json()) == (200, told["body"])
        late = worker.post(worker.at(f"requests/{request['id']}/answer"), told)
        assert late.json() == {"waited_for": False}
        assert worker.take() == []
        row.refresh_from_db()
        assert (row.requests, row.failures) == (1, 0)
        listed = Program(own_key()).get("/serving/v1/models").json()
        assert [model["id"] for model in listed["data"]] == [row.model]

    @pytest.mark.parametrize(
        ("error", "code", "param"),
        [
            ({"message": LONG, "param": "messages", "code": TOO_LONG}, TOO_LONG, "messages"),
            ({"message": LONG, "type": "BadRequestError", "param": None, "code": 400}, TOO_LONG, None),
            ({"message": "n must be 1.", "param": "n", "code": "invalid_request"}, "invalid_request", "n"),
        ],
    )
    def test_a_servers_refusal_reaches_who_asked(
        self, deployment: tuple[Deployment, ServingProgram], error: dict[str, Any], code: str, param: str | None
    ) -> None:
        row, worker = deployment
        answers: list[Any] = []
        thread = self.asked(row.model, answers)
        [request] = worker.take(5)
        worker.post(worker.at(f"requests/{request['id']}/answer"), {"status": 400, "body": {"error": error}})
        thread.join(10)
        told = problem(answers[0], 400)["error"]
        assert told == {"message": error["message"], "code": code, "param": param, "type": "invalid_request_error"}

    def test_a_server_that_is_lost_says_when_to_ask_again(self, deployment: tuple[Deployment, ServingProgram]) -> None:
        row, worker = deployment
        answers: list[Any] = []
        thread = self.asked(row.model, answers)
        [request] = worker.take(5)
        lost = {"message": "The model's server was lost.", "code": "model_away"}
        worker.post(worker.at(f"requests/{request['id']}/answer"), {"status": 503, "body": {"error": lost}})
        thread.join(10)
        assert problem(answers[0], 503)["error"]["code"] == "model_away"
        assert answers[0].headers["Retry-After"] == "10"

    def test_a_request_under_way_is_told_that_its_worker_was_lost(
        self, deployment: tuple[Deployment, ServingProgram]
    ) -> None:
        row, worker = deployment
        answers: list[Any] = []
        threads = [self.asked(row.model, answers) for _ in range(2)]
        assert worker.take(5)
        Deployment.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        deployment_claims.reap_deployments()
        for thread in threads:
            thread.join(10)
        for answer in answers:
            assert problem(answer, 503)["error"]["code"] == "model_away"
            assert answer.headers["Retry-After"] == "10"
            assert "takes it over" in answer.json()["detail"]
        assert len(answers) == 2
        row.refresh_from_db()
        assert (row.requests, row.failures) == (0, 2)

    def test_who_may_ask_and_for_what(self, deployment: tuple[Deployment, ServingProgram]) -> None:
        row, _ = deployment
        at, asked = "/serving/v1/chat/completions", {"model": row.model, **HELLO}
        assert problem(Program("envr_who_knows").post(at, asked), 401)
        assert problem(program(person(Role.VIEWER), "read").post(at, asked), 403)
        own = Program(own_key())
        assert problem(own.post(at, {**asked, "model": "ft:other"}), 404)["error"]["code"] == "model_not_served"
        assert problem(own.post(at, {**asked, "stream": True}), 422)["error"]["param"] == "stream"
        assert problem(own.get("/endpoints"), 401), "the key opens nothing else"
        deployments.stop_deployment(None, row.public_id)
        assert problem(own.post(at, asked), 404)
