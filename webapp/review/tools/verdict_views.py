"""What people said of an environment's tools, as a part of its assessment's page."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.environments.case_groups import GROUPS
from webapp.environments.models import Assessment, Tool, Version
from webapp.htmx import wants_fragment
from webapp.review.models import QueueItem, ReviewItemState, ReviewKind
from webapp.review.queues import open_tool_queue
from webapp.review.tools.person_verdicts import PersonVerdict, counted, person_verdicts
from webapp.review.verdicts import verdict_label


@dataclass(frozen=True)
class ToolLine:
    """A tool that people decided on: its cases by the checker, and by what people said."""

    tool: Tool
    said: PersonVerdict
    groups: list[tuple[str, str]]
    counts: list[tuple[int, int]]
    """(with people's word, by the checker alone) of cases that pass, warn and fail."""
    item: int | None


def tool_lines(version: Version) -> list[ToolLine]:
    """The tools of a version that people decided on, in their order."""
    tools = {tool.pk: tool for tool in version.tools.order_by("position").defer("source", "raw_schema")}
    verdicts = person_verdicts(list(tools))
    newest = Assessment.objects.filter(version=version).order_by("-id").first()
    items = QueueItem.objects.filter(tool__in=verdicts).exclude(state=ReviewItemState.WITHDRAWN)
    item_of = dict(items.order_by("-id").values_list("tool", "pk"))
    found = []
    for pk, tool in tools.items():
        if (said := verdicts.get(pk)) is None:
            continue
        cases = list(newest.cases.filter(tool=tool.name)) if newest is not None else []
        after, before = counted(cases, said), counted(cases, None)
        counts = [(after[word], before[word]) for word in ("pass", "warning", "fail")]
        words = dict(GROUPS)
        groups = [(words.get(code, code), verdict_label(ReviewKind.TOOL, word)) for code, word in said.groups.items()]
        found.append(ToolLine(tool, said, groups, counts, item_of.get(pk)))
    return found


@access("read")
@require_safe
@never_cache
def of_version(request: HttpRequest, pk: int) -> HttpResponse:
    """What people said of a version's tools: a part of its page, or a page of its own."""
    version = get_object_or_404(Version.objects.select_related("environment").defer("record", "source"), pk=pk)
    context = {"version": version, "environment": version.environment, "lines": tool_lines(version)}
    context["tool_queue"] = open_tool_queue()
    part = wants_fragment(request, "tool-verdicts")
    return render(request, f"review/tool_verdicts{'_part' if part else ''}.html", context)
