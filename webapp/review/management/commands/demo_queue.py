from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webapp.review.queues import starter_queue


class Command(BaseCommand):
    help = "Make the review queue of the bundled starter tasks. Where it is there already, nothing changes."

    def handle(self, *args: Any, **options: Any) -> None:
        queue, new = starter_queue()
        self.stdout.write(f"The queue “{queue.name}” {'is made' if new else 'was there'}: {queue.item_count} items.")
