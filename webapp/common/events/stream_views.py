"""View of the event stream."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.events.stream import stream_events
from webapp.common.query_params import LARGEST_ID, Params, parse_whole_number

TOPIC = re.compile(r"(?:trajectory|job|batch|training):[0-9]{1,18}|training-jobs|training-workers")
MOST_TOPICS = 60


@require_scope("read")
@require_safe
def stream_changes(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Stream the changes of `?topic=` as they happen, from `Last-Event-ID` (or `?after=`) on."""
    topics = frozenset(Params(request.GET).texts("topic"))
    if not topics or len(topics) > MOST_TOPICS or not all(map(TOPIC.fullmatch, topics)):
        return HttpResponse(
            f"Name 1 to {MOST_TOPICS} topics, such as ?topic=job:1", status=400, content_type="text/plain"
        )
    after = request.headers.get("Last-Event-ID") or Params(request.GET).text("after")
    number = parse_whole_number(after, high=LARGEST_ID)
    body = stream_events(int(request.user.pk or 0), request.session.session_key or "", topics, number)
    response = StreamingHttpResponse(body, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response
