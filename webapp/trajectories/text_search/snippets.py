"""Where the words of a query stand in the trajectories of a page: the step, and the text around the words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from webapp.trajectories.models import Step, Trajectory, TrajectoryText
from webapp.trajectories.text_search.text_rows import ABOUT, FIRST_STEP, LAST_PLACE, about_texts, step_texts
from webapp.trajectories.text_search.words import WordQuery, word_runs

BEFORE, LENGTH = 40, 160
"""Characters of a snippet before its first word, and of the whole."""
SEARCHED_CHARS = 100_000
"""So much of a text is looked through for the words; a step whose words stand later is shown without its text."""

_PLACES = f"""
    SELECT text.trajectory_id, word.lexeme, word.positions
    FROM {TrajectoryText._meta.db_table} AS text, LATERAL unnest(text.words) AS word
    WHERE text.trajectory_id = ANY(%s) AND (word.lexeme = ANY(%s) OR %s <> '' AND starts_with(word.lexeme, %s))
"""


class Piece(NamedTuple):
    """A piece of a snippet; `marked` if it is one of the words."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Found:
    """Where the words stand. `step` is None if they stand in no step; `field` names the text, as the replay does."""

    step: int | None
    field: str = ""
    pieces: tuple[Piece, ...] = ()

    @property
    def place(self) -> str:
        """Such as "step 3, reasoning"."""
        return ", ".join(part for part in ("" if self.step is None else f"step {self.step}", self.field) if part)

    @property
    def address(self) -> str:
        """What an address of the replay adds to open it there."""
        return "" if self.step is None else f"?step={self.step}"


def tell_found(rows: Iterable[Trajectory], query: WordQuery) -> None:
    """Give each row its `found`; None if nothing is stored of the words' places. Two queries for all rows."""
    rows = list(rows)
    best = _best_places([row.pk for row in rows], query)
    steps = _steps([(pk, place - FIRST_STEP) for pk, place in best.items() if FIRST_STEP <= place < LAST_PLACE])
    for row in rows:
        place = best.get(row.pk)
        step = steps.get(row.pk)
        texts = step_texts(step) if step is not None else about_texts(row) if place == ABOUT else []
        found = None if place is None else _found(None if step is None else step.index, texts, query)
        row.found = found  # type: ignore[attr-defined]


def _best_places(keys: Sequence[int], query: WordQuery) -> dict[int, int]:
    """By trajectory the place where most of the words stand; of those the first step, and only then what is no step."""
    if not keys or not query:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_PLACES, [list(keys), list(query.words), query.prefix, query.prefix])
        lines = cursor.fetchall()
    standing: dict[int, dict[int, set[str]]] = {}
    for pk, lexeme, places in lines:
        for word in {lexeme} & set(query.words) | ({query.prefix} if _begins(lexeme, query.prefix) else set()):
            for place in places:
                standing.setdefault(pk, {}).setdefault(place, set()).add(word)
    return {
        pk: max(places, key=lambda place, places=places: (len(places[place]), place != ABOUT, -place))  # type: ignore[misc]
        for pk, places in standing.items()
    }


def _begins(lexeme: str, prefix: str) -> bool:
    return bool(prefix) and lexeme.startswith(prefix)


def _steps(places: Sequence[tuple[int, int]]) -> dict[int, Step]:
    """The steps at these places, by trajectory."""
    if not places:
        return {}
    table = Step._meta.db_table
    wanted = f"({table}.trajectory_id, {table}.index) IN (SELECT * FROM unnest(%s::bigint[], %s::int[]))"
    keys: list[Any] = [[pk for pk, _ in places], [index for _, index in places]]
    rows = Step.objects.extra(where=[wanted], params=keys).order_by()
    return {step.trajectory_id: step for step in rows.defer("patch", "details", "snapshot")}


def _found(step: int | None, texts: Sequence[tuple[str, str]], query: WordQuery) -> Found:
    """The text in which the most words stand, cut around the first of them."""
    best: tuple[int, str, str, list[tuple[int, int]]] | None = None
    for field, text in texts:
        runs, held = _marked_runs(text[:SEARCHED_CHARS], query)
        if runs and (best is None or held > best[0]):
            best = held, field, text, runs
    if best is None:
        return Found(step)
    _, field, text, runs = best
    return Found(step, field, tuple(_pieces(text, runs)))


def _marked_runs(text: str, query: WordQuery) -> tuple[list[tuple[int, int]], int]:
    """The runs of a text that are words of the query, and how many of its words they are."""
    runs, held = [], set()
    for start, end in word_runs(text):
        if marks := query.marks(text[start:end]):
            runs.append((start, end))
            held |= marks
    return runs, len(held)


def _pieces(text: str, runs: Sequence[tuple[int, int]]) -> list[Piece]:
    first = max(0, runs[0][0] - BEFORE)
    last = min(len(text), first + LENGTH)
    pieces = [Piece("…")] if first else []
    at = first
    for start, end in runs:
        if start >= last:
            break
        end = min(end, last)
        pieces += [Piece(text[at:start]), Piece(text[start:end], marked=True)]
        at = end
    pieces += [Piece(text[at:last]), Piece("…" if last < len(text) else "")]
    return [piece for piece in pieces if piece.text]
