"""Theme typed by a user."""

from __future__ import annotations

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from synthesis.themes.keys import build_theme_key

NAME = 120
CATEGORY = 120
LEAST_DESCRIPTION = 20
DESCRIPTION = 10_000


def build_typed_theme(name: str, description: str, category: str = "") -> ThemeDraft:
    """Return a theme from three texts. Raise InputError with the change needed."""
    name, category = _clean_line(name), _clean_line(category)
    description = clean_text(description).replace("\r\n", "\n").strip()
    _require_length("name", name, 1, NAME)
    _require_length("description", description, LEAST_DESCRIPTION, DESCRIPTION)
    _require_length("category", category, 0, CATEGORY)
    return ThemeDraft(
        key=build_theme_key(name, description, category),
        name=name,
        description=description,
        category=category,
        origin="typed",
        origin_text=description,
    )


def _clean_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _require_length(what: str, text: str, least: int, most: int) -> None:
    if len(text) < least and not text:
        raise InputError(f"The {what} is missing.")
    if len(text) < least:
        raise InputError(f"The {what} has {len(text)} characters; it needs at least {least} to say what is meant.")
    if len(text) > most:
        raise InputError(f"The {what} has {len(text):,} characters; at most {most:,} are allowed. Shorten it.")
