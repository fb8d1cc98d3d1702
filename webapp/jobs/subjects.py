"""Subjects of jobs, spelled as events' topics are (`trajectory:5`), and the pages of what a job works on or made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.core.exceptions import ObjectDoesNotExist
from django.urls import NoReverseMatch

from webapp.jobs.models import Job

Page = Callable[[int], tuple[str, str]]
"""The words and the page address of a row, by its number. Raises ObjectDoesNotExist if it was deleted."""

PAGES: dict[str, Page] = {}


def register_subject_page(sort: str) -> Callable[[Page], Page]:
    """Register the page of subjects of this sort, which a job shows as what it works on."""

    def register_page(page: Page) -> Page:
        PAGES[sort] = page
        return page

    return register_page


def find_subject_page(subject: str) -> tuple[str, str] | None:
    """Return the words and address of a subject's page; None if it has none, or does not exist any more."""
    sort, _, number = subject.partition(":")
    page = PAGES.get(sort)
    try:
        return page(int(number or 0)) if page else None
    except (ObjectDoesNotExist, ValueError, NoReverseMatch):
        return None


class MadeLink(NamedTuple):
    """Link to the page of something that a job made or changed."""

    words: str
    url: str


Made = Callable[[Job], list[MadeLink]]
MADE_BY: dict[str, Made] = {}
LINKED = 20
"""Number of rows named by a result that are linked."""


def register_made_links(*kinds: str) -> Callable[[Made], Made]:
    """Register the links to the work of jobs of these kinds, beyond the rows that their results name."""

    def register_links(made: Made) -> Made:
        MADE_BY.update(dict.fromkeys(kinds, made))
        return made

    return register_links


def list_made_links(job: Job) -> list[MadeLink]:
    """Return links to what an ended job made: rows that its result names (`trajectory: 5`, `tasks: [1, 2]`), and the
    links that its kind registered."""
    if not isinstance(job.result, dict):
        return []
    links = []
    for name, value in job.result.items():
        sort = name if name in PAGES else name.removesuffix("s")
        keys = value if isinstance(value, list) else [value] if sort == name else []
        pages = [find_subject_page(f"{sort}:{key}") for key in keys[:LINKED] if type(key) is int]
        links += [MadeLink(*page) for page in pages if page]
    if job.kind in MADE_BY:
        links += MADE_BY[job.kind](job)
    return list(dict.fromkeys(links))
