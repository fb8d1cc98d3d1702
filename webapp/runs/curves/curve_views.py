"""Downloads of curves from pages: the charts that the address names, as CSV or PNG."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.errors import RefusedFields
from webapp.common.query_params import Params
from webapp.runs.curves import files
from webapp.runs.curves.charts import parse_choice
from webapp.runs.curves.curve_responses import build_csv_response, build_png_response
from webapp.runs.job_views import get_job_or_404


@require_scope("read")
@require_safe
@never_cache
def download_csv(request: HttpRequest, job: str) -> HttpResponse:
    """Return the numbers of the charts that `?chart=` names; without it those of whole steps."""
    row, names = get_job_or_404(job), Params(request.GET).texts("chart")
    try:
        return build_csv_response(row, files.make_csv(row, names, parse_choice(request.GET)), names)
    except RefusedFields as error:
        raise Http404(str(error)) from error


@require_scope("read")
@require_safe
@never_cache
def download_png(request: HttpRequest, job: str) -> HttpResponse:
    """Return the charts that `?chart=` names as an image; without it all of the job."""
    row, names = get_job_or_404(job), Params(request.GET).texts("chart")
    try:
        return build_png_response(row, files.make_png(row, names, parse_choice(request.GET)), names)
    except RefusedFields as error:
        raise Http404(str(error)) from error
