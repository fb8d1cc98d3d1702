"""What people say of failing tools. It holds against what a checker said of their cases; both are kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Exists, Max, OuterRef
from django.db.models.fields.json import KeyTextTransform

from webapp.environments.case_groups import group_of
from webapp.environments.models import ToolCase
from webapp.review.decisions import verdict_from
from webapp.review.models import QueueItem, ReviewDecision, ReviewItemState, ReviewKind
from webapp.review.verdicts import verdict_label

TOOL_BUG = "tool_bug"
COUNTS_AS = {
    TOOL_BUG: "fail", "test_bug": "pass", "judge_wrong": "pass", "ambiguous_rule": "warning", "flaky": "warning",
}  # fmt: skip
"""What a case counts as for what a person said of it, in the words of checkers."""
MOST_DECISIONS = 2_000
"""So many of the newest decisions show how often a checker was right."""


@dataclass(frozen=True)
class PersonVerdict:
    """What people settled about a tool; of some groups of its cases they may have said another thing (`groups`)."""

    verdict: str
    groups: dict[str, str]
    people: tuple[str, ...]

    def of_case(self, row: ToolCase) -> str:
        """What people say of a case that did not pass."""
        return self.groups.get(group_of(row), self.verdict)

    def label_of(self, row: ToolCase) -> str:
        return verdict_label(ReviewKind.TOOL, self.of_case(row))

    @property
    def label(self) -> str:
        return verdict_label(ReviewKind.TOOL, self.verdict)


def counts_as(row: ToolCase, said: PersonVerdict | None) -> str:
    """`pass`, `warning` or `fail`: what people made of a case, else what its checker did."""
    if said is None or row.verdict == "pass":
        return row.verdict
    return COUNTS_AS.get(said.of_case(row), row.verdict)


def counted(rows: Iterable[ToolCase], said: PersonVerdict | None) -> Counter[str]:
    """How many cases pass, warn and fail once people have spoken."""
    return Counter(counts_as(row, said) for row in rows)


def person_verdict(tool: int | None) -> PersonVerdict | None:
    """What people settled about a tool; None where nobody has, they disagree, or not all have decided."""
    return person_verdicts([tool]).get(tool) if tool is not None else None


def person_verdicts(tools: Sequence[int]) -> dict[int, PersonVerdict]:
    """What people settled about each of the tools that they did about."""
    rows = ReviewDecision.objects.filter(
        tool__in=tools, undone_at__isnull=True, user__isnull=False, gold_right__isnull=True
    )
    votes: dict[int, list[ReviewDecision]] = defaultdict(list)
    for row in rows.select_related("user").order_by("id"):
        votes[row.tool_id or 0].append(row)
    items = QueueItem.objects.filter(tool__in=votes, gold__isnull=True).exclude(state=ReviewItemState.WITHDRAWN)
    needed = dict(items.values_list("tool").annotate(most=Max("overlap")).order_by())
    found = {}
    for tool, given in votes.items():
        verdict, _ = verdict_from(given, needed.get(tool, 1))
        if verdict:
            found[tool] = _settled(verdict, given)
    return found


def _settled(verdict: str, votes: Sequence[ReviewDecision]) -> PersonVerdict:
    """A group of cases is another thing where everybody whose verdict holds says the same of it."""
    held = [vote for vote in votes if vote.verdict == verdict]
    held = [vote for vote in held if vote.adjudicates] or held
    groups: dict[str, str] = dict(held[0].detail.get("groups", {}))
    for vote in held[1:]:
        theirs = vote.detail.get("groups", {})
        groups = {code: word for code, word in groups.items() if theirs.get(code) == word}
    return PersonVerdict(verdict, groups, tuple(vote.user.username for vote in held if vote.user is not None))


def checker_record(model: str) -> tuple[int, int]:
    """(in how many tools a checker was right, of how many that it failed and people decided on since)."""
    checker = KeyTextTransform("checker", "assessment__roles")
    failed = ToolCase.objects.annotate(checker=checker).filter(
        assessment__version=OuterRef("tool__version"), tool=OuterRef("tool__name"), verdict="fail", checker=model
    )
    rows = ReviewDecision.objects.filter(
        tool__isnull=False, undone_at__isnull=True, user__isnull=False, gold_right__isnull=True
    )
    newest = rows.filter(Exists(failed)).order_by("tool_id", "-id").distinct("tool_id")
    said = list(newest.values_list("verdict", "detail")[:MOST_DECISIONS])
    right = sum(TOOL_BUG in (verdict, *detail.get("groups", {}).values()) for verdict, detail in said)
    return right, len(said)
