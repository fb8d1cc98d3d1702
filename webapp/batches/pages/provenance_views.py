"""View of the provenance of an environment, scenario, task or trajectory: a part of its page."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.batches.models import BatchItem, BatchProduct
from webapp.batches.spec import SCRIPTED
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.query_params import Params
from webapp.trajectories.models import Trajectory

KINDS = {"environment": "theme", "scenario": "scenario", "task": "task", "trajectory": "trajectory"}
"""What an address may name, with the level of the items that become one."""
OTHERS = 20


@require_scope("read")
@require_safe
def show_provenance(request: HttpRequest) -> HttpResponse:
    """Show the provenance of `?environment=`, `?scenario=`, `?task=` or `?trajectory=`. As a part it is empty for
    things that no batch made."""
    params = Params(request.GET)
    kind = next((name for name in KINDS if params.text(name)), "")
    pk = params.id(kind)
    if pk is None:
        raise Http404("Name an environment, a scenario, a task or a trajectory by its number.")
    context = {"kind": kind, "pk": pk} | _build_provenance_context(kind, pk)
    if wants_fragment(request, "made"):
        return render_fragment(request, "batches/made.html", context)
    return render(request, "batches/made.html", context)


def _build_rejected_product(pk: int) -> list[BatchProduct]:
    """Return an unsaved product of the item that made this attempt, as if the attempt were its product."""
    items = BatchItem.objects.filter(Q(attempt=pk) | Q(attempts__trajectory=pk)).order_by("id")
    item = items.select_related("batch").defer("spec", "batch__settings").first()
    about = Trajectory.objects.filter(pk=pk).values_list("provenance", flat=True).first()
    return [] if item is None else [BatchProduct(item=item, trajectory_id=pk, provenance=about or {})]


def _build_provenance_context(kind: str, pk: int) -> dict[str, Any]:
    """Return the provenance by the item that made the thing first; items with the same result are listed beside it."""
    rows = BatchProduct.objects.filter(**{kind: pk}, item__level=KINDS[kind]).select_related("item__batch")
    products = list(rows.defer("item__spec", "item__batch__settings").order_by("id")[: OTHERS + 1])
    if not products and kind == "trajectory":
        products = _build_rejected_product(pk)
    if not products:
        return {"product": None}
    about = products[0].provenance
    models = list((about.get("models") or {}).items())
    return {
        "product": products[0],
        "about": about,
        "models": models,
        "prompts": list((about.get("prompts") or {}).items()),
        "seeds": list((about.get("seeds") or {}).items()),
        "stages": list((about.get("stages") or {}).items()),
        "scripted": any(model == SCRIPTED for _, model in models),
        "others": products[1:],
    }
