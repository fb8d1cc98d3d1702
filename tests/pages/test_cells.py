"""Cells of lists: hostile texts stay texts, numbers lead to what they count, columns are those that are chosen."""

from __future__ import annotations

import pytest
from django.template import engines
from django.test import RequestFactory

from webapp.trajectories.failure_reason import FailureReason, ReasonPart

HOSTILE = "<b onclick='x'>\"\u202e"


def drawn(source: str, address: str = "/tasks/", **context: object) -> str:
    return str(engines["django"].from_string(source).render(context, RequestFactory().get(address)))


@pytest.mark.parametrize(
    "cell",
    [
        "{% pick 7 text %}",
        "{% row_link text '/7/' 'Task' 7 %}",
        "{% only_link text '?to=' 7 %}",
        "{% counted 2 text text text %}",
        "{% failure_reason reason %}",
    ],
)
def test_a_hostile_text_stays_text(cell: str) -> None:
    html = drawn(cell, text=HOSTILE, reason=FailureReason((ReasonPart(HOSTILE, HOSTILE), ReasonPart(HOSTILE))))
    assert "<b" not in html
    assert "onclick='" not in html
    assert "&lt;b onclick=&#x27;x&#x27;&gt;&quot;" in html
    if "link" in cell or "pick" in cell:
        assert "\u202e" not in html


def test_a_number_leads_to_what_it_counts() -> None:
    assert drawn("{% counted 1 'check' '/7/' '#checks' %}") == '<a href="/7/#checks" aria-label="1 check">1</a>'
    assert 'aria-label="1,200 checks">1,200<' in drawn("{% counted 1200 'check' '/7/' %}")
    assert drawn("{% counted 0 'check' '/7/' %}") == '<span class="muted">0</span>'
    assert 'aria-label="0 tries"' in drawn("{% counted 0 'try' '/7/' zero=True many='tries' %}")


def test_rows_narrow_the_list_as_it_is() -> None:
    tag = "{% query_to 'environment' as to %}{% only_link 'Ward' to 7 %}"
    assert 'href="?environment=7"' in drawn(tag, "/tasks/?environment=3&after=x&at=50")
    assert 'href="?audit=red&amp;environment=7"' in drawn(tag, "/tasks/?audit=red&last=1")


def test_a_row_has_the_columns_that_are_shown_and_the_boxes_that_are_ticked() -> None:
    source = "{% column one %}1{% endcolumn %}{% column two %}2{% endcolumn %}{% pick 7 'Ward' %}"
    html = drawn(source, shows={"two"}, picked={7})
    assert html.startswith("2<td")
    assert " checked>" in html
    assert " checked" not in drawn(source, shows=set())
