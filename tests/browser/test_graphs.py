"""Drawn graphs in a real browser: a node by key, list and box, without another page and without axe violations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.checks import faults
from tests.fixtures.visitors import visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


def prepared() -> tuple[int, int]:
    """A task with a blueprint, its environment with a graph of tools, and a person; made in a thread of its own."""
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    def make() -> tuple[int, int]:
        from synthesis.contracts import GraphEdge, JudgedEdges
        from synthesis.runtime import get_default_sandbox
        from tests.scenarios_pages import golden_desk
        from tests.scenarios_pages.test_blueprints import executed, keep
        from tests.scenarios_pages.test_golden import again
        from webapp.accounts.models import User
        from webapp.environments.tool_graph.services import save_edges
        from webapp.scenarios.golden.services import make_task_golden

        try:
            user = User.objects.create_user("ann", password="a long password", role="annotator")
            task = golden_desk.make_task()
            make_task_golden(get_default_sandbox(), again(task), user, "roles")
            keep(task, executed())
            edge = GraphEdge(source="visit", target="see", parameter="guest", reason=golden_desk.EVIL)
            save_edges(task.scenario.version, JudgedEdges(edges=(edge,)), model="a/model", batch=None)
            return task.pk, task.environment_id
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def wait_for_chosen(page: Page, title: str) -> None:
    """Wait for a title and until htmx has taken over the links that came with it: before, one loads the whole page."""
    page.wait_for_selector(title)
    page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-settling, .htmx-swapping')")


def test_nodes_are_chosen_by_key_list_and_box(live_site: str, chromium: Browser) -> None:
    task, environment = prepared()
    page = visit(chromium, live_site, "ann").new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a planted script ran: {dialog.message}"))
    errors: list[str] = []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    loads: list[str] = []
    page.on("load", lambda loaded: loads.append(loaded.url))

    page.goto(f"{live_site}/tasks/{task}/?tab=blueprint")
    assert page.locator("#node-title").inner_text().startswith("1")
    page.keyboard.press("j")
    wait_for_chosen(page, "#node-title:has-text('2 who came')")
    page.keyboard.press("j")
    page.wait_for_url("**node=3")
    wait_for_chosen(page, "#node-title:has-text('3 see')")
    page.keyboard.press("k")
    wait_for_chosen(page, "#node-title:has-text('2 who came')")
    page.locator("#node-3").focus()
    page.keyboard.press("Enter")
    wait_for_chosen(page, "#node-title:has-text('3 see')")
    assert page.evaluate("document.activeElement.id") == "node-3"
    page.locator("svg.graph a[data-node='1']").click()
    wait_for_chosen(page, "#node-title:has-text('1 visit')")
    assert len(loads) == 1
    assert faults(page, "blueprint") == []

    page.goto(f"{live_site}/environments/{environment}/?tab=graph")
    page.keyboard.press("j")
    page.wait_for_url("**tool=visit")
    wait_for_chosen(page, "#chosen-title:has-text('visit')")
    page.locator("svg.graph a[data-node='see']").click()
    wait_for_chosen(page, "#chosen-title:has-text('see')")
    assert len(loads) == 2
    assert faults(page, "graph of tools") == []
    assert errors == []
