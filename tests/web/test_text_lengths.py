"""No form cuts a text: none has `maxlength`, and each answers a text that is too long with its lengths and the text.

So do the fields that search: a part of a text finds something else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve

from tests.fixtures import pages_seed
from tests.web.test_access import ROUTES, address, arguments  # noqa: F401  the fixture that gives routes their objects
from webapp.accounts.models import Role, User

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
LONGEST = 50_000
"""Longer texts are not sent: what refuses them is the same."""
KEPT_AS_DRAFT = {("review:decide", "places"), ("review:decide", "comment")}
"""Refused by a redirect to the page, which shows the draft of the decision with the text in it."""


@dataclass
class Form:
    action: str
    values: dict[str, list[str]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


class Forms(HTMLParser):
    """The forms of a page that send text by POST, those that search, and the fields that would cut a text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self.searches: list[Form] = []
        self.searching: Form | None = None
        self.open: Form | None = None
        self.cutting: list[str] = []
        self.text: list[str] | None = None
        """Of the text area that is being read."""
        self.select = ""

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attrs = {name: value or "" for name, value in given}
        if tag in ("input", "textarea") and "maxlength" in attrs:
            self.cutting.append(attrs.get("name", tag))
        if tag == "select":
            self.select = attrs.get("name", "")
        if tag == "option" and self.open is not None and self.select:
            is_chosen = self.select not in self.open.values or "selected" in attrs
            self.open.values |= {self.select: [attrs.get("value", "")]} if is_chosen else {}
        if tag == "form":
            is_post = attrs.get("method", "").lower() == "post"
            self.open = Form(attrs.get("action", "")) if is_post else None
            self.found += [self.open] if self.open is not None else []
            self.searching = None if is_post else Form(attrs.get("action", ""))
            self.searches += [self.searching] if self.searching is not None else []
        elif self.searching is not None and attrs.get("type") == "search" and "data-most" in attrs and "name" in attrs:
            self.searching.limits[attrs["name"]] = int(attrs["data-most"])
        elif self.open is not None and tag in ("input", "textarea", "button") and attrs.get("name"):
            values = self.open.values.setdefault(attrs["name"], [])
            if tag == "textarea":
                values.append("")
                self.text = values
            elif tag == "input" and (attrs.get("type") not in ("radio", "checkbox") or "checked" in attrs):
                values.append(attrs.get("value") or ("Fine." if "required" in attrs else ""))
            # A key is never shown again, not even in the form that it was sent from.
            if "data-most" in attrs and attrs.get("type") not in ("search", "password"):
                self.open.limits[attrs["name"]] = int(attrs["data-most"])

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.text = None
        if tag == "form":
            self.open = self.searching = None


def test_no_page_has_a_field_that_cuts_and_every_form_keeps_a_text_that_is_too_long(
    arguments: dict[str, dict[str, Any]],  # noqa: F811
) -> None:
    browser = Client()
    browser.force_login(User.objects.filter(role=Role.ADMIN).first() or pages_seed.person("admin"))
    faults: list[str] = []
    sent: set[tuple[str, str]] = set()
    searched: set[tuple[str, str]] = set()
    for name, (_pattern, needs) in ROUTES.items():
        url = address(name, needs, arguments)
        with transaction.atomic():
            page = browser.get(url)
            transaction.set_rollback(True)
        if page.status_code != 200 or page.streaming or "text/html" not in page.headers.get("Content-Type", ""):
            continue
        forms = Forms()
        forms.feed(page.content.decode())
        faults += [f"{name}: {field} is cut" for field in forms.cutting]
        for form in forms.found:
            action = urljoin(url, form.action or url)
            for field_name, most in form.limits.items():
                route = route_of(action)
                if most <= LONGEST and (route, field_name) not in sent | KEPT_AS_DRAFT:
                    sent.add((route, field_name))
                    faults += look_at_long_text(browser, form, action, field_name, most)
        for form in forms.searches:
            action = urljoin(url, form.action or url)
            for field_name, most in form.limits.items():
                if (search := (route_of(action), field_name)) not in sent:
                    sent.add(search)
                    searched.add(search)
                    answer = browser.get(action, {field_name: "x" * (most + 1)})
                    faults += find_faults(answer, f"{action} {field_name}", "x" * (most + 1), most)
    assert len(sent - searched) > 10, sent
    assert len(searched) > 10, searched
    assert not faults, "\n".join(faults)


def route_of(action: str) -> str:
    try:
        return str(resolve(urlsplit(action).path).view_name)
    except Resolver404:
        return action


def look_at_long_text(browser: Client, form: Form, action: str, name: str, most: int) -> list[str]:
    """Send a text with one character too many: it is refused, and stands in the answer with its length and limit."""
    text = "x" * (most + 1)
    with transaction.atomic():
        others = {key: value for key, value in form.values.items() if any(value) or key not in form.limits}
        answer = browser.post(action, {**dict.fromkeys(form.limits, "Fine."), **others, name: [text]})
        transaction.set_rollback(True)
    if answer.status_code in (409, 412):  # not for its length: another user's draft, or one that has changed
        return []
    return find_faults(answer, f"{action} {name}", text, most)


def find_faults(answer: Any, where: str, text: str, most: int) -> list[str]:
    body = b"" if answer.streaming else answer.content
    if not 400 <= answer.status_code < 500 and answer.status_code != 200:
        return [f"{where}: {answer.status_code}"]
    said = all(str(count).encode() in body or f"{count:,}".encode() in body for count in (most, most + 1))
    return [] if text.encode() in body and said else [f"{where}: {answer.status_code}, not told"]
