"""A part of a page that htmx asks for: the block `part` of the page's template, without the page around it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.shortcuts import render
from django.test import RequestFactory

from webapp.common.htmx import render_fragment

FOLDER = Path(settings.BASE_DIR) / "templates"
PAGES = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.rglob("*.html")
    if "{% block part %}" in path.read_text() and path.name != "fragment.html"
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_with_a_part_lets_the_view_choose_what_it_extends(page: str) -> None:
    assert re.match(r'{% extends layout\|default:"[\w/]+\.html" %}\n', (FOLDER / page).read_text())


def test_a_fragment_is_the_part_alone() -> None:
    request, context = RequestFactory().get("/"), dict[str, Any](rows=[], task=7)
    fragment = render_fragment(request, "runs/job/of_task.html", context)
    assert re.sub(r"\s", "", fragment.content.decode()) == '<divid="in-training"></div>'
    page = render(request, "runs/job/of_task.html", context).content.decode()
    assert page.lstrip().startswith("<!doctype html>")
    assert "<h2>Not used in training</h2>" in page


@pytest.mark.parametrize("product", [None, {"item_id": 3, "item": {"batch_id": 2, "path": "1"}, "created_at": None}])
def test_provenance_is_open_on_its_page_and_closed_or_nothing_as_a_part(product: dict[str, Any] | None) -> None:
    request, context = RequestFactory().get("/"), {"kind": "task", "pk": 5, "product": product}
    fragment = render_fragment(request, "batches/made.html", context).content.decode()
    page = render(request, "batches/made.html", context).content.decode()
    assert ("<details open>" in page, "<details >" in fragment) == (bool(product), bool(product))
    assert ("No batch made it" in page, bool(fragment.strip())) == (not product, bool(product))
