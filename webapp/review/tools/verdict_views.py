"""Verdicts of people on an environment's tools, as a part of its assessment's page."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.environments.case_groups import GROUPS
from webapp.environments.models import Assessment, Tool, Version
from webapp.review.models import QueueItem, ReviewItemState, ReviewKind
from webapp.review.queues import find_open_tool_queue
from webapp.review.tools.person_verdicts import PersonVerdict, count_cases, find_person_verdicts
from webapp.review.verdicts import get_verdict_label


@dataclass(frozen=True)
class ToolLine:
    """A tool with decisions of people: its cases by the checker, and by people."""

    tool: Tool
    said: PersonVerdict
    groups: list[tuple[str, str]]
    counts: list[tuple[int, int]]
    """(with people's word, by the checker alone) of cases that pass, warn and fail."""
    item: int | None


def list_judged_tools(version: Version) -> list[ToolLine]:
    """Return the tools of a version that people decided on, in their order."""
    tools = {tool.pk: tool for tool in version.tools.order_by("position").defer("source", "raw_schema")}
    verdicts = find_person_verdicts(list(tools))
    newest = Assessment.objects.filter(version=version).order_by("-id").first()
    items = QueueItem.objects.filter(tool__in=verdicts).exclude(state=ReviewItemState.WITHDRAWN)
    item_of = dict(items.order_by("-id").values_list("tool", "pk"))
    judged_tools = []
    for pk, tool in tools.items():
        if (verdict := verdicts.get(pk)) is None:
            continue
        cases = list(newest.cases.filter(tool=tool.name)) if newest is not None else []
        after, before = count_cases(cases, verdict), count_cases(cases, None)
        counts = [(after[word], before[word]) for word in ("pass", "warning", "fail")]
        words = dict(GROUPS)
        groups = [
            (words.get(code, code), get_verdict_label(ReviewKind.TOOL, word)) for code, word in verdict.groups.items()
        ]
        judged_tools.append(ToolLine(tool, verdict, groups, counts, item_of.get(pk)))
    return judged_tools


@require_scope("read")
@require_safe
@never_cache
def show_tool_verdicts(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the verdicts of people on a version's tools: a part of its page, or a page of its own."""
    version = get_object_or_404(Version.objects.select_related("environment").defer("record", "source"), pk=pk)
    context = {"version": version, "environment": version.environment, "lines": list_judged_tools(version)}
    context["tool_queue"] = find_open_tool_queue()
    if wants_fragment(request, "tool-verdicts"):
        return render_fragment(request, "review/tool_verdicts.html", context)
    return render(request, "review/tool_verdicts.html", context)
