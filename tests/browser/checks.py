"""What every page must hold in Chromium: no violation by axe, nothing sideways, no planted script; in each look."""

from __future__ import annotations

import contextlib
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, Page, TimeoutError

LOOKS = [(1440, "light"), (400, "dark")]
"""Each width and each theme once."""
DIMMED = ".htmx-request.busy, .htmx-request .busy"
AXE = Axe().axe_script
ASKED = "axe.run({resultTypes: ['violations']}).then(results => results.violations)"
"""What holds stays in the page: handing it over took as long as looking."""


def faults(page: Page, where: str) -> list[str]:
    """Faults of the page as it stands, in one look after the other; it is wide and light again afterwards.

    axe looks at the narrow and dark one: `test_every_page` has it look at each page in both, and what a test has put on
    this one is the same in either.
    """
    found = []
    for width, theme in reversed(LOOKS):
        look_at(page, width, theme)
        look = f"{where} at {width} px, {theme}"
        found += faults_of_look(page, look) if theme == "dark" else _misfits(page, look)
    return found


def faults_in_all_looks(page: Page, where: str) -> list[str]:
    """As `faults`, with axe looking at the wide and light one too: for what is drawn by scripts."""
    found = []
    for width, theme in reversed(LOOKS):
        look_at(page, width, theme)
        found += faults_of_look(page, f"{where} at {width} px, {theme}")
    return found


def arrived(page: Page, shown: str) -> None:
    """Wait for `shown` on the page that a key leads to, and for its scripts: before them keys do nothing, or what forms
    do without them."""
    page.wait_for_selector(shown)
    page.wait_for_load_state()


def next_item(page: Page, shown: str) -> None:
    """`n`: the next item, once `shown` is there."""
    page.keyboard.press("n")
    arrived(page, shown)


def look_at(page: Page, width: int, theme: str) -> None:
    """The open page in another look."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]


def faults_of_look(page: Page, where: str) -> list[str]:
    """axe's violations, sideways scrolling of the page, and scripts that text brought along."""
    found = [f"{where}: {fault['id']} {fault['nodes'][0]['html'][:120]}" for fault in violations(page)]
    return found + _misfits(page, where)


def _misfits(page: Page, where: str) -> list[str]:
    found = []
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append(f"{where}: scrolls sideways")
    if page.evaluate("window.hit || window.pwned"):
        found.append(f"{where}: planted text ran")
    return found


def violations(page: Page) -> list[dict[str, Any]]:
    """axe's violations of the page as it stands, once nothing on it is dimmed because it waits for a reply.

    A request may begin while axe looks: what it finds is looked at once more. So is a page that was leaving.
    """
    try:
        found = _look(page)
    except Error as error:
        if "Execution context was destroyed" not in error.message:
            raise
        page.wait_for_load_state()
        return _look(page)
    return found and _look(page)


def _look(page: Page) -> list[dict[str, Any]]:
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(f"!document.querySelector('{DIMMED}')", timeout=2_000)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found: list[dict[str, Any]] = page.evaluate(ASKED)
    return found
