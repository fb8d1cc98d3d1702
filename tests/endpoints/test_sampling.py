"""How roles are asked: kept by role, sent and stored with each call; what a server refuses is noted on its endpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import Message
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Sampling, Site, StageCall
from synthesis.llm.refusals import LeftOut
from synthesis.llm.store import MemoryStore
from tests.fixtures import pages_seed
from tests.llm_layer.support import Far, said
from webapp.batches.engine.cast import Cast, fill_in_defaults, has_other_models
from webapp.batches.spec import BatchSettings
from webapp.endpoints import services
from webapp.endpoints.models import Endpoint, RoleSampling
from webapp.endpoints.queries import get_sampling_defaults

pytestmark = pytest.mark.django_db


def asked(role: str, sample: int = 0, sampling: dict[str, Sampling] | None = None, **parameters: Any) -> Any:
    """(the parameters that were sent, the call's key)."""
    far = Far([said("a")])
    asker = Asker({role: far}, MemoryStore(), sampling=sampling or {})
    site = Site(role=role, stage="s", item="i", sample=sample)
    call = StageCall(site=site, messages=(Message(role="user", content="?"),), parameters=parameters)
    asyncio.run(asker.reply(call))
    return far.asked[0][1], asker.apply_sampling(call).key(far.name)


def test_who_tries_is_sampled_and_who_judges_is_not() -> None:
    assert asked("teacher")[0] == asked("tester")[0] == {"temperature": 1.0}
    assert asked("judge")[0] == asked("checker")[0] == {"temperature": 0.0}
    assert asked("author")[0] == {}


def test_what_is_chosen_goes_into_request_and_key_and_each_sample_has_its_own_seed() -> None:
    chosen = {"teacher": Sampling(temperature=0.3, top_p=0.9, max_tokens=500, reasoning_effort="low", seed=7)}
    (first, key), (second, other) = (asked("teacher", sample, chosen) for sample in (0, 1))
    assert first == {"temperature": 0.3, "top_p": 0.9, "max_tokens": 500, "reasoning_effort": "low", "seed": 7}
    assert second == first | {"seed": 8}
    assert len({key, other, asked("teacher")[1]}) == 3
    assert asked("judge", 0, {"judge": Sampling(temperature=0.5)}, temperature=0.0, stop=["a"])[0] == {
        "temperature": 0.5,
        "stop": ["a"],
    }


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(pages_seed.person("admin"))
    return client


def endpoint() -> Endpoint:
    return Endpoint.objects.create(name="far", base_url="http://127.0.0.1:1/v1", model_names=["m"])


def test_defaults_are_saved_on_the_page_and_a_batch_keeps_what_it_began_with(admin: Client) -> None:
    row = endpoint()
    page = admin.get(_url("list"))
    assert 'name="sampling_tester_temperature" value="1.0"' in page.content.decode()
    sent = {"sampling_author_max_tokens": "900", "sampling_judge_temperature": "0", "sampling_tester_seed": "4"}
    assert admin.post(_url("sampling"), sent).status_code == 302
    found = get_sampling_defaults()
    assert (found["author"], found["tester"]) == (Sampling(max_tokens=900), Sampling(seed=4))
    assert not RoleSampling.objects.filter(role="judge").exists(), "as it was by default"
    settings = fill_in_defaults(BatchSettings(models={"author": f"{row.pk}/m", "judge": "scripted"}))
    assert settings.sampling["author"].max_tokens == 900
    assert "judge" not in settings.sampling, "the offline provider has none"
    wrong = admin.post(_url("sampling"), {"sampling_author_temperature": "3"})
    assert wrong.status_code == 422
    assert "less than or equal to 2" in wrong.content.decode()


def test_what_a_server_refuses_stands_on_its_endpoint_until_it_is_sent_again(admin: Client) -> None:
    row = endpoint()
    services.note_left_out("far", LeftOut(model="m", name="max_tokens", instead="max_completion_tokens", said="<b>no"))
    services.note_left_out("nobody", LeftOut(model="m", name="seed"))
    row.refresh_from_db()
    assert services.open_endpoint(row).left_out == {"m": {"max_tokens": "max_completion_tokens"}}
    page = admin.get(_url("edit", row.pk)).content.decode()
    assert "max_completion_tokens" in page
    assert "&lt;b&gt;no" in page
    before = Cast({"author": (services.open_endpoint(row), "m")})
    services.note_left_out("far", LeftOut(model="m", name="seed"))
    row.refresh_from_db()
    assert not has_other_models(Cast({"author": (services.open_endpoint(row), "m")}), before)
    assert admin.post(_url("all_parameters", row.pk), {"model": "m"}).status_code == 302
    row.refresh_from_db()
    assert row.left_out == {}


def _url(name: str, *given: int) -> str:
    return reverse(f"endpoints:{name}", args=given)
