"""Snippets of the trajectories of a page: the step with the words of a query, and the text around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from webapp.trajectories.models import Step, Trajectory, TrajectoryText
from webapp.trajectories.text_search.text_rows import ABOUT, FIRST_STEP, LAST_PLACE, list_about_texts, list_step_texts
from webapp.trajectories.text_search.words import WordQuery, find_word_runs

BEFORE, LENGTH = 40, 160
"""Characters of a snippet before its first word, and of the whole."""
SEARCHED_CHARS = 100_000
"""Characters of a text that are searched for the words; a step whose words are later is shown without its text."""

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
    """The place of the words. `step` is None if no step has them; `field` names the text, as the replay does."""

    step: int | None
    field: str = ""
    pieces: tuple[Piece, ...] = ()

    @property
    def place(self) -> str:
        """The place as text, such as "step 3, reasoning"."""
        return ", ".join(part for part in ("" if self.step is None else f"step {self.step}", self.field) if part)

    @property
    def address(self) -> str:
        """The part of a replay's address that opens it there."""
        return "" if self.step is None else f"?step={self.step}"


def attach_snippets(rows: Iterable[Trajectory], query: WordQuery) -> None:
    """Set the `found` of each row; None if no places of the words are stored. Two queries for all rows."""
    rows = list(rows)
    best = _find_best_places([row.pk for row in rows], query)
    steps = _load_steps([(pk, place - FIRST_STEP) for pk, place in best.items() if FIRST_STEP <= place < LAST_PLACE])
    for row in rows:
        place = best.get(row.pk)
        step = steps.get(row.pk)
        texts = list_step_texts(step) if step is not None else list_about_texts(row) if place == ABOUT else []
        snippet = None if place is None else _build_found(None if step is None else step.index, texts, query)
        row.found = snippet  # type: ignore[attr-defined]


def _find_best_places(keys: Sequence[int], query: WordQuery) -> dict[int, int]:
    """Return by trajectory the place with the most of the words; of equal ones the first step, and places outside of
    steps last."""
    if not keys or not query:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_PLACES, [list(keys), list(query.words), query.prefix, query.prefix])
        lines = cursor.fetchall()
    words_by_place: dict[int, dict[int, set[str]]] = {}
    for pk, lexeme, places in lines:
        for word in {lexeme} & set(query.words) | ({query.prefix} if _has_prefix(lexeme, query.prefix) else set()):
            for place in places:
                words_by_place.setdefault(pk, {}).setdefault(place, set()).add(word)
    return {
        pk: max(places, key=lambda place, places=places: (len(places[place]), place != ABOUT, -place))  # type: ignore[misc]
        for pk, places in words_by_place.items()
    }


def _has_prefix(lexeme: str, prefix: str) -> bool:
    return bool(prefix) and lexeme.startswith(prefix)


def _load_steps(places: Sequence[tuple[int, int]]) -> dict[int, Step]:
    """Return the steps at these places, by trajectory."""
    if not places:
        return {}
    table = Step._meta.db_table
    condition = f"({table}.trajectory_id, {table}.index) IN (SELECT * FROM unnest(%s::bigint[], %s::int[]))"
    keys: list[Any] = [[pk for pk, _ in places], [index for _, index in places]]
    rows = Step.objects.extra(where=[condition], params=keys).order_by()
    return {step.trajectory_id: step for step in rows.defer("patch", "details", "snapshot")}


def _build_found(step: int | None, texts: Sequence[tuple[str, str]], query: WordQuery) -> Found:
    """Return the text with the most words, cut around the first of them."""
    best: tuple[int, str, str, list[tuple[int, int]]] | None = None
    for field, text in texts:
        runs, word_count = _find_marked_runs(text[:SEARCHED_CHARS], query)
        if runs and (best is None or word_count > best[0]):
            best = word_count, field, text, runs
    if best is None:
        return Found(step)
    _, field, text, runs = best
    return Found(step, field, tuple(_cut_pieces(text, runs)))


def _find_marked_runs(text: str, query: WordQuery) -> tuple[list[tuple[int, int]], int]:
    """Return the runs of a text that are words of the query, and how many of its words they are."""
    runs, found_words = [], set()
    for start, end in find_word_runs(text):
        if marks := query.marks(text[start:end]):
            runs.append((start, end))
            found_words |= marks
    return runs, len(found_words)


def _cut_pieces(text: str, runs: Sequence[tuple[int, int]]) -> list[Piece]:
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
