"""People at Chromium: signed in by a session's cookie, and what their pages' consoles complain about."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from webapp.accounts.models import User

GIVEN_UP = ("htmx:afterRequest, ", "htmx:sendAbort, ")
"""htmx writes these two of each request that the page itself gave up: for a later one, or as it was left. What fails
is told in other words (`htmx:sendError`, a status)."""


def visit(chromium: Browser, site: str, name: str, **options: Any) -> BrowserContext:
    """A context in which the person of that name is signed in, with relative addresses on the site.

    The form cost two seconds of processor a test; `test_accounts` and `test_every_page` sign in by it.
    """
    client = Client()
    client.force_login(User.objects.get(username=name))
    context = chromium.new_context(base_url=site, **options)
    cookie = settings.SESSION_COOKIE_NAME
    context.add_cookies([{"name": cookie, "value": client.cookies[cookie].value, "url": site}])
    return context


def complaints_of(page: Page, *, besides: tuple[str, ...] = ()) -> list[str]:
    """What the page's console complains about from now on, but lines that hold one of the words of `besides`."""
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        expected = message.text.startswith(GIVEN_UP) or any(words in message.text for words in besides)
        if message.type == "error" and not expected:
            complaints.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints
