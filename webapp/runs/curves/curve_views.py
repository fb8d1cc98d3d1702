"""Pages' downloads of curves: the charts that the address names, as CSV or PNG."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.errors import RefusedFields
from webapp.query_params import Params
from webapp.runs.curves import files
from webapp.runs.curves.charts import choice_of
from webapp.runs.curves.curve_responses import csv_response, png_response
from webapp.runs.job_views import find


@access("read")
@require_safe
@never_cache
def csv_file(request: HttpRequest, job: str) -> HttpResponse:
    """The numbers of the charts that `?chart=` names; without it those of whole steps."""
    row, names = find(job), Params(request.GET).texts("chart")
    try:
        return csv_response(row, files.make_csv(row, names, choice_of(request.GET)), names)
    except RefusedFields as error:
        raise Http404(str(error)) from error


@access("read")
@require_safe
@never_cache
def png_file(request: HttpRequest, job: str) -> HttpResponse:
    """The charts that `?chart=` names as an image; without it all of the job."""
    row, names = find(job), Params(request.GET).texts("chart")
    try:
        return png_response(row, files.make_png(row, names, choice_of(request.GET)), names)
    except RefusedFields as error:
        raise Http404(str(error)) from error
