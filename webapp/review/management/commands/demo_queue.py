from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webapp.common.templatetags.show import counted
from webapp.review.queues import get_or_create_starter_queue, get_or_create_tool_queue


class Command(BaseCommand):
    help = "Make the review queues of the bundled starter tasks and of failing tools. Existing ones do not change."

    def handle(self, *args: Any, **options: Any) -> None:
        for queue, new in (get_or_create_starter_queue(), get_or_create_tool_queue()):
            items, outcome = counted(queue.item_count, "item"), "is made" if new else "exists already"
            self.stdout.write(f"The queue “{queue.name}” {outcome}: {items}.")
