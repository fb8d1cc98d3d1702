"""A batch that fills a gap of the tree: the form of a new batch, with rows of a label chosen in it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.environments.models import Environment
from webapp.taxonomy.coverage import FEW_TASKS
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.queries import select_subtree

MOST = 20
"""Number of environments, those with the fewest tasks, that are asked for more at once."""


@require_scope("synthesise")
@require_safe
def redirect_to_gap_form(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect to the form of a new batch that adds what a label lacks."""
    node = find_present_node(pk)
    if node is None:
        raise Http404("There is no such label.")
    return redirect(f"{reverse('batches:new')}?{urlencode(choose_gap_fill(node), doseq=True)}")


def choose_gap_fill(node: Node) -> dict[str, Any]:
    """Return the parameters of the form: environments with few tasks, else waiting themes, else a theme to be typed."""
    environments = Environment.objects.filter(node__in=select_subtree(node), current__isnull=False)
    thin = (
        environments.filter(task_count__lt=FEW_TASKS).order_by("task_count", "pk").values_list("pk", flat=True)[:MOST]
    )
    if thin:
        return {"environments_ids": list(thin)}
    if Theme.objects.filter(node__in=select_subtree(node), folded_into=None).exists():
        return {"use_themes": 1, "themes_node": node.pk}
    return {"typed_category": node.name}
