"""Filters for showing text that nobody trusts, and numbers that people compare."""

from __future__ import annotations

from django import template

register = template.Library()
