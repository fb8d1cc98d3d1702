"""Topics of training jobs and workers, published at most twice a second each.

Of several changes within that time the last one is always published.
"""

from __future__ import annotations

from webapp.common.events.throttle import Throttle

throttle = Throttle(0.5)


def publish_topics(*topics: str) -> None:
    """Publish these topics after the commit."""
    throttle.tell(*topics)


def publish_job(pk: int, *, listed: bool = False) -> None:
    """Publish a change of a job; `listed`: something that lists of jobs show has changed too."""
    publish_topics(f"training:{pk}", *(["training-jobs"] if listed else []))
