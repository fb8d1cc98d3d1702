"""The filters of the task list, read from an address: what cannot be read is left out and said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from synthesis.assessment.kinds import KINDS, TASK_KINDS, kind_of
from webapp.forms import filter_bar
from webapp.lists.columns import Column, RowList
from webapp.query_params import Params
from webapp.scenarios import queries
from webapp.scenarios.audits.page import FAULTS
from webapp.scenarios.models import SUPERSEDED, AuditState, ReviewState
from webapp.scenarios.verifiers import VERIFIER_TITLES
from webapp.scenarios.withheld.filters import CHOICES

TASKS = RowList(
    "tasks",
    "Tasks",
    (
        Column("task", "Task", needed=True),
        Column("environment", "Environment"),
        Column("checks", "Checks", ascending="check_count", descending="-check_count", numeric=True),
        Column(
            "do_nothing",
            "Doing nothing earns",
            ascending="do_nothing",
            descending="-do_nothing",
            numeric=True,
            help="The reward of an agent that does nothing; 0 is right",
        ),
        Column("audit", "Audit", descending="-audit_state", help="Whether the verifier can be trusted"),
        Column("review", "Review", descending="-review_state", help="What people decided on its current revision"),
        Column("findings", "Findings", descending="-finding_count", numeric=True),
        Column("attempts", "Attempts", descending="-trajectory_count", numeric=True),
        Column("source", "Source"),
        Column("added", "Added", ascending="id", descending="-id"),
    ),
    order_parameter="sort",
)
SORTS = tuple(order for column in TASKS.columns for order in (column.ascending, column.descending) if order)


MOST_CHECKS = 1_000_000
SHARE, COUNT = "write a number from 0 to 1", f"write a whole number up to {MOST_CHECKS:,}"
_WHY = {
    "category": "no environment has this category",
    "finding": "there is no such kind of finding",
    "audit": "there is no such state of an audit",
    "fault": "there is no such kind of fault",
    "review": "there is no such state of a review",
    "low": SHARE,
    "high": SHARE,
    "fewest": COUNT,
    "most": COUNT,
    "difficulty": "write untried, never, always, or a number of tenths from 0 to 9",
    "verifier": "there is no such kind of verifier",
    "withheld": "write any, none, tool or parameter",
    "source": "nothing came from such a source",
    "sort": "there is no such order",
}
LEFT_OUT = {name: f"The filter “{name}” was not understood and is left out: {why}." for name, why in _WHY.items()}
"""What the page says of a filter that cannot be understood."""


@dataclass(frozen=True)
class TaskFilters:
    """What an address asks of the list. `values` were understood, as `queries.tasks` takes them; `problems` say
    what was left out."""

    values: dict[str, Any]
    problems: tuple[str, ...]
    choices: dict[str, list[tuple[str, str]]]

    def form(self) -> filter_bar.FilterForm:
        """The form above the list, filled with what was understood."""

        def choice(name: str, label: str, first: str | None = "Any") -> Any:
            return filter_bar.select(label, self.choices[name], first=first)

        fields = {
            "q": filter_bar.search("Text", keyed="Search"),
            "environment": filter_bar.text("Environment", placeholder="name or id"),
            "category": choice("category", "Category"),
            "finding": choice("finding", "Finding"),
            "audit": choice("audit", "Audit"),
            "fault": choice("fault", "Audit found", "Anything"),
            "review": choice("review", "Review"),
            "verifier": choice("verifier", "Verifier"),
            "withheld": choice("withheld", "Withheld"),
            "difficulty": choice("difficulty", "Solved by"),
            "idle": filter_bar.span("Doing nothing scores", "low", "high", ("0", "1"), max=1, step="any"),
            "checks": filter_bar.span("Checks", "fewest", "most"),
            "source": choice("source", "Source"),
            **filter_bar.hidden({name: self.values.get(name) for name in ("sort", "leave_out")}),
        }
        pairs = {"idle": ("low", "high"), "checks": ("fewest", "most")}
        ranges = {name: [self.values.get(end) for end in ends] for name, ends in pairs.items()}
        return filter_bar.FilterForm(self.values | ranges, fields)


def read_filters(query: QueryDict) -> TaskFilters:
    """The filters that an address names."""
    params, choices = Params(query), _choices()
    values = {
        "q": params.search_text("q"),
        "environment": params.search_text("environment"),
        **{
            name: params.choice(name, dict(choices[name]))
            for name in ("category", "finding", "audit", "fault", "review", "verifier", "withheld", "difficulty")
        },
        **{name: params.decimal(name, 0, 1) for name in ("low", "high")},
        **{name: params.number(name, high=MOST_CHECKS) for name in ("fewest", "most")},
        "source": params.choice("source", dict(choices["source"])),
        "sort": params.choice("sort", SORTS),
        "ids": list(params.picks("ids")) or None,
        "leave_out": params.text("leave_out", 32, strip=True),
    }
    understood = {name: value for name, value in values.items() if value not in (None, "")}
    return TaskFilters(understood, tuple(params.told(LEFT_OUT)), choices)


def _choices() -> dict[str, list[tuple[str, str]]]:
    """(value, words) of each filter that offers some."""
    kinds = [(name, kind_of(name).title) for name in TASK_KINDS if name in KINDS]
    return {
        "category": [(name, name) for name in queries.categories()],
        "finding": [("any", "With a finding"), ("none", "Without findings"), *kinds],
        "audit": [*((name, name) for name in AuditState.values), ("none", "not audited")],
        "fault": list(FAULTS.items()),
        "review": [*((name, str(words)) for name, words in ReviewState.choices), (SUPERSEDED, SUPERSEDED)],
        "verifier": list(VERIFIER_TITLES.items()),
        "withheld": CHOICES,
        "difficulty": queries.DIFFICULTIES,
        "source": [(name, name) for name in queries.sources()],
    }
