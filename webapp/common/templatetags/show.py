"""Filters for untrusted text, and for numbers that users compare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from html import escape as html_escape
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import JsonLexer, PythonLexer, TextLexer

from webapp.common.templatetags.state_tags import TAGS

register = template.Library()

HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e007f]"
    "|\r(?!\n)"
)
"""Characters that move, hide or reorder what a person reads. Line ends and tabs stay."""
HIGHLIGHT_UP_TO = 60_000
SHOWN_UP_TO = 200_000
SAMPLE_KEY = 7_700_770_077
"""No address has this number anywhere else."""
LEXERS = {"python": PythonLexer, "json": JsonLexer, "text": TextLexer}
NOTHING = "\u2013"


def escaped_name(match: re.Match[str]) -> str:
    point = ord(match.group())
    short = {0: "\\0", 8: "\\b", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e"}
    if point in short:
        return short[point]
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}" if point < 65536 else f"\\U{point:08x}"


def reveal(html: str) -> SafeString:
    """Return HTML whose text holds no hidden character: each becomes a marked escape."""
    return mark_safe(HIDDEN.sub(lambda match: f'<span class="ctl">{escaped_name(match)}</span>', html))


@register.filter
def visible(text: Any) -> SafeString:
    """Escape, and show control and bidirectional characters as marked tokens."""
    return reveal(html_escape("" if text is None else str(text)))


@register.filter
def plain(text: Any) -> str:
    """Return the same without markup, for titles and attributes (autoescape still applies)."""
    return HIDDEN.sub(escaped_name, "" if text is None else str(text))


@register.filter
def join_texts(texts: Iterable[Any], separator: str) -> str:
    """Join texts, for the filters above to escape: Django's `join` has escaped them already."""
    return separator.join(map(str, texts))


@register.filter
def shown(text: Any, limit: int) -> SafeString:
    """Return text without markup, cut to `limit` characters: for lists, and for titles and attributes."""
    return conditional_escape(cut(plain(text), limit))


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters; the last of them is an ellipsis if there were more."""
    if not text.isascii():
        return Truncator(text).chars(limit)
    # Nothing combines here, so that each character takes a place: `Truncator` would look at every one.
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


@register.filter
def marked(text: Any, words: Any) -> SafeString:
    """Return text that is escaped already, with the words (in any case) marked."""
    found = conditional_escape(text)
    wanted = [re.escape(escape(word)) for word in words if word]
    if not wanted:
        return found
    pieces = re.split(f"({'|'.join(wanted)})|(&[#a-z0-9]+;)", str(found), flags=re.IGNORECASE)
    return mark_safe("".join(_marked(pieces)))


def _marked(pieces: list[str | None]) -> Iterator[str]:
    """Yield the pieces of a split: of three the second is a matched word, the third an entity, which stays as it is."""
    for number, piece in enumerate(pieces):
        if piece is not None:
            yield f"<mark>{piece}</mark>" if number % 3 == 1 else piece


@lru_cache(maxsize=512)
def highlighted(text: str, language: str) -> SafeString:
    if len(text) > HIGHLIGHT_UP_TO:
        return reveal(escape(text))
    lexer = LEXERS[language](stripnl=False, ensurenl=False)
    return reveal(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def code_lines(text: str, language: str) -> list[SafeString]:
    """Return highlighted source, a line at a time: every line closes the marks that it opens."""
    body = highlighted(text[:SHOWN_UP_TO], language)
    return [mark_safe(line) for line in body.removesuffix("\n").split("\n")]


@register.filter
def code(text: Any, language: str = "python") -> SafeString:
    """Return a focusable, bounded, highlighted block of source."""
    text = "" if text is None else str(text)
    body = highlighted(text[:SHOWN_UP_TO], language if language in LEXERS else "text")
    block = format_html('<pre class="code" tabindex="0">{}</pre>', body)
    if len(text) <= SHOWN_UP_TO:
        return block
    more = f"{len(text) - SHOWN_UP_TO:,} more characters are not shown."
    return format_html('{}<p class="muted small">{}</p>', block, more)


@register.filter
def pretty_json(value: Any, limit: int = 20_000) -> SafeString:
    """Return JSON with line ends, highlighted; text longer than `limit` characters folds behind "show all"."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    if len(text) <= limit:
        return code(text, "json")
    return format_html(
        '{}<details class="fold"><summary><span class="more">Show all {} characters</span></summary>{}</details>',
        code(text[:limit], "json"),
        f"{len(text):,}",
        code(text, "json"),
    )


@register.filter
def inline_json(value: Any, limit: int = 300) -> str:
    """Return a value on one line: text as it is, the rest as JSON; cut at `limit` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


@register.filter
def fold(text: Any, limit: int = 400) -> SafeString:
    """Return text as it is up to `limit` characters; longer text opens with "show all"."""
    text = "" if text is None else str(text)
    if len(text) <= limit:
        return format_html('<span class="pre">{}</span>', visible(text))
    rest = f"show all {len(text):,} characters"
    return format_html(
        '<details class="fold"><summary><span class="short">{}…</span> <span class="more">{}</span></summary>'
        '<div class="full">{}</div></details>',
        visible(text[:limit].rstrip()),
        rest,
        visible(text[:SHOWN_UP_TO]),
    )


@register.filter
def number(value: Any) -> str:
    """Format 1234567 as 1,234,567; floats with three decimals at most, from 1,000 on with none, near 0 with three
    digits (2e-06)."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, float):
        if abs(value) >= 1_000:
            return f"{value:,.0f}"
        near = 0 < abs(value) < 0.01
        return f"{value:.3g}" if near else f"{value + 0.0:,.3f}".rstrip("0").rstrip(".")
    return f"{int(value):,}"


