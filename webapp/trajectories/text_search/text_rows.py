"""Words of a trajectory as a row, written in the transaction that ends the trajectory."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection

from webapp.trajectories.models import Step, Trajectory, TrajectoryText
from webapp.trajectories.text_search.words import format_value_text, split_words

ABOUT = 1
"""The place of what a trajectory has besides its steps; step 0 is place 2. PostgreSQL counts places from 1."""
FIRST_STEP = 2
LAST_PLACE = 16_383
"""PostgreSQL stores no higher place; a word that is only in later steps is found without its step."""
MOST_PLACES = 8
"""Number of steps that are stored for each word, starting with the first."""
MOST_BYTES = 900_000
"""PostgreSQL stores at most 1 MiB of words with their places; further words of a trajectory are not searched."""
READ_AT_ONCE = 200


class TextWords:
    """The words of one trajectory, each with its places."""

    def __init__(self) -> None:
        self._places: dict[str, list[int]] = {}
        self._bytes = 0

    def add(self, text: str, place: int) -> None:
        """Add the words of the text at this place."""
        for word in dict.fromkeys(split_words(text)):
            word_places = self._places.get(word)
            if word_places is None:
                self._bytes += len(word.encode()) + 2 * MOST_PLACES + 4
                if self._bytes > MOST_BYTES:
                    return
                self._places[word] = [place]
            elif len(word_places) < MOST_PLACES and word_places[-1] != place:
                word_places.append(place)

    def add_step(self, step: Step) -> None:
        place = min(step.index + FIRST_STEP, LAST_PLACE)
        for _, text in list_step_texts(step):
            self.add(text, place)

    def add_about(self, row: Trajectory) -> None:
        for _, text in list_about_texts(row):
            self.add(text, ABOUT)

    def literal(self) -> str:
        """Return the words in the syntax of a `tsvector`."""
        return " ".join(f"'{word}':{','.join(map(str, places))}" for word, places in self._places.items())


def list_step_texts(step: Step) -> list[tuple[str, str]]:
    """Return the texts of a step that are searched, by the names that the replay gives them."""
    texts = [
        ("text", step.content),
        ("reasoning", step.reasoning),
        ("tool", step.tool),
        ("arguments", format_value_text(step.arguments)),
        ("result", format_value_text(step.result)),
        ("recorded", "" if step.matches else step.recorded),
    ]
    return [(name, text) for name, text in texts if text]


def list_about_texts(row: Trajectory) -> list[tuple[str, str]]:
    """Return the texts of a trajectory outside of its steps that are searched."""
    instruction = "" if row.revision is None else row.revision.instruction
    texts = [("instruction", instruction), ("answer", row.answer), ("record", row.words)]
    return [(name, text) for name, text in texts if text]


def write_words(row: Trajectory, words: TextWords, *, replace: bool = True) -> None:
    """Store the words of a trajectory and of `words`, which has those of its steps. Within a transaction.

    Without `replace`, words that are stored already stay as they are.
    """
    words.add_about(row)
    conflict_clause = "DO UPDATE SET words = EXCLUDED.words" if replace else "DO NOTHING"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TrajectoryText._meta.db_table} (trajectory_id, words) VALUES (%s, %s::tsvector) "
            f"ON CONFLICT (trajectory_id) {conflict_clause}",
            [row.pk, words.literal()],
        )


def write_text(row: Trajectory, steps: Iterable[Step] | None = None, *, replace: bool = True) -> None:
    """Store the words of a trajectory that has ended; its steps are read from the database unless they are given."""
    words = TextWords()
    if steps is None:
        stored = row.steps.order_by("index").defer("patch", "details", "snapshot")
        steps = stored.iterator(chunk_size=READ_AT_ONCE)
    for step in steps:
        words.add_step(step)
    write_words(row, words, replace=replace)


def delete_text(row: Trajectory) -> None:
    """Delete the words of a trajectory that starts again, so that its former text is no longer found."""
    TrajectoryText.objects.filter(trajectory=row).delete()
