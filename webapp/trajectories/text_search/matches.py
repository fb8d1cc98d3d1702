"""Trajectories that have all words of a query: few as a list of numbers, many by a filter that the database applies."""

from __future__ import annotations

from django.db import connection
from django.db.models import BooleanField, F, Func, QuerySet, Value

from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import Trajectory, TrajectoryText
from webapp.trajectories.text_search.words import WordQuery, parse_query_words

KIND = "index_trajectories"
"""The kind of the job that stores the words of older trajectories."""
FEW, MANY = 2_000, 10_000
"""At most `FEW` matches are named in the query; with more than `MANY`, a list soon finds enough by testing its rows."""


class _AmongMatches(Func):
    """Condition that a trajectory's number is among those that have the words.

    `IS TRUE` keeps PostgreSQL from joining the two: it estimates any word as rare, and would look up each trajectory
    one by one. In this form, the numbers are looked up once in the index and kept in a hash table.
    """

    template = "(%(expressions)s::tsquery)))) IS TRUE"
    arg_joiner = " IN (SELECT unnest(trajectories_with_words("
    output_field = BooleanField()


class _HasWords(Func):
    """Condition that one trajectory has the words of a query, looked up for each row that a list reads."""

    template = "(SELECT said.words @@ %(expressions)s)"
    arg_joiner = f"::tsquery FROM {TrajectoryText._meta.db_table} AS said WHERE said.trajectory_id = "
    output_field = BooleanField()


def filter_by_words(rows: QuerySet[Trajectory], text: str, *, alone: bool = False) -> tuple[QuerySet[Trajectory], int]:
    """Return the rows that have every word of a text, and how many trajectories have; none if the text has no word.

    The last word is taken as the beginning of a word only if no trajectory has it as a whole word. `alone` is true if
    the rows are all trajectories, in the order of their numbers.
    """
    typed = parse_query_words(text)
    for query in dict.fromkeys((typed.whole, typed)) if typed else ():
        total, first = _find_first_matches(query)
        query_value = Value(query.tsquery)
        if alone and total > MANY:
            return rows.filter(_HasWords(query_value, F("pk"))), total
        if total > FEW:
            return rows.filter(_AmongMatches(F("pk"), query_value)), total
        if total:
            return rows.filter(pk__in=first), total
    return rows.none(), 0


def _find_first_matches(query: WordQuery) -> tuple[int, list[int]]:
    """Return how many trajectories have the words, and the numbers of some of them: of all if they are few."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cardinality(found), found[1:%s] "
            "FROM (SELECT trajectories_with_words(%s::tsquery) AS found OFFSET 0) AS matches",
            [FEW, query.tsquery],
        )
        total, first = cursor.fetchone()
    return total, first


def list_newest_matches(query: WordQuery, most: int) -> list[int]:
    """Return numbers of the newest trajectories that have the words, newest first; the last word also matches as a
    beginning."""
    if query.prefix and (whole_matches := list_newest_matches(query.whole, most)):
        return whole_matches
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT found FROM unnest(trajectories_with_words(%s::tsquery)) AS found ORDER BY found DESC LIMIT %s",
            [query.tsquery, most],
        )
        return [pk for (pk,) in cursor.fetchall()]


def find_filling_job() -> Job | None:
    """Return the job that still has to store words of older trajectories; None once it has succeeded."""
    return Job.objects.filter(kind=KIND).exclude(state=JobState.SUCCEEDED).order_by("-id").first()