@register.filter
def counted(value: Any, word: str) -> str:
    """Return a number with its word, in the plural unless it is one: "1 item", "2 items", "1,000 replies"."""
    if value == 1:
        return f"1 {word}"
    many = f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"
    return f"{number(value)} {many}"


@register.filter
def money(value: Any) -> str:
    """Return an amount with as many decimals as distinguish it from 0; None is an unknown price."""
    if value is None or value == "":
        return "unpriced"
    amount = float(value)
    digits = 2 if amount == 0 or abs(amount) >= 1 else 4 if abs(amount) >= 0.001 else 6
    return f"{amount:,.{digits}f}" if amount else "0"


@register.filter
def percent(value: Any) -> str:
    """Return a share from 0 to 1 as a percentage with one decimal, which is dropped when it is 0."""
    return NOTHING if value is None or value == "" else f"{float(value) * 100:.1f}".removesuffix(".0") + " %"


@register.filter
def memory(value: Any) -> str:
    """Return bytes of a machine's memory, in the unit of GPU memory: 97 GiB, 3.5 GiB, 40 MiB."""
    if not isinstance(value, int | float):
        return NOTHING
    gib = value / 2**30
    return f"{gib:,.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB" if gib >= 1 else f"{value / 2**20:.0f} MiB"


@register.filter
def duration(value: Any) -> str:
    """Return a timedelta or seconds, in the two largest units."""
    if value is None or value == "":
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


@register.filter
def duration_us(value: Any) -> str:
    """Return microseconds as a duration."""
    return NOTHING if value is None or value == "" else duration(float(value) / 1e6)


@register.filter
def ago(moment: datetime | None) -> str:
    """Return how long ago a moment was, as a <time> whose title is the exact moment."""
    if moment is None:
        return NOTHING
    seconds = (timezone.now() - moment).total_seconds()
    text = moment.isoformat()[:10]  # a list has a hundred of them, and `strftime` takes ten times as long
    for limit, unit, word in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (30 * 86400, 86400, "d")):
        if seconds < limit:
            text = "just now" if seconds < 2 else f"{int(seconds // unit)} {word} ago"
            break
    exact = moment.astimezone(timezone.get_current_timezone())
    iso = exact.isoformat()
    named = f"{iso[:10]} {iso[11:19]} {exact.tzname()}"
    return mark_safe(f'<time class="nowrap" datetime="{iso}" title="{named}">{text}</time>')


@register.filter
def write_attributes(attributes: dict[str, Any]) -> SafeString:
    """Write a widget's attributes. `maxlength` becomes `data-most`: browsers cut what is pasted to the former."""
    written = []
    for name, value in attributes.items():
        if value is not False:
            name = "data-most" if name == "maxlength" else name
            written.append((name, "" if value is True else format_html('="{}"', value)))
    return format_html_join("", " {}{}", written)


@register.filter
def pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return keys and values of a dict: `{{ value.items }}` would be the value of a key of that name, if it has one."""
    return list(value.items()) if isinstance(value, dict) else []


@register.filter
def spoken(name: Any) -> str:
    """Return a slug as words: `red_audit` as `red audit`."""
    return str(name or "").replace("_", " ")


@register.filter
def short_hash(value: Any) -> str:
    return str(value or "")[:10]


@register.simple_tag
def tag(family: str, value: Any, title: str = "") -> SafeString:
    """Return icon and word for an outcome, severity, tool kind, job state, replay state or mark of a check."""
    value = "" if value is None else str(value)
    icon, word, tone = TAGS.get(family, {}).get(value, ("○", plain(value) or "unknown", ""))
    return badge(icon, word, tone, title)


@register.simple_tag
@lru_cache(maxsize=1024, typed=True)
def badge(icon: str, word: str, tone: str = "", title: str = "") -> SafeString:
    """Return an icon and a word of a template's own, in the look of `tag`. A list has a hundred, of few kinds."""
    return render_to_string("parts/tag.html", {"icon": icon, "word": word, "tone": tone, "title": title})


@lru_cache(maxsize=256)
def _address_of(name: str, numbers: int) -> str:
    """Return the addresses of a URL name as a format, with a field for each of the numbers in them."""
    samples = [SAMPLE_KEY + place for place in range(numbers)]
    address = reverse(name, args=samples).replace("{", "{{").replace("}", "}}")
    for sample in samples:
        address = address.replace(str(sample), "{:d}")
    return address


@register.simple_tag
def row_url(name: str, *numbers: int) -> str:
    """Return the address of a row's page, as `url` does, which is slow if a list calls it for each row."""
    return _address_of(name, len(numbers)).format(*numbers)


@register.simple_block_tag
def empty_state(content: str, title: str, to: str = "", action: str = "") -> str:
    """Return the replacement for an empty list: a title, why it is empty, and a link to the URL name `to`."""
    context = {"title": title, "why": content, "url": reverse(to) if to else "", "action": action}
    return render_to_string("parts/empty.html", context)


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """Return this page's query string with `changes`; paging cursors are dropped, None removes a key."""
    parameters = dict(context["request"].GET.lists())
    for key in ("after", "before"):
        parameters.pop(key, None)
    for key, value in changes.items():
        if value is None:
            parameters.pop(key, None)
        else:
            parameters[key] = [str(value)]
    return f"?{urlencode(parameters, doseq=True)}"
