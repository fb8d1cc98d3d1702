"""Several items of a queue given to one person at once."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.review import seed
from webapp.review.models import QueueItem, ReviewItemState

pytestmark = pytest.mark.django_db


def test_ticked_items_are_given_at_once_and_what_cannot_be_given_says_why() -> None:
    maker, ann = seed.people("adjudicator", "annotator")
    for key in ("one", "two", "three"):
        seed.task(key)
    queue = seed.queue(maker)
    first, second, third = QueueItem.objects.filter(queue=queue).order_by("pk")
    QueueItem.objects.filter(pk=third.pk).update(state=ReviewItemState.CLOSED)
    client = Client()
    client.force_login(maker)
    give = reverse("review:give", args=[queue.pk])
    page = client.post(give, {"item": [first.pk, second.pk, third.pk], "to": ann.username}, follow=True)
    told = page.content.decode()
    assert f"2 items given to {ann.username}." in told
    assert "Not given: Only an open item can be assigned to a person." in told
    assert set(QueueItem.objects.filter(assignee=ann)) == {first, second}
    client.post(give, {"item": [first.pk], "to": ""})
    assert set(QueueItem.objects.filter(assignee=ann)) == {second}
    nobody = client.post(give, {"item": [first.pk], "to": "nobody"}, follow=True).content.decode()
    assert "There is no user" in nobody
    client.force_login(ann)
    assert client.post(give, {"item": [first.pk], "to": ann.username}).status_code in (403, 409)
