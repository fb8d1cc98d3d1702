"""Filters of a queue as fields: those of the list of its kind, read from a list's address or from a sent form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from webapp.environments.models import Environment
from webapp.environments.queries import categories
from webapp.forms import filter_bar
from webapp.lists.bulk_acts import WHOLE_FILTER
from webapp.paging import CURSORS
from webapp.query_params import Params, find_unread_names
from webapp.review.flags.rules import FLAG_PARAMETERS
from webapp.review.models import ReviewKind
from webapp.scenarios.models import Task
from webapp.scenarios.task_filters import read_filters as read_task_filters
from webapp.trajectories.trajectory_list import form_of
from webapp.trajectories.trajectory_list import read_filters as read_trajectory_filters

LINKED = {
    "environment": "Only of",
    "task": "Attempts at",
    "parent": "Forks of trajectory",
    "day": "Made on",
    "since": "Made since",
    "made_by": "Made by",
    "judged": "Only judged attempts",
    "from_id": "Number from",
    "leave_out": "Without environments of",
    "order": "Only with a reward",
}
"""How filters are called that come with a link and have no field."""
NAMED: dict[str, tuple[Any, str]] = {"environment": (Environment, "name"), "task": (Task, "title")}
NO_FILTER = frozenset({"sort", "order", WHOLE_FILTER, *CURSORS, *FLAG_PARAMETERS})
VERDICTS = [("", "a case that failed or was warned of"), ("fail", "a case that failed")]


@dataclass(frozen=True)
class LinkedFilter:
    """A filter without a field: `spelled` as in an address, and in words."""

    spelled: str
    words: str


@dataclass(frozen=True)
class QueueFilters:
    """What chooses a queue's objects. `form` has the fields with what they are set to, `problems` say what could not be
    understood of what was given."""

    form: filter_bar.FilterForm
    linked: tuple[LinkedFilter, ...]
    query: str
    """All of them, as the list's address spells them."""
    problems: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """Each filter that is set, in words."""
        fields = [(field.label, filter_bar.words_of(field)) for field in self.form.visible_fields()]
        return [*(f"{label}: {said}" for label, said in fields if said), *(one.words for one in self.linked)]


def read_queue_filters(kind: str, given: QueryDict) -> QueueFilters:
    """The filters of a kind of queue that an address, or a queue, names. Raises TextTooLong."""
    form, problems = READERS[kind](given)
    shown = [name for field in form.visible_fields() for name in filter_bar.parameters_of(field)]
    unknown = {*find_unread_names(given), *NO_FILTER, *shown}
    if given.get("order", "").lstrip("-") == "reward":  # the list then has only those that have one
        unknown.discard("order")
    linked = tuple(_linked(given, name) for name in given if name not in unknown and any(given.getlist(name)))
    query = _spell(given, [name for name in shown if name not in NO_FILTER])
    return QueueFilters(form, linked, "&".join(filter(None, [query, *(one.spelled for one in linked)])), problems)


def sent_filters(data: QueryDict) -> QueryDict:
    """What a sent form says of the filters: its fields, and the linked ones that are still ticked."""
    given = data.copy()
    given.pop("order", None)  # that of the queue
    for spelled in given.pop("linked", []):
        for name, values in QueryDict(str(spelled)).lists():
            given.setlistdefault(name, values)
    return given


def _task_form(given: QueryDict) -> tuple[filter_bar.FilterForm, tuple[str, ...]]:
    filters = read_task_filters(given)
    return filters.form(), filters.problems


def _trajectory_form(given: QueryDict) -> tuple[filter_bar.FilterForm, tuple[str, ...]]:
    filters = read_trajectory_filters(given)
    return form_of(filters), tuple(f"“{one}” is not a choice here and is left out." for one in filters.problems)


def _tool_form(given: QueryDict) -> tuple[filter_bar.FilterForm, tuple[str, ...]]:
    params, known = Params(given), categories()
    chosen = {
        "environment": params.search_text("environment"),
        "category": params.choice("category", known),
        "verdict": params.choice("verdict", ("fail",)),
    }
    fields = {
        "environment": filter_bar.text("Words of the environment's name"),
        "category": filter_bar.select("Category", known),
        "verdict": filter_bar.select("With", VERDICTS, first=None),
    }
    problems = tuple(f"“{name}={params.text(name, 40)}” is not a choice here." for name in params.unreadable)
    return filter_bar.FilterForm(chosen, fields), problems


READERS: dict[str, Callable[[QueryDict], tuple[filter_bar.FilterForm, tuple[str, ...]]]] = {
    ReviewKind.TASK: _task_form,
    ReviewKind.TOOL: _tool_form,
    ReviewKind.TRAJECTORY: _trajectory_form,
}


def _linked(given: QueryDict, name: str) -> LinkedFilter:
    values = [value for value in given.getlist(name) if value]
    label = LINKED.get(name, name.replace("_", " ").capitalize())
    if name == "ids":
        words = f"The {len(values):,} rows that were ticked" if len(values) > 1 else "The row that was ticked"
    elif name in ("judged", "order"):
        words = label
    else:
        words = f"{label} {_name_row(name, values[0])}"
    return LinkedFilter(_spell(given, [name]), words)


def _name_row(name: str, value: str) -> str:
    """The name of the row that a filter names by its number; any other value as it is."""
    if name not in NAMED or (pk := Params(QueryDict(f"pk={value}")).id("pk")) is None:
        return value
    model, column = NAMED[name]
    found: str | None = model.objects.filter(pk=pk).values_list(column, flat=True).first()
    return found or value


def _spell(given: QueryDict, names: list[str]) -> str:
    said = QueryDict(mutable=True)
    for name in names:
        said.setlist(name, [value for value in given.getlist(name) if value])
    return said.urlencode(safe="/,")
