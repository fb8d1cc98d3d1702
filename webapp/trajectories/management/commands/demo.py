from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from synthesis.errors import EnvariumError
from synthesis.runtime import get_default_sandbox
from synthesis.starter import SOURCE
from webapp.scenarios.audits.services import start_filter_audit
from webapp.trajectories.starter_set import load_demo


class Command(BaseCommand):
    help = (
        "Load the bundled starter environments, tasks and runs, and queue an audit of what is new. "
        "Loading again changes nothing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            load_result = load_demo(get_default_sandbox())
            if load_result.new["tasks"]:
                start_filter_audit(None, {"source": SOURCE})
        except EnvariumError as error:
            raise CommandError(f"The starter set could not be loaded: {error}") from error
        self.stdout.write(str(load_result))
