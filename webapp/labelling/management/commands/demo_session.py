from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webapp.common.templatetags.show import counted
from webapp.labelling.sessions import ensure_starter_session


class Command(BaseCommand):
    help = "Open a labelling session on the bundled starter environments. If it exists already, nothing changes."

    def handle(self, *args: Any, **options: Any) -> None:
        session, new = ensure_starter_session()
        self.stdout.write(
            f"The session “{session.name}” {'is open' if new else 'was there'}: {counted(session.item_count, 'item')}."
        )
