"""The form of a queue: its filters are fields, and what it was filled in on is taken for data."""

from __future__ import annotations

import pytest

from tests.fixtures.pages_seed import EVIL
from tests.review import seed
from tests.review.test_pages import client_of
from webapp.review.models import ReviewQueue

pytestmark = pytest.mark.django_db


def test_the_filters_of_a_queue_are_fields_and_what_came_with_a_link_can_be_unticked() -> None:
    (maker,) = seed.people("operator")
    tasks = [seed.task(key) for key in "abc"]
    source = tasks[0].environment.source
    client = client_of(maker)
    form = {"name": "Three", "order": "newest", "overlap": 1, "lease_minutes": 10, "gold_share": 0}
    ticked = "&".join(f"ids={task.pk}" for task in tasks[:2])
    page = client.get(f"/review/new/task/?{ticked}&q={EVIL}&nonsense=1").content.decode()
    assert "The 2 rows that were ticked" in page
    assert "<script>window.hit" not in page
    answer = client.post("/review/new/task/", form | {"low": "much", "linked": [ticked]})
    assert answer.status_code == 422
    assert "write a number from 0 to 1" in answer.content.decode()
    answer = client.post("/review/new/task/", form | {"q": "x" * 201, "linked": [ticked]})
    assert answer.status_code == 422
    assert "201 characters, and 200 are allowed" in answer.content.decode()
    many = "&".join(f"ids={10**9 + number}" for number in range(200))
    assert "2,000 characters" in client.post("/review/new/task/", form | {"linked": [many]}).content.decode()
    assert client.post("/review/new/task/", form | {"source": source, "linked": [ticked]}).status_code == 302
    queue = ReviewQueue.objects.get()
    assert queue.query == f"source={source}&{ticked}"
    assert queue.item_count == 2
    shown = client.get(f"/review/{queue.pk}/").content.decode()
    assert f"Source: {source}" in shown
    assert "The 2 rows that were ticked" in shown
    client.post(f"/review/{queue.pk}/edit/", form | {"source": source})
    queue.refresh_from_db()
    assert (queue.query, queue.item_count) == (f"source={source}", 3)
    address = f"/review/new/trajectory/?task={tasks[0].pk}&order=-reward&failure=goal&made_by=gpt"
    page = client.get(address).content.decode()
    goal = '<option value="goal" selected>'
    for words in (f"Attempts at {tasks[0].title}", "Only with a reward", "Made by gpt", goal):
        assert words in page, words
    assert 'name="environment"' in client.get("/review/new/tool/?environment=desk").content.decode()


def test_what_a_form_says_of_the_settings_it_was_filled_in_on_is_taken_for_data() -> None:
    (maker,) = seed.people("operator")
    client = client_of(maker)
    form = {"name": "Ones", "order": "newest", "overlap": 1, "lease_minutes": 10, "gold_share": 0}
    client.post("/review/new/task/", form)
    queue = ReviewQueue.objects.get()
    for seen in ('{"name": ' + "[" * 100_000, '{"name": ' + "[" * 500 + "]" * 500 + "}", "[1]", '{"name": 1e999}'):
        answer = client.post(f"/review/{queue.pk}/edit/", form | {"seen": seen})
        assert answer.status_code in (302, 412), seen[:40]
