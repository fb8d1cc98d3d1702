from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webapp.review.queues import failing_tools_queue, starter_queue
from webapp.templatetags.show import counted


class Command(BaseCommand):
    help = "Make the review queues of the bundled starter tasks and of failing tools. Existing ones do not change."

    def handle(self, *args: Any, **options: Any) -> None:
        for queue, new in (starter_queue(), failing_tools_queue()):
            items, made = counted(queue.item_count, "item"), "is made" if new else "exists already"
            self.stdout.write(f"The queue “{queue.name}” {made}: {items}.")
