"""Progress of a session: answers by item and by person, current holds, what is stuck, and known answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db.models import Count, F, Sum
from django.utils import timezone

from webapp.common.leases import AssignmentState
from webapp.common.templatetags.show import counted
from webapp.labelling.models import Ask, Label, LabelRound, LabelSession, Reservation


@dataclass(frozen=True)
class LabellerLine:
    """A person in a round. `right` of `known` are their correct answers to items whose answer is known."""

    name: str
    labels: int
    held: int
    skipped: int
    seconds: float | None
    """Median of what they took for a label."""
    right: int = 0
    known: int = 0


@dataclass(frozen=True)
class RoundProgress:
    """A round in numbers; items with a known answer are in none of them."""

    round: LabelRound
    items: int
    answers: int
    """Labels that were submitted."""
    needed: int
    complete: int
    held: int
    by_count: tuple[tuple[int, int], ...]
    """(answers, how many items have so many)."""
    stuck: tuple[str, ...]
    people: tuple[LabellerLine, ...]

    @property
    def share(self) -> int:
        return round(100 * self.answers / self.needed) if self.needed else 0


def compute_round_progress(session: LabelSession, found: LabelRound, *, known_answers: bool = False) -> RoundProgress:
    """Return a round in numbers; with `known_answers` also the results of people on those."""
    asks = Ask.objects.filter(round=found, item__gold__isnull=True)
    sums = asks.aggregate(items=Count("pk"), needed=Sum("overlap"))
    standing = Label.objects.filter(round=found, undone_at__isnull=True, user__isnull=False)
    counted = dict(standing.filter(item__gold__isnull=True).values_list("ask").annotate(n=Count("pk")).order_by())
    items, needed = sums["items"] or 0, sums["needed"] or 0
    by_count = Counter(counted.values())
    by_count[0] = items - len(counted)
    now = timezone.now()
    open_holds = Reservation.objects.filter(round=found, state=AssignmentState.HELD, expires_at__gt=now)
    return RoundProgress(
        round=found,
        items=items,
        answers=sum(counted.values()),
        needed=needed,
        complete=sum(number for count, number in by_count.items() if count >= session.overlap),
        held=open_holds.count() if found.is_open else 0,
        by_count=tuple(sorted((count, number) for count, number in by_count.items() if number)),
        stuck=_list_stuck_reasons(session, found, asks) if found.is_open else (),
        people=_build_labeller_lines(found, standing, known_answers=known_answers),
    )


def _list_stuck_reasons(session: LabelSession, found: LabelRound, asks: Any) -> tuple[str, ...]:
    """Return the reasons why the round may not end by itself, in words."""
    words = []
    free = asks.filter(free__gt=0)
    members = session.members.count()
    skips = Reservation.objects.filter(round=found, state=AssignmentState.SKIPPED)
    if members:
        skipped_asks = skips.filter(ask__free__gt=0).values("ask").annotate(n=Count("user", distinct=True))
        lost = skipped_asks.filter(n__gt=members - F("ask__overlap")).count()
        if lost:
            words.append(
                f"Too many of the {members} people skipped {counted(lost, 'item')}, which cannot be completed."
            )
    ended = Reservation.objects.filter(round=found, state=AssignmentState.HELD, expires_at__lt=timezone.now()).count()
    if ended:
        words.append(f"{counted(ended, 'reservation')} ended; the next person who asks for an item gets one of those.")
    if not free.exists() and not Reservation.objects.filter(round=found, state=AssignmentState.HELD).exists():
        words.append("Every item has its answers: close the round.")
    return tuple(words)


def _build_labeller_lines(found: LabelRound, standing: Any, *, known_answers: bool) -> tuple[LabellerLine, ...]:
    rows = standing.values_list("user__username", "seconds", "gold_right")
    answers_by_name: dict[str, list[tuple[float | None, bool | None]]] = {}
    for name, seconds, right in rows:
        answers_by_name.setdefault(name, []).append((seconds, right))
    states = Counter(
        Reservation.objects.filter(round=found, state__in=(AssignmentState.HELD, AssignmentState.SKIPPED)).values_list(
            "user__username", "state"
        )
    )
    lines = []
    for name in sorted({*answers_by_name, *(name for name, _ in states)}):
        own_answers = answers_by_name.get(name, [])
        times = [seconds for seconds, _ in own_answers if seconds]
        gold_answers = [right for _, right in own_answers if right is not None] if known_answers else []
        lines.append(
            LabellerLine(
                name, len(own_answers), states[name, AssignmentState.HELD], states[name, AssignmentState.SKIPPED],
                median(times) if times else None, sum(gold_answers), len(gold_answers),
            )
        )  # fmt: skip
    return tuple(lines)


def count_other_answers(ask: Ask) -> int:
    """Count others' answers of an item as its page shows them: of a known answer no more than of any other item."""
    count = ask.labels.filter(undone_at__isnull=True, user__isnull=False).count()
    return min(count, ask.session.overlap - 1)
