"""Bars of the statistics lead to lists that hold as many rows as they say."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.fixtures import pages_seed
from tests.pages.test_ecosystem import USERS, a_batch, assess, body, environment, three
from training.examples.records import SOURCE
from webapp.pages.statistics.ecosystem import compute_ecosystem
from webapp.pages.statistics.scope import Scope

pytestmark = pytest.mark.django_db


def test_every_bar_leads_to_the_list_of_what_it_counts(page: Client) -> None:
    first, second, third = three()
    environment("demo", 1, [USERS], "qq", source=SOURCE, task_count=2)
    assess(first, ("tool_0", 29, 0, 71))
    assess(second, ("tool_0", 10, 0, 0))
    batch, *_ = a_batch(third)

    def led(scope: Scope) -> int:
        found = compute_ecosystem(scope)
        spreads = [row.spread.bins for row in found.drawn] + ([found.steps.bins] if found.steps else [])
        bars = [
            bar for bins in [*spreads, found.verdicts.scores if found.verdicts else []] for bar in bins if bar.count
        ]
        for bar in bars:
            assert page.get(bar.url).context["page"].count.number == bar.count, bar
        return len(bars)

    scope = Scope()
    assert led(scope) > 15
    assert "leave_out" in scope.environments_url
    assert page.get(scope.environments_url).context["page"].count.number == 3
    assert page.get(scope.assessed_url).context["page"].count.number == 2
    assert led(Scope(source="envscaler")) > 10
    assert led(Scope(demo=True)) > 15
    assert led(Scope(batch=batch)) == 8, "six measures, and two of steps"
    html = body(page, "/ecosystem/")
    assert "holds=tasks&amp;least=2&amp;most=2" in html
    shown = body(page, f"/environments/?holds=query&least=0&most=0&leave_out={pages_seed.EVIL[:30]}&source=x%00")
    assert "<script>window" not in shown
    assert "Tools that only read" in shown
    odd = body(page, "/environments/?holds=nonsense&least=x&most=9999999999")
    assert "There is no such number of an environment" in odd
    assert page.get("/api/v1/environments?holds=score&least=100").json()["data"][0]["id"] == second.environment_id
