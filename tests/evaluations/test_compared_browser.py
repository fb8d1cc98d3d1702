"""The comparison of evaluations on a telephone: nothing of its tables is out of sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.checks import faults
from tests.browser.test_curves import apart, signed_in
from tests.evaluations.test_on_the_site import REPORTS, reported

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
CUT = """() => [...document.querySelectorAll('main .table, main .sweep-region')]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.getAttribute('aria-label'))"""


def test_tables_of_a_comparison_fit_a_telephone(live_site: str, chromium: Browser) -> None:
    def evaluations() -> list[str]:
        from webapp.endpoints.models import Endpoint

        row = Endpoint.objects.create(name="vllm", base_url="http://127.0.0.1:9/v1", model_names=["big-model"])
        names = ("The big one, after RL with environment advantages", "The one before")
        return [reported(f"endpoint:{row.pk}/big-model", name, REPORTS).public_id for name in names]

    jobs = apart(evaluations)
    page = signed_in(chromium, live_site, viewport={"width": 400, "height": 800})
    page.goto(f"/training/evaluations/compare/?job={jobs[0]}&job={jobs[1]}")
    page.wait_for_selector("#measures td[data-label='The one before'] >> text=62.5")
    assert page.evaluate(CUT) == []
    assert page.locator(f"#measures a[href*='{jobs[1]}']").is_visible(), "what leads to an evaluation is seen too"
    assert faults(page, "comparison of evaluations") == []
    page.goto(f"/training/evaluations/{jobs[0]}/")
    assert page.evaluate(CUT) == []
