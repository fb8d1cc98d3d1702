"""The form of a new batch, read off its page and sent as a browser would."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client

from tests.fixtures import pages_seed

NEW = "/batches/new/"
DESK = "A small desk where people borrow boxes and bring them back; boxes have owners and places."


def signed(role: str) -> Client:
    client = Client()
    client.force_login(pages_seed.person(role))
    return client


def filled(client: Client, url: str = NEW) -> dict[str, Any]:
    """What a browser would send of the form as it is handed out: read off the page itself."""
    page = client.get(url).content.decode()
    form = page[page.index('<form id="launch"') : page.index("</form>", page.index('<form id="launch"'))]
    found: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        said = {key: unescape(value) for key, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        kind, name = said.get("type", "text"), said.get("name", "")
        if not name or kind == "file" or (kind == "checkbox" and " checked" not in tag):
            continue
        value = said.get("value", "on") if kind == "checkbox" else said.get("value", "")
        found.setdefault(name, []).append(value)
    for name, inner in re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S):
        options = re.findall(r'<option value="([^"]*)"([^>]*)>', inner)
        found[name] = [next((value for value, rest in options if "selected" in rest), options[0][0])]
    for name in re.findall(r'<textarea[^>]*name="([^"]+)"', form):
        found.setdefault(name, []).append("")
    return found


def only(client: Client, **fields: Any) -> dict[str, Any]:
    """The form with no bundled theme, and these fields."""
    return filled(client) | {"bundled": []} | fields


def start(client: Client, fields: dict[str, Any], **how: Any) -> Any:
    return client.post(NEW, fields | {"act": "start"}, **how)


def filled_of(page: str) -> dict[str, Any]:
    class Shown:
        content = page.encode()

        def get(self, url: str) -> Any:
            return self

    return filled(Shown())  # type: ignore[arg-type]
