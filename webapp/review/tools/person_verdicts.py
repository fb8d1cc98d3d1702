"""Verdicts of people on failing tools. They override a checker's verdicts on the cases; both are kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Exists, Max, OuterRef
from django.db.models.fields.json import KeyTextTransform

from webapp.environments.case_groups import get_case_group
from webapp.environments.models import ToolCase
from webapp.review.decisions import combine_votes
from webapp.review.models import QueueItem, ReviewDecision, ReviewItemState, ReviewKind
from webapp.review.verdicts import get_verdict_label

TOOL_BUG = "tool_bug"
COUNTS_AS = {
    TOOL_BUG: "fail", "test_bug": "pass", "judge_wrong": "pass", "ambiguous_rule": "warning", "flaky": "warning",
}  # fmt: skip
"""What a case counts as for what a person said of it, in the words of checkers."""
MOST_DECISIONS = 2_000
"""Number of newest decisions that show how often a checker was right."""


@dataclass(frozen=True)
class PersonVerdict:
    """The verdict that people settled on a tool; on some groups of its cases they may have another one (`groups`)."""

    verdict: str
    groups: dict[str, str]
    people: tuple[str, ...]

    def of_case(self, row: ToolCase) -> str:
        """Return the verdict of people on a case that did not pass."""
        return self.groups.get(get_case_group(row), self.verdict)

    def get_case_label(self, row: ToolCase) -> str:
        return get_verdict_label(ReviewKind.TOOL, self.of_case(row))

    @property
    def label(self) -> str:
        return get_verdict_label(ReviewKind.TOOL, self.verdict)


def classify_case(row: ToolCase, said: PersonVerdict | None) -> str:
    """Return `pass`, `warning` or `fail`: by the verdict of people on a case, else by that of its checker."""
    if said is None or row.verdict == "pass":
        return row.verdict
    return COUNTS_AS.get(said.of_case(row), row.verdict)


def count_cases(rows: Iterable[ToolCase], said: PersonVerdict | None) -> Counter[str]:
    """Count the cases that pass, warn and fail once people have decided."""
    return Counter(classify_case(row, said) for row in rows)


def find_person_verdict(tool: int | None) -> PersonVerdict | None:
    """Return the verdict that people settled on a tool; None if no person has, they disagree, or not all have
    decided."""
    return find_person_verdicts([tool]).get(tool) if tool is not None else None


def find_person_verdicts(tools: Sequence[int]) -> dict[int, PersonVerdict]:
    """Return the verdicts that people settled, by tool."""
    rows = ReviewDecision.objects.filter(
        tool__in=tools, undone_at__isnull=True, user__isnull=False, gold_right__isnull=True
    )
    votes: dict[int, list[ReviewDecision]] = defaultdict(list)
    for row in rows.select_related("user").order_by("id"):
        votes[row.tool_id or 0].append(row)
    items = QueueItem.objects.filter(tool__in=votes, gold__isnull=True).exclude(state=ReviewItemState.WITHDRAWN)
    needed = dict(items.values_list("tool").annotate(most=Max("overlap")).order_by())
    settled = {}
    for tool, decisions in votes.items():
        verdict, _ = combine_votes(decisions, needed.get(tool, 1))
        if verdict:
            settled[tool] = _build_person_verdict(verdict, decisions)
    return settled


def _build_person_verdict(verdict: str, votes: Sequence[ReviewDecision]) -> PersonVerdict:
    """Return the settled verdict; a group of cases has another one if all people whose verdict is valid agree on it."""
    held = [vote for vote in votes if vote.verdict == verdict]
    held = [vote for vote in held if vote.adjudicates] or held
    groups: dict[str, str] = dict(held[0].detail.get("groups", {}))
    for vote in held[1:]:
        other_groups = vote.detail.get("groups", {})
        groups = {code: word for code, word in groups.items() if other_groups.get(code) == word}
    return PersonVerdict(verdict, groups, tuple(vote.user.username for vote in held if vote.user is not None))


def count_checker_record(model: str) -> tuple[int, int]:
    """Return (number of tools in which a checker was right, number that it failed and people decided on since)."""
    checker = KeyTextTransform("checker", "assessment__roles")
    failed = ToolCase.objects.annotate(checker=checker).filter(
        assessment__version=OuterRef("tool__version"), tool=OuterRef("tool__name"), verdict="fail", checker=model
    )
    rows = ReviewDecision.objects.filter(
        tool__isnull=False, undone_at__isnull=True, user__isnull=False, gold_right__isnull=True
    )
    newest = rows.filter(Exists(failed)).order_by("tool_id", "-id").distinct("tool_id")
    verdict_rows = list(newest.values_list("verdict", "detail")[:MOST_DECISIONS])
    right = sum(TOOL_BUG in (verdict, *detail.get("groups", {}).values()) for verdict, detail in verdict_rows)
    return right, len(verdict_rows)
