"""The agreement page in Chromium: measured while it is looked at, read by keyboard, planted names as text."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.agreement import seed
from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from webapp.jobs.jobs import run_job
from webapp.jobs.models import Job
from webapp.labelling.models import Label, LabelSession
from webapp.labelling.results.services import MEASURE_JOB

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
EVIL = pages_seed.EVIL


def planted() -> LabelSession:
    """An ordinary session whose tree, name and model carry markup."""
    tree = [[pk, parent, level, EVIL[:200] if pk == 2 else name] for pk, parent, level, name in seed.TREE]
    made = seed.ordinary(name=EVIL[:100], tree=tree)
    Label.objects.exclude(judge="").update(judge=EVIL[:200])
    return made


def test_agreement_is_measured_and_read_by_keyboard(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    session = planted()
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/taxonomy/sessions/{session.pk}/agreement/")
    page.get_by_role("button", name="Measure the agreement").press("Enter")
    page.wait_for_selector("#measuring")
    run_job(Job.objects.get(kind=MEASURE_JOB).pk)
    page.get_by_role("link", name="Show its result").press("Enter")

    page.wait_for_selector("text=Krippendorff's alpha before discussion")
    assert "0.56 before discussion" in str(page.get_by_role("img").first.get_attribute("aria-label"))
    assert page.get_by_text("5 of 24 pairs part").is_visible()
    page.get_by_text("Meaning of the measures").press("Enter")
    page.get_by_text("By node: 9").press("Enter")
    assert faults(page, "agreement") == []
    page.get_by_role("link", name="After discussion").press("Enter")
    page.wait_for_selector("text=All 24 pairs of labels agree.")
    assert complaints == []
    context.close()


def test_large_sessions_and_those_that_say_nothing_stay_whole(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    names = [f"annotator-with-a-long-name-{number}" for number in range(8)]
    wide = [[10 * top, None, 1, f"A first level with a rather long name {top}"] for top in range(1, 16)]
    large = seed.session("Wide", tree=wide)
    asked = seed.items(large, 60)
    said = {name: [10 * (1 + (row * (place + 1)) % 15) for row in range(60)] for place, name in enumerate(names)}
    seed.labelled(large, asked, said)
    flat = seed.session("Flat")
    seed.labelled(flat, seed.items(flat, 3), {name: [11] * 3 for name in seed.PEOPLE})
    blind = seed.session("Blind", state="open")
    seed.labelled(blind, seed.items(blind, 1), {"ines": [11]}, is_open=True)
    context, page, complaints = signed_in(chromium, live_site)
    for session in (large, flat):
        run_job(seed.services.start_measuring(None, session).pk)
    shown = {
        large: "more nodes, on which labels differ less often",
        flat: "no variation",
        blind: "Nothing to measure yet",
    }
    for session, words in shown.items():
        page.goto(f"/taxonomy/sessions/{session.pk}/agreement/")
        assert page.get_by_text(words).first.is_visible()
        assert faults(page, session.name) == []
    assert complaints == []
    context.close()
