"""Filters of the task list, read from an address: values that cannot be read are left out and reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from synthesis.assessment.kinds import KINDS, TASK_KINDS, get_finding_kind
from synthesis.variant_settings import VARIANT_TITLES
from webapp.common.forms import filter_bar
from webapp.common.lists.columns import Column, RowList
from webapp.common.query_params import Params
from webapp.scenarios import queries
from webapp.scenarios.audits.page import FAULTS
from webapp.scenarios.measures.shown import KNOB_TITLES
from webapp.scenarios.models import PASS_AT, SUPERSEDED, AuditState, ReviewState
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
        Column(
            "consistency",
            "Consistency",
            numeric=True,
            help="How many of the solver's runs solved it when it was made",
            extra=True,
        ),
        Column(
            "pass_at", "Pass@10", numeric=True, help="How many of a policy's first ten attempts solved it", extra=True
        ),
        Column("variant", "Variant", help="Whose pipeline made it"),
        Column("source", "Source"),
        Column("added", "Added", ascending="id", descending="-id"),
    ),
    order_parameter="sort",
)
SORTS = tuple(order for column in TASKS.columns for order in (column.ascending, column.descending) if order)


LINKED = ("knob", "knob_from", "knob_to", "ten_by", "ten")
"""Filters that come with a link of the statistics."""
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
    "variant": "there is no such variant",
    "knob": "there is no such measure of difficulty",
    "knob_from": "write a number",
    "knob_to": "write a number",
    "ten": "write a whole number from 0 to 10",
    "withheld": "write any, none, tool or parameter",
    "source": "nothing came from such a source",
    "sort": "there is no such order",
}
LEFT_OUT = {name: f"The filter “{name}” was not understood and is left out: {why}." for name, why in _WHY.items()}
"""What the page says of a filter that cannot be understood."""


@dataclass(frozen=True)
class TaskFilters:
    """Filters of the list in an address. `values` were understood, as `queries.tasks` takes them; `problems` describe
    what was left out."""

    values: dict[str, Any]
    problems: tuple[str, ...]
    choices: dict[str, list[tuple[str, str]]]

    def form(self) -> filter_bar.FilterForm:
        """Return the form above the list, filled with what was understood."""

        def build_select(name: str, label: str, first: str | None = "Any") -> Any:
            return filter_bar.make_select(label, self.choices[name], first=first)

        fields = {
            "q": filter_bar.make_search("Text", keyed="Search"),
            "environment": filter_bar.make_text("Environment", placeholder="name or id"),
            "category": build_select("category", "Category"),
            "finding": build_select("finding", "Finding"),
            "audit": build_select("audit", "Audit"),
            "fault": build_select("fault", "Audit found", "Anything"),
            "review": build_select("review", "Review"),
            "verifier": build_select("verifier", "Verifier"),
            "variant": build_select("variant", "Variant"),
            "withheld": build_select("withheld", "Withheld"),
            "difficulty": build_select("difficulty", "Solved by"),
            "idle": filter_bar.make_range("Doing nothing scores", "low", "high", ("0", "1"), max=1, step="any"),
            "checks": filter_bar.make_range("Checks", "fewest", "most"),
            "source": build_select("source", "Source"),
            **filter_bar.make_hidden_fields({name: self.values.get(name) for name in ("sort", "leave_out", *LINKED)}),
        }
        pairs = {"idle": ("low", "high"), "checks": ("fewest", "most")}
        ranges = {name: [self.values.get(end) for end in ends] for name, ends in pairs.items()}
        return filter_bar.FilterForm(self.values | ranges, fields)


def read_filters(query: QueryDict) -> TaskFilters:
    """Return the filters that an address names."""
    params, choices = Params(query), _list_choices()
    values = {
        "q": params.search_text("q"),
        "environment": params.search_text("environment"),
        **{
            name: params.choice(name, dict(choices[name]))
            for name in (
                "category",
                "finding",
                "audit",
                "fault",
                "review",
                "verifier",
                "variant",
                "withheld",
                "difficulty",
            )
        },
        **{name: params.decimal(name, 0, 1) for name in ("low", "high")},
        **{name: params.number(name, high=MOST_CHECKS) for name in ("fewest", "most")},
        "source": params.choice("source", dict(choices["source"])),
        "knob": params.choice("knob", KNOB_TITLES),
        **{name: params.decimal(name, 0) for name in ("knob_from", "knob_to")},
        "ten_by": params.text("ten_by", 200),
        "ten": params.number("ten", high=PASS_AT),
        "sort": params.choice("sort", SORTS),
        "ids": list(params.picks("ids")) or None,
        "leave_out": params.text("leave_out", 32, strip=True),
    }
    understood = {name: value for name, value in values.items() if value not in (None, "")}
    return TaskFilters(understood, tuple(params.list_messages(LEFT_OUT)), choices)


def _list_choices() -> dict[str, list[tuple[str, str]]]:
    """Return (value, words) of the choices of each filter that offers some."""
    kinds = [(name, get_finding_kind(name).title) for name in TASK_KINDS if name in KINDS]
    return {
        "category": [(name, name) for name in queries.list_categories()],
        "finding": [("any", "With a finding"), ("none", "Without findings"), *kinds],
        "audit": [*((name, name) for name in AuditState.values), ("none", "not audited")],
        "fault": list(FAULTS.items()),
        "review": [*((name, str(words)) for name, words in ReviewState.choices), (SUPERSEDED, SUPERSEDED)],
        "verifier": list(VERIFIER_TITLES.items()),
        "variant": [*VARIANT_TITLES.items(), ("none", "not made by a batch")],
        "withheld": CHOICES,
        "difficulty": queries.DIFFICULTIES,
        "source": [(name, name) for name in queries.list_sources()],
    }
