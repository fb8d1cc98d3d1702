"""How long a decision took: what its person worked on it, over all visits to its page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.review import seed
from tests.review.test_pages import client_of, form_of
from webapp.review.models import Assignment, ReviewDecision

pytestmark = pytest.mark.django_db


def test_time_on_an_item_adds_up_over_visits() -> None:
    ann, maker = seed.people("annotator", "operator")
    seed.task("a")
    client = client_of(ann)
    address = client.post(f"/review/{seed.queue(maker).pk}/next/")["Location"]
    fields = form_of(client, address)
    Assignment.objects.update(shown_at=timezone.now() - timedelta(minutes=10))
    assert client.post(f"/review/held/{fields['assignment']}/heartbeat/", {"seconds": "240"}).status_code == 200
    assert 'data-spent="240"' in client.get(address).content.decode(), "the page counts on from there"
    client.post(f"{address}decide/", {**fields, "verdict": "approve", "seconds": "1"})
    assert ReviewDecision.objects.get().seconds == 240, "a page that counted anew takes nothing away"
