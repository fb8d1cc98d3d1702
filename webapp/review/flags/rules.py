"""Rules that flag trajectories, as filters of a queue, and the words by which an item says why it is in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Cast, Length
from django.http import QueryDict

from webapp.common.query_params import Params
from webapp.review.models import Remark, RemarkKind
from webapp.scenarios.models import AuditState
from webapp.trajectories.models import ReplayState, Score, Trajectory

WHY_CHARS = 200
PERSON = "person"
FLAG_PARAMETERS = ("flagged", "rule")
FEWEST_OTHERS = 3
"""An attempt is alone in how it ended where at least so many others at the same revision ended the other way."""
EMPTY_JSON = 2
"""The length of `[]`."""


@dataclass(frozen=True)
class FlagRule:
    """A rule by its code in query strings; `label` describes what it flags, `matches` is the filter."""

    code: str
    label: str
    matches: Callable[[], Q]


def _match_newest_score(**wanted: object) -> Q:
    """Return the filter of trajectories whose newest score by the site matches."""
    newer = Score.objects.filter(trajectory=OuterRef("trajectory"), pk__gt=OuterRef("pk")).exclude(source="recorded")
    rows = Score.objects.filter(trajectory=OuterRef("pk")).exclude(source="recorded").exclude(Exists(newer))
    rows = rows.annotate(changed=Length(Cast("outside", CharField())))
    return Q(Exists(rows.filter(**wanted)))


def _match_lone_outcome(outcome: str, other: str) -> Q:
    """Return the filter of trajectories with this outcome, while the others at the same revision all have the other
    one."""
    other_runs = Trajectory.objects.filter(revision=OuterRef("revision"), live=False).exclude(pk=OuterRef("pk"))
    alike = other_runs.filter(outcome=outcome)
    enough = other_runs.filter(outcome=other).order_by("pk").values("pk")[FEWEST_OTHERS - 1 : FEWEST_OTHERS]
    return Q(outcome=outcome) & Q(Exists(enough)) & ~Q(Exists(alike))


RULES: tuple[FlagRule, ...] = (
    FlagRule(
        "reward_differs", "its reward is not the recorded one", lambda: Q(replay=ReplayState.DIVERGED)
    ),
    FlagRule("not_replayed", "its calls could not be replayed", lambda: Q(replay=ReplayState.FAILED)),
    FlagRule("unasked", "it made unrequested changes", lambda: _match_newest_score(changed__gt=EMPTY_JSON)),
    FlagRule(
        "solved_on_red", "it solved a task whose audit is red",
        lambda: Q(outcome="solved", task__audit_state=AuditState.RED),
    ),
    FlagRule(
        "earlier_solved", "it solved an earlier revision of its task",
        lambda: Q(outcome="solved") & ~Q(revision=F("task__current")),
    ),
    FlagRule("lone_success", "it alone solved its task", lambda: _match_lone_outcome("solved", "failed")),
    FlagRule("lone_failure", "it alone failed its task", lambda: _match_lone_outcome("failed", "solved")),
    FlagRule("program_error", "the environment's program ended it", lambda: Q(outcome="program_error")),
    FlagRule("user_error", "the simulated user gave nothing usable", lambda: Q(user_error=True)),
    FlagRule("user_fault", "a judge found that the simulated user erred", lambda: Q(user_fault="fault")),
)  # fmt: skip
FLAGS: tuple[tuple[str, str], ...] = (
    (PERSON, "a person put a flag on it"),
    *((rule.code, rule.label) for rule in RULES),
)
"""What a queue can ask for, as its form offers it."""


def read_flags(query: QueryDict) -> tuple[str, ...]:
    """Return the flags that a queue's filters name: `flagged=1` is a person's, `rule=...` those of rules."""
    labels = dict(FLAGS)
    person = (PERSON,) if Params(query).flag("flagged") else ()
    return person + tuple(dict.fromkeys(code for code in query.getlist("rule") if code in labels and code != PERSON))


def format_flags(flags: Iterable[str]) -> str:
    """Return the flags as part of a query string."""
    return "&".join("flagged=1" if code == PERSON else f"rule={code}" for code in flags)


def remove_flags(query: str) -> str:
    """Return the other filters of a query string."""
    parameters = QueryDict(query, mutable=True)
    for name in FLAG_PARAMETERS:
        parameters.pop(name, None)
    return parameters.urlencode(safe="/,")


def filter_flagged(rows: QuerySet[Trajectory], flags: Iterable[str]) -> QuerySet[Trajectory]:
    """Return the trajectories that have at least one of these flags; all of them if none is named."""
    wanted_codes = set(flags)
    if not wanted_codes:
        return rows
    matching = Q(pk__in=())
    for rule in RULES:
        if rule.code in wanted_codes:
            matching |= rule.matches()
    if PERSON in wanted_codes:
        matching |= Q(Exists(_open_flags().filter(trajectory=OuterRef("pk"))))
    return rows.filter(matching)


def _open_flags() -> QuerySet[Remark]:
    return Remark.objects.filter(remark=RemarkKind.FLAG, resolved_at__isnull=True)


def describe_flags(keys: list[int], flags: Iterable[str]) -> dict[int, str]:
    """Return the flags of each of these trajectories, in words."""
    words_by_key: dict[int, list[str]] = {}
    wanted_codes = set(flags)
    if PERSON in wanted_codes:
        for trajectory, name, text in (
            _open_flags()
            .filter(trajectory__in=keys)
            .order_by("id")
            .values_list("trajectory_id", "user__username", "text")
        ):
            words_by_key.setdefault(trajectory, []).append(f"{name}: {text[:80]}")
    for rule in RULES:
        if rule.code in wanted_codes:
            for key in Trajectory.objects.filter(rule.matches(), pk__in=keys).values_list("pk", flat=True):
                words_by_key.setdefault(key, []).append(rule.label)
    return {key: "; ".join(words)[:WHY_CHARS] for key, words in words_by_key.items()}
