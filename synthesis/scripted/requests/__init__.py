"""Requests of scripted tasks of the variant `autoforge`, by theme.

A request is a short errand with the tools that it takes, in order. Walks on a theme's graph of tools (`EDGES`) lead
along them; the author prunes a merge to the requests that it finds in it, and the teacher recognises them in words.
"""

from synthesis.scripted.requests import archive_boxes, bike_share
from synthesis.scripted.requests.request import Edges, Request

REQUESTS: dict[str, tuple[Request, ...]] = {
    "archive-boxes": archive_boxes.REQUESTS,
    "bike-share": bike_share.REQUESTS,
}
EDGES: dict[str, Edges] = {
    "archive-boxes": archive_boxes.EDGES,
    "bike-share": bike_share.EDGES,
}
"""By source tool, the (tool, parameter) pairs that its outputs go into."""

__all__ = ["EDGES", "REQUESTS", "Request"]
