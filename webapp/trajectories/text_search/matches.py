"""Trajectories that have all words of a query: few as a list of numbers, many by a filter that the database applies."""

from __future__ import annotations

from django.db import connection
from django.db.models import BooleanField, F, Func, QuerySet, Value

from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import Trajectory
from webapp.trajectories.text_search.words import WordQuery, read_words

KIND = "index_trajectories"
"""The kind of the job that stores the words of older trajectories."""
FEW = 2_000


class _HasWords(Func):
    """Whether a trajectory's number is among those that have the words.

    `IS TRUE` keeps PostgreSQL from joining the two: it estimates any word as rare, and would look up each trajectory
    one by one. As it stands, the numbers are looked up once in the index and kept in a hash table.
    """

    template = "(%(expressions)s::tsquery))) IS TRUE"
    arg_joiner = " IN (SELECT trajectories_with_words("
    output_field = BooleanField()


def with_words(rows: QuerySet[Trajectory], text: str) -> QuerySet[Trajectory]:
    """The rows that have every word of a text; none if the text has no word."""
    query = read_words(text)
    if not query:
        return rows.none()
    found = _first_matches(query)
    if len(found) <= FEW:
        return rows.filter(pk__in=found)
    return rows.filter(_HasWords(F("pk"), Value(query.tsquery)))


def _first_matches(query: WordQuery) -> list[int]:
    """Numbers of trajectories that have the words: all of them if they are few, else one more than `FEW`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT trajectories_with_words(%s::tsquery) LIMIT %s", [query.tsquery, FEW + 1])
        return [pk for (pk,) in cursor.fetchall()]


def newest_matches(query: WordQuery, most: int) -> list[int]:
    """Numbers of the newest trajectories that have the words, newest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT found FROM trajectories_with_words(%s::tsquery) AS found ORDER BY found DESC LIMIT %s",
            [query.tsquery, most],
        )
        return [pk for (pk,) in cursor.fetchall()]


def filling_job() -> Job | None:
    """The job that still has to store words of older trajectories; None once all of them are found."""
    return Job.objects.filter(kind=KIND).exclude(state=JobState.SUCCEEDED).order_by("-id").first()
