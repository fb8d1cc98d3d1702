"""Colour schemes of pages: what a person may choose, kept in a cookie."""

from __future__ import annotations

COLOUR_SCHEMES = ("auto", "light", "dark")
