"""Filters of a queue as fields: those of the list of its kind, read from a list's query string or from a sent form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from webapp.common.forms import filter_bar
from webapp.common.lists.bulk_acts import WHOLE_FILTER
from webapp.common.paging import CURSORS
from webapp.common.query_params import Params, find_unread_names
from webapp.environments.models import Environment
from webapp.environments.queries import list_categories
from webapp.review.flags.rules import FLAG_PARAMETERS
from webapp.review.models import ReviewKind
from webapp.scenarios.models import Task
from webapp.scenarios.task_filters import read_filters as read_task_filters
from webapp.trajectories.trajectory_list import build_filter_form
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
    """A filter without a field: `spelled` as in a query string, and in words."""

    spelled: str
    words: str


@dataclass(frozen=True)
class QueueFilters:
    """The filters that choose a queue's objects. `form` has the fields with their values, `problems` lists the input
    that was not understood."""

    form: filter_bar.FilterForm
    linked: tuple[LinkedFilter, ...]
    query: str
    """All of them, as the list's address spells them."""
    problems: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """Each filter that is set, in words."""
        fields = [(field.label, filter_bar.describe_value(field)) for field in self.form.visible_fields()]
        return [*(f"{label}: {said}" for label, said in fields if said), *(one.words for one in self.linked)]


def read_queue_filters(kind: str, given: QueryDict) -> QueueFilters:
    """Return the filters of a kind of queue that a query string, or a queue, names. Raises TextTooLong."""
    form, problems = READERS[kind](given)
    field_names = [name for field in form.visible_fields() for name in filter_bar.list_parameters(field)]
    unknown = {*find_unread_names(given), *NO_FILTER, *field_names}
    if given.get("order", "").lstrip("-") == "reward":  # the list then has only those that have one
        unknown.discard("order")
    linked = tuple(
        _build_linked_filter(given, name) for name in given if name not in unknown and any(given.getlist(name))
    )
    query = _format_parameters(given, [name for name in field_names if name not in NO_FILTER])
    return QueueFilters(form, linked, "&".join(filter(None, [query, *(one.spelled for one in linked)])), problems)


def read_sent_filters(data: QueryDict) -> QueryDict:
    """Return the filters of a sent form: its fields, and the linked filters that are still ticked."""
    parameters = data.copy()
    parameters.pop("order", None)  # that of the queue
    for spelled in parameters.pop("linked", []):
        for name, values in QueryDict(str(spelled)).lists():
            parameters.setlistdefault(name, values)
    return parameters


def _read_task_form(given: QueryDict) -> tuple[filter_bar.FilterForm, tuple[str, ...]]:
    filters = read_task_filters(given)
    return filters.form(), filters.problems


def _read_trajectory_form(given: QueryDict) -> tuple[filter_bar.FilterForm, tuple[str, ...]]:
    filters = read_trajectory_filters(given)
    return build_filter_form(filters), tuple(
        f"“{one}” is not a choice here and is left out." for one in filters.problems
    )


def _read_tool_form(given: QueryDict) -> tuple[filter_bar.FilterForm, tuple[str, ...]]:
    params, category_names = Params(given), list_categories()
    chosen = {
        "environment": params.search_text("environment"),
        "category": params.choice("category", category_names),
        "verdict": params.choice("verdict", ("fail",)),
    }
    fields = {
        "environment": filter_bar.make_text("Words of the environment's name"),
        "category": filter_bar.make_select("Category", category_names),
        "verdict": filter_bar.make_select("With", VERDICTS, first=None),
    }
    problems = tuple(f"“{name}={params.text(name, 40)}” is not a choice here." for name in params.unreadable)
    return filter_bar.FilterForm(chosen, fields), problems


READERS: dict[str, Callable[[QueryDict], tuple[filter_bar.FilterForm, tuple[str, ...]]]] = {
    ReviewKind.TASK: _read_task_form,
    ReviewKind.TOOL: _read_tool_form,
    ReviewKind.TRAJECTORY: _read_trajectory_form,
}


def _build_linked_filter(given: QueryDict, name: str) -> LinkedFilter:
    values = [value for value in given.getlist(name) if value]
    label = LINKED.get(name, name.replace("_", " ").capitalize())
    if name == "ids":
        words = f"The {len(values):,} rows that were ticked" if len(values) > 1 else "The row that was ticked"
    elif name in ("judged", "order"):
        words = label
    else:
        words = f"{label} {_name_filtered_row(name, values[0])}"
    return LinkedFilter(_format_parameters(given, [name]), words)


def _name_filtered_row(name: str, value: str) -> str:
    """Return the name of the row that a filter names by its number; any other value unchanged."""
    if name not in NAMED or (pk := Params(QueryDict(f"pk={value}")).id("pk")) is None:
        return value
    model, column = NAMED[name]
    row_name: str | None = model.objects.filter(pk=pk).values_list(column, flat=True).first()
    return row_name or value


def _format_parameters(given: QueryDict, names: list[str]) -> str:
    parameters = QueryDict(mutable=True)
    for name in names:
        parameters.setlist(name, [value for value in given.getlist(name) if value])
    return parameters.urlencode(safe="/,")
