"""A batch that fills a gap of the tree: the form of a new one, with what hangs on a label chosen in it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.environments.models import Environment
from webapp.taxonomy.coverage import FEW_TASKS
from webapp.taxonomy.former import present_node
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.queries import subtree

MOST = 20
"""So many environments, those with the fewest tasks, are asked for more at once."""


@access("synthesise")
@require_safe
def for_node(request: HttpRequest, pk: int) -> HttpResponse:
    """To the form of a new batch that adds what a label lacks."""
    node = present_node(pk)
    if node is None:
        raise Http404("There is no such label.")
    return redirect(f"{reverse('batches:new')}?{urlencode(what_fills(node), doseq=True)}")


def what_fills(node: Node) -> dict[str, Any]:
    """The parameters of the form: environments with few tasks, else themes that wait there, else one to be typed."""
    here = Environment.objects.filter(node__in=subtree(node), current__isnull=False)
    thin = here.filter(task_count__lt=FEW_TASKS).order_by("task_count", "pk").values_list("pk", flat=True)[:MOST]
    if thin:
        return {"environments_ids": list(thin)}
    if Theme.objects.filter(node__in=subtree(node), folded_into=None).exists():
        return {"use_themes": 1, "themes_node": node.pk}
    return {"typed_category": node.name}
