"""What of replies was repaired, by model: stored with each call, shown on a batch's calls and on the call's page."""

from __future__ import annotations

import dataclasses
import json

import pytest
from django.test import Client

from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import answer
from tests.fixtures.llm import Request, Scripted, llm_server
from tests.fixtures.markup import flat
from tests.rollouts_web.support import person
from webapp.batches.models import LLMCall

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def sloppy(request: Request) -> Scripted:
    """The same in the manner of a weaker model: thoughts first, and a comma too many."""
    good = answer(request)
    body = json.loads(good.body)
    message = body["choices"][0]["message"]
    text = (message["content"] or "").strip()
    if text.startswith("{") and text.endswith("}"):
        message["content"] = f"Let me think.\n\n{text[:-1]},\n}}"
        message["reasoning_content"] = "The order is open."
    return dataclasses.replace(good, body=json.dumps(body))


def test_repairs_are_stored_and_shown_with_the_models_thoughts() -> None:
    user = person("operator")
    with llm_server(sloppy) as server:
        batch = work_off(make_batch(user, settings_at(server.url), ["one"]))
    assert batch.state == "done"
    calls = LLMCall.objects.filter(batch=batch, repairs=["trailing comma"])
    assert calls.exists()
    client = Client()
    client.force_login(user)
    page = flat(client.get(f"/batches/{batch.pk}/?tab=calls"))
    assert "Readability of replies" in page
    assert "repaired: trailing comma" in page
    call = calls.first()
    assert call is not None
    page = flat(client.get(f"/batches/calls/{call.pk}/"))
    assert "trailing comma" in page
    assert "The order is open." in page
    assert "Let me think." in page
