"""Subjects of jobs: what a job works on, spelled as events' topics are (`trajectory:5`), and the page of each sort."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import ObjectDoesNotExist
from django.urls import NoReverseMatch

Page = Callable[[int], tuple[str, str]]
"""Of a row's number the words and the address of its page. Raises ObjectDoesNotExist where it is gone."""

PAGES: dict[str, Page] = {}


def subject_page(sort: str) -> Callable[[Page], Page]:
    """Register the page of subjects of this sort, which a job shows as what it works on."""

    def register(page: Page) -> Page:
        PAGES[sort] = page
        return page

    return register


def page_of(subject: str) -> tuple[str, str] | None:
    """Words and address of a subject's page; None where it has none, or is gone."""
    sort, _, number = subject.partition(":")
    page = PAGES.get(sort)
    try:
        return page(int(number or 0)) if page else None
    except (ObjectDoesNotExist, ValueError, NoReverseMatch):
        return None
