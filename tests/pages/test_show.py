from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.template import Context, Template
from django.utils import timezone

from webapp.common.templatetags import show


def test_hidden_characters_are_named_and_markup_is_escaped() -> None:
    html = show.visible("<b>\u202e\x00\x1b\ud800\U000e0041\r\n\tok")
    assert html.startswith("&lt;b&gt;")
    for name in ("\\u202e", "\\0", "\\e", "\\ud800", "\\U000e0041"):
        assert f'<span class="ctl">{name}</span>' in html
    assert html.endswith("\r\n\tok")
    html.encode()
    assert show.plain("a\u200bb") == "a\\u200bb"


@pytest.mark.parametrize("text", ["", "x = '</pre><script>'", "\u202e# c", "a" * 300_000])
def test_code_is_escaped_and_bounded(text: str) -> None:
    html = show.code(text, "python")
    assert "<script>" not in html
    assert "\u202e" not in html
    assert len(html) < 210_000


def test_json_folds_when_it_is_long() -> None:
    assert "Show all" not in show.pretty_json({"a": 1})
    assert "Show all" in show.pretty_json(["x" * 50] * 1000)
    assert "\\ud800" in show.pretty_json("\ud800")


def test_fold_keeps_short_text_whole() -> None:
    assert "details" not in show.fold("short")
    assert "show all 2,000 characters" in show.fold("<" * 2000)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0000004, "0 µs"),
        (0.0123, "12.3 ms"),
        (4.5, "4.5 s"),
        (61, "1 min 1 s"),
        (3700, "1 h 1 min"),
        (timedelta(days=2), "2 d 0 h"),
    ],
)
def test_durations(value: float | timedelta, said: str) -> None:
    assert show.duration(value) == said


def test_numbers_and_times() -> None:
    assert show.number(1234567) == "1,234,567"
    assert show.number(0.5) == "0.5"
    assert show.percent(0.139) == "13.9 %"
    assert show.percent(1) == "100 %"
    assert show.duration_us(1500) == "1.5 ms"
    assert "5 min ago" in show.ago(timezone.now() - timedelta(minutes=5, seconds=2))
    assert show.number(None) == show.percent(None) == show.ago(None) == "\u2013"


def test_a_tag_has_an_icon_and_a_word() -> None:
    html = Template('{% tag "outcome" value %}').render(Context({"value": "infra_error"}))
    assert "infrastructure error" in html
    assert 'aria-hidden="true"' in html
    odd = Template('{% tag "outcome" value %}').render(Context({"value": "<b>"}))
    assert "&lt;b&gt;" in odd


def test_pairs_of_a_dict_whatever_its_keys_are_called() -> None:
    looped = Template("{% for key, value in detail|pairs %}{{ key }}={{ value }};{% endfor %}")
    assert looped.render(Context({"detail": {"items": 3, "keys": [1], "stage": "x"}})) == "items=3;keys=[1];stage=x;"
    assert looped.render(Context({"detail": None})) == ""


def test_no_template_asks_a_dict_for_its_items_by_an_attribute() -> None:
    """A key of that name would be taken for it; the filter `pairs` knows no such trap."""
    looped = re.compile(r"\bin\s+([\w.]+\.(?:items|keys))\s*%")
    folder = Path(show.__file__).resolve().parents[3] / "templates"
    found = {path.relative_to(folder).as_posix(): looped.findall(path.read_text()) for path in folder.rglob("*.html")}
    assert len(found) > 100
    assert {name: names for name, names in found.items() if names} == {}


def test_text_that_is_cut_shows_no_hidden_character_and_no_markup() -> None:
    assert show.shown("<b>\u202eab", 6) == "&lt;b&gt;\\u…"
    assert show.shown("short", 6) == "short"
    assert show.shown(None, 6) == ""


def test_an_empty_state_takes_its_reason_over_lines() -> None:
    text = """{% empty_state "No <jobs>" to="jobs:list" action="All" %}
      Nobody <b>started</b> one: {{ who }}.
    {% endempty_state %}"""
    html = Template(text).render(Context({"who": "<i>"}))
    assert "<b>started</b> one: &lt;i&gt;." in html
    assert '<a class="button" href="/jobs/">All</a>' in html
    assert "button" not in Template('{% empty_state "None" %}Why.{% endempty_state %}').render(Context())


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("done=3 total=9", "a job: 3 of 9"),
        ("done=3 total=9 before='step ' after=' kept'", "a job: step 3 of 9 kept"),
        ("done=0 total=0 going_on=True", "a job: not known yet"),
        ("done=0 total=0", ""),
    ],
)
def test_progress_says_how_far_in_words(words: str, shown: str) -> None:
    text = '{% include "parts/progress.html" with label="a job" ' + words + " only %}"
    html = Template(text).render(Context())
    assert f'aria-label="{shown}"' in html if shown else "progress" not in html
