"""Rules that flag trajectories, as filters of a queue, and the words in which an item says why it stands there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Cast, Length
from django.http import QueryDict

from webapp.query_params import Params
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
    """A rule by its code in addresses; `label` says what it flags, `matches` is the filter."""

    code: str
    label: str
    matches: Callable[[], Q]


def _newest_score(**wanted: object) -> Q:
    """Trajectories whose newest score of the site is like this."""
    newer = Score.objects.filter(trajectory=OuterRef("trajectory"), pk__gt=OuterRef("pk")).exclude(source="recorded")
    rows = Score.objects.filter(trajectory=OuterRef("pk")).exclude(source="recorded").exclude(Exists(newer))
    rows = rows.annotate(changed=Length(Cast("outside", CharField())))
    return Q(Exists(rows.filter(**wanted)))


def _alone(outcome: str, other: str) -> Q:
    """Trajectories that ended so, while the others at the same revision all ended the other way."""
    beside = Trajectory.objects.filter(revision=OuterRef("revision"), live=False).exclude(pk=OuterRef("pk"))
    alike = beside.filter(outcome=outcome)
    enough = beside.filter(outcome=other).order_by("pk").values("pk")[FEWEST_OTHERS - 1 : FEWEST_OTHERS]
    return Q(outcome=outcome) & Q(Exists(enough)) & ~Q(Exists(alike))


RULES: tuple[FlagRule, ...] = (
    FlagRule(
        "reward_differs", "its reward is not the recorded one", lambda: Q(replay=ReplayState.DIVERGED)
    ),
    FlagRule("not_replayed", "its calls could not be replayed", lambda: Q(replay=ReplayState.FAILED)),
    FlagRule("unasked", "it changed what nobody asked for", lambda: _newest_score(changed__gt=EMPTY_JSON)),
    FlagRule(
        "solved_on_red", "it solved a task whose audit is red",
        lambda: Q(outcome="solved", task__audit_state=AuditState.RED),
    ),
    FlagRule(
        "earlier_solved", "it solved an earlier revision of its task",
        lambda: Q(outcome="solved") & ~Q(revision=F("task__current")),
    ),
    FlagRule("lone_success", "it alone solved its task", lambda: _alone("solved", "failed")),
    FlagRule("lone_failure", "it alone failed its task", lambda: _alone("failed", "solved")),
    FlagRule("program_error", "the environment's program ended it", lambda: Q(outcome="program_error")),
    FlagRule("user_error", "the simulated user gave nothing usable", lambda: Q(user_error=True)),
    FlagRule("user_fault", "a judge found that the simulated user erred", lambda: Q(user_fault="fault")),
)  # fmt: skip
FLAGS: tuple[tuple[str, str], ...] = (
    (PERSON, "a person put a flag on it"),
    *((rule.code, rule.label) for rule in RULES),
)
"""What a queue can ask for, as its form offers it."""


def flags_of(query: QueryDict) -> tuple[str, ...]:
    """The flags that a queue's filters name: `flagged=1` is a person's, `rule=...` those of rules."""
    known = dict(FLAGS)
    person = (PERSON,) if Params(query).flag("flagged") else ()
    return person + tuple(dict.fromkeys(code for code in query.getlist("rule") if code in known and code != PERSON))


def spelled(flags: Iterable[str]) -> str:
    """The same, as part of an address."""
    return "&".join("flagged=1" if code == PERSON else f"rule={code}" for code in flags)


def without_flags(query: str) -> str:
    """The other filters of an address."""
    given = QueryDict(query, mutable=True)
    for name in FLAG_PARAMETERS:
        given.pop(name, None)
    return given.urlencode(safe="/,")


def flagged(rows: QuerySet[Trajectory], flags: Iterable[str]) -> QuerySet[Trajectory]:
    """The trajectories that have at least one of these flags; all of them where none is named."""
    wanted = set(flags)
    if not wanted:
        return rows
    matching = Q(pk__in=())
    for rule in RULES:
        if rule.code in wanted:
            matching |= rule.matches()
    if PERSON in wanted:
        matching |= Q(Exists(_raised().filter(trajectory=OuterRef("pk"))))
    return rows.filter(matching)


def _raised() -> QuerySet[Remark]:
    return Remark.objects.filter(remark=RemarkKind.FLAG, resolved_at__isnull=True)


def flag_words(keys: list[int], flags: Iterable[str]) -> dict[int, str]:
    """Which of the flags each of these trajectories has, in words."""
    said: dict[int, list[str]] = {}
    wanted = set(flags)
    if PERSON in wanted:
        for trajectory, name, text in (
            _raised().filter(trajectory__in=keys).order_by("id").values_list("trajectory_id", "user__username", "text")
        ):
            said.setdefault(trajectory, []).append(f"{name}: {text[:80]}")
    for rule in RULES:
        if rule.code in wanted:
            for key in Trajectory.objects.filter(rule.matches(), pk__in=keys).values_list("pk", flat=True):
                said.setdefault(key, []).append(rule.label)
    return {key: "; ".join(words)[:WHY_CHARS] for key, words in said.items()}
