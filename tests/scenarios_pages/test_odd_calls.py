"""The playground where a tool ends its process, lies about its changes, or returns what is hard to show."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.runtime import get_default_sandbox
from tests.runtime.test_endings import FIND
from tests.scenarios_pages.support import SOURCE, environment_record, task_record
from tests.scenarios_pages.test_playground import add, run
from tests.scenarios_pages.test_tasks import text_of
from webapp.environments.services import build_program, save_environment
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import Playground, PlaygroundCall

pytestmark = pytest.mark.django_db
READ = '        return {"success": True, "count": self.count}\n'


def playing(client: Client, read: str) -> Playground:
    """A playground whose tool `read` does this."""
    source = FIND + SOURCE.replace(READ, f"        {read}\n", 1)
    _, _, version = save_environment(environment_record(source), [], "test")
    task = import_task(get_default_sandbox(), task_record(), version, build_program(version), "test").row
    body = {"version": version.pk, "scenario": task.scenario_id}
    assert client.post(reverse("scenarios:try_new"), body).status_code == 302
    return Playground.objects.get()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ("os._exit(3)", "ended before the call came back"),
        ("self.names = None; os.write(sock(), b'\\x01nonsense')", "could not be read"),
        ("x = []; x.append(x); self.loop = x; return 1", ""),
    ],
)
def test_a_call_that_breaks_its_process_is_told_in_words(client: Client, read: str, words: str) -> None:
    play = playing(client, read)
    answer = run(client, play, "read")
    assert answer.status_code in (200, 409)
    assert words in text_of(answer)
    assert client.get(reverse("scenarios:playground", args=[play.pk])).status_code == 200
    if words:
        assert not PlaygroundCall.objects.exists()
        play.refresh_from_db()
        assert add(client, play, 2).status_code == 200
        assert PlaygroundCall.objects.get().result["count"] == 2


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/no/such", "value": 1},
        {"op": "remove", "path": "/no"},
        {"op": "replace", "path": "/count", "value": {"$date": "never"}},
    ],
)
def test_a_change_that_fits_nowhere_is_not_kept(client: Client, operation: dict[str, Any]) -> None:
    """The child answers for the hash too, as if all were well: the page could not be opened again."""
    replies = ({"id": 3, "ok": True, "r": 1, "us": 1, "p": [operation]}, {"id": 4, "ok": True, "h": "0" * 64})
    sent = "; ".join(f"os.write(sock(), b'\\x01' + json.dumps({reply!r}).encode())" for reply in replies)
    play = playing(client, f"{sent}; sys.modules['select'].poll().poll(60000)")
    answer = run(client, play, "read")
    assert answer.status_code == 409
    assert "What the call left behind cannot be used" in text_of(answer)
    assert not PlaygroundCall.objects.exists()
    assert client.get(reverse("scenarios:playground", args=[play.pk])).status_code == 200


@pytest.mark.parametrize("value", ["10 ** 5000", "{'n': [10 ** 5000], 't': 'a\\0b'}", "float('inf')", "'\\ud800'"])
def test_what_is_hard_to_show_is_shown(client: Client, value: str) -> None:
    play = playing(client, f"self.count = {value}; return {value}")
    answer = run(client, play, "read")
    assert answer.status_code == 200
    page = reverse("scenarios:playground", args=[play.pk])
    state = reverse("scenarios:playground_state", args=[play.pk])
    for path in (page, f"{page}?at=1", f"{state}?at=1", f"{state}?at=1&path=/count", f"{state}?at=1&find=count"):
        assert client.get(path).status_code == 200, path
    assert client.get(reverse("scenarios:playground_calls", args=[play.pk])).status_code == 200
