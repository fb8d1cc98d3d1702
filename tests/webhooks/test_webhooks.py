"""Webhooks: signed as published, sent once to what listens, tried again, and never to where requests must not go."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from webapp.accounts.models import AuditEntry, Role
from webapp.webhooks import jobs, services
from webapp.webhooks.models import Delivery, Webhook
from webapp.webhooks.signature import compute_signature, generate_secret

pytestmark = pytest.mark.django_db


class Listener:
    """A receiver on this machine. `answers` are statuses, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str]]] = [(204, {})]
        self.heard: list[tuple[dict[str, str], bytes]] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                listener.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status, headers = listener.answers[min(len(listener.heard), len(listener.answers)) - 1]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "2" if status >= 400 else "0")
                self.end_headers()
                self.wfile.write(b"no" if status >= 400 else b"")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def post() -> Callable[..., Any]:
    client = Client()
    client.force_login(pages_seed.person(Role.ADMIN))
    return lambda route, *args, **data: client.post(reverse(f"webhooks:{route}", args=args), data)


def due_now() -> None:
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the specification's own libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    told = compute_signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert generate_secret() != generate_secret()


def test_a_message_arrives_signed_and_once(listener: Listener, post: Callable[..., Any]) -> None:
    answer = post("list", name="pager", url=listener.url)
    assert answer.status_code == 201
    secret = answer.context["secret"]
    assert secret in answer.content.decode()
    row = Webhook.objects.get()
    assert secret not in row.sealed_secret
    post("test", row.pk)
    assert jobs.send_due_deliveries() == 1
    assert jobs.send_due_deliveries() == 0
    [(headers, body)] = listener.heard
    sent = json.loads(body)
    assert sent["type"] == "webhook.test"
    expected = compute_signature(secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == expected
    told = Delivery.objects.get()
    assert (told.state, told.status, told.tries, told.public_id) == ("delivered", 204, 1, headers["webhook-id"])
    shown = post("detail", row.pk)  # a new secret
    assert secret not in shown.content.decode()
    assert AuditEntry.objects.filter(action__startswith="webhook.").count() == 3
    assert not AuditEntry.objects.filter(detail__icontains="whsec_").exists()


def test_what_fails_is_tried_again_with_the_same_id(listener: Listener) -> None:
    services.create_webhook(None, "pager", listener.url)
    listener.answers = [(503, {"retry-after": "90"}), (302, {"location": "http://127.0.0.1:1/"}), (200, {})]
    [told] = services.announce_event("training.alert.began", {"job": "ftjob-1"})
    for tries, state, said in ((1, "waiting", "HTTP 503: no"), (2, "waiting", "redirect"), (3, "delivered", "")):
        jobs.send_due_deliveries()
        told.refresh_from_db()
        assert (told.tries, told.state) == (tries, state)
        assert said in told.said
        if tries == 1:
            assert told.due_at > timezone.now() + timedelta(seconds=80)
        due_now()
    assert len({headers["webhook-id"] for headers, _ in listener.heard}) == 1
    assert jobs.send_due_deliveries() == 0


def test_an_address_that_never_answers_is_given_up(listener: Listener) -> None:
    row, _ = services.create_webhook(None, "pager", listener.url)
    listener.answers = [(500, {})]
    services.announce_event("training.alert.began", {})
    for _ in range(len(services.RESTS) + 2):
        jobs.send_due_deliveries()
        due_now()
    told = Delivery.objects.get()
    assert (told.state, told.tries) == ("failed", len(services.RESTS) + 1)
    listener.answers = [(410, {})]
    services.announce_event("training.alert.began", {})
    jobs.send_due_deliveries()
    row.refresh_from_db()
    assert "410" in row.off
    assert services.announce_event("training.alert.began", {}) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.7/hook",
        "http://169.254.169.254/",
        "https://user:word@hooks.example/",
        "ftp://a.example/",
        "https://93.184.216.34/ho\tok",
        "https://93.184.216.34/\x00",
        "https://\uff19\uff13.184.216.34/",
        "https://93.184.216.34:\uff14\uff14\uff13/",
        "https://93.184.216.34/a b",
        "x",
    ],
)
def test_an_address_inside_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        services.create_webhook(None, "pager", url)


def test_an_address_that_turns_inside_later_gets_nothing(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    row, _ = services.create_webhook(None, "pager", listener.url)
    services.announce_event("training.alert.began", {})
    Webhook.objects.filter(pk=row.pk).update(url="https://10.0.0.7/hook")
    jobs.send_due_deliveries()
    told = Delivery.objects.get()
    assert (told.state, told.status) == ("waiting", 0)
    assert "private network" in told.said
    assert listener.heard == []


def test_messages_that_cannot_be_sent_keep_no_other_waiting(listener: Listener) -> None:
    bad, _ = services.create_webhook(None, "bad", listener.url)
    for url in ("http://[::1/", "http://127.0.0.1:99999/", "http://127.0.0.1:1/x\x7f"):
        for _ in range(10):
            services.announce_event("training.alert.began", {})
        Webhook.objects.filter(pk=bad.pk).update(url=url)
    Webhook.objects.create(name="unreadable", url=listener.url, sealed_secret="no secret of this installation")
    services.create_webhook(None, "good", listener.url)
    services.announce_event("training.alert.began", {"job": "ftjob-1"})
    assert jobs.send_due_deliveries() == 3, "one of each address, since two of them failed"
    states = dict(Delivery.objects.order_by("webhook__name").values_list("webhook__name", "state"))
    assert states == {"bad": "waiting", "good": "delivered", "unreadable": "waiting"}
    assert Delivery.objects.filter(webhook=bad, tries=0).count() == 30
    assert jobs.send_due_deliveries() == 0, "all of a bad address wait as long as the one that failed"
