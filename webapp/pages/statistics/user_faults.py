"""Faults of simulated users that judges found, by policy and user, and how often people agree.

A policy may gain by leading its user into mistakes, since such attempts are masked in RL; and a judge may be wrong.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.fields.json import KT

from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.review.models import ReviewDecision

MOST_ROWS = 20
ERRED = "user_simulation"
"""The reason by which a person who decides on an attempt says that its simulated user erred."""


@dataclass(frozen=True)
class UserFaultCount:
    """Judged conversations of a policy with a user (its prompt and model, empty if that is not recorded).

    People decided on `decided` of the `faults` that the judge found, and named the user's error in `agreed`; in
    `missed` they named it in conversations without a fault.
    """

    policy: str
    user: str
    url: str
    judged: int
    faults: int
    unknown: int
    decided: int
    agreed: int
    missed: int

    @property
    def share(self) -> float | None:
        """The share of conversations with a verdict in which the judge found a fault."""
        decided_count = self.judged - self.unknown
        return self.faults / decided_count if decided_count else None

    @property
    def precision(self) -> float | None:
        """The share of the decided faults in which people saw one too."""
        return self.agreed / self.decided if self.decided else None


@dataclass(frozen=True)
class UserFaultTable:
    rows: list[UserFaultCount]
    total: UserFaultCount
    more: int


def count_user_faults(scope: AttemptScope) -> UserFaultTable | None:
    """Return the counts by policy and user, the most judged first; None if no user was judged."""
    numbers_by_user = defaultdict[tuple[str, str], list[int]](lambda: [0] * 6)
    decisions = ReviewDecision.objects.filter(trajectory=OuterRef("pk"), user__isnull=False, undone_at__isnull=True)
    is_user_error = Exists(decisions.filter(reasons__contains=[ERRED]))
    fault = Q(user_fault="fault")
    judged_attempts = (
        scope.attempts()
        .exclude(user_fault="")
        .annotate(user=KT("provenance__user"), is_decided=Exists(decisions), is_marked=is_user_error)
    )
    counts = judged_attempts.values_list("policy", "user").annotate(
        Count("pk"),
        faults=Count("pk", filter=fault),
        unknown=Count("pk", filter=Q(user_fault="unknown")),
        decided=Count("pk", filter=fault & Q(is_decided=True)),
        agreed=Count("pk", filter=fault & Q(is_marked=True)),
        missed=Count("pk", filter=Q(user_fault="none", is_marked=True)),
    )
    for policy, user, *numbers in counts:
        numbers_by_user[policy, user or ""] = numbers
    if not numbers_by_user:
        return None
    rows = [
        UserFaultCount(policy, user, scope.build_attempts_url(made_by=policy, user_fault="fault"), *numbers)
        for (policy, user), numbers in sorted(numbers_by_user.items(), key=lambda item: (-item[1][0], item[0]))
    ]
    sums = [sum(column) for column in zip(*numbers_by_user.values(), strict=True)]
    total = UserFaultCount("", "", scope.build_attempts_url(user_fault="fault"), *sums)
    return UserFaultTable(rows[:MOST_ROWS], total, len(rows) - len(rows[:MOST_ROWS]))
